import { expect, test } from 'vitest'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import { abortWhenRefused, findRefusal } from './refused-requests.ts'

const point = (requests: number, errorKinds: Record<string, number>) =>
  ({
    requests,
    errors: Object.values(errorKinds).reduce((sum, count) => sum + count, 0),
    errorKinds,
  }) as unknown as LoadPoint

test.each([
  ['served', 100, {}, undefined],
  ['refused whole', 100, { 'status 401': 100 }, '401'],
  ['refused but for a few that were under way', 100, { 'status 404': 93 }, '404'],
  ['overloaded', 100, { 'status 503': 100 }, undefined],
  ['limited: a share of it is refused', 100, { 'status 403': 60 }, undefined],
  ['too short to tell', 3, { 'status 401': 3 }, undefined],
  ['another one broke', 100, { 'status 401': 45, reset: 55 }, undefined],
] as const)('a window that was %s', (_, requests, kinds, status) => {
  expect(findRefusal(point(requests, kinds))?.status).toBe(status)
})

const never = new AbortController().signal
/** Plays windows until it is told to end. */
const playing =
  (points: readonly LoadPoint[]) =>
  async (onStep: (point: LoadPoint, phase: 'search') => void, signal: AbortSignal) => {
    for (const one of points) {
      onStep(one, 'search')
      signal.throwIfAborted()
    }
    return 'measured'
  }

test('the first window that is refused whole ends the measurement, with the status and what to change', async () => {
  const seen: number[] = []
  const work = playing([point(50, {}), point(60, { 'status 401': 60 }), point(70, {})])
  const measured = abortWhenRefused(
    { logPath: 'log' },
    'experiment',
    ({ requests }) => seen.push(requests),
    never,
    work,
  )
  await expect(measured).rejects.toMatchObject({
    name: 'LaunchError',
    message: 'the server first served correctly, then answered 401 to 60 of 60 requests',
    hint: expect.stringContaining('--header'),
    logPath: 'log',
    final: 'experiment',
  })
  expect(seen).toEqual([50, 60])
})

test('a server that answers is measured to the end; an interruption is one', async () => {
  const good = playing([point(50, {}), point(60, { 'status 503': 60 })])
  expect(await abortWhenRefused({}, 'experiment', () => {}, never, good)).toBe('measured')
  const stopped = AbortSignal.abort(new Error('interrupted'))
  await expect(abortWhenRefused({}, 'experiment', () => {}, stopped, good)).rejects.toThrow(
    'interrupted',
  )
})
