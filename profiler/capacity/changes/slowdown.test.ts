import { describe, expect, test } from 'vitest'
import { createUniform } from '../../seeded-random.ts'
import type { ServiceLog } from '../service-log/service-log.ts'
import { describeSlowdown, detectSlowdown } from './speed-change.ts'

/** Services of so many ms, each a little off, one request at a time. */
const services = (n: number, ms: (i: number) => number, seed = 1): ServiceLog => {
  const uniform = createUniform(seed)
  return stepsOf(
    Array.from({ length: n }, (_, i) => ({ served: 1, ms: ms(i) * (0.9 + 0.2 * uniform()) })),
  )
}
/**
 * Batches of 1 to 8 and of up to `most`, each in 5 ms and one for each of its requests, times a
 * factor.
 */
const batches = (n: number, factor: number, most = 8, seed = 1): ServiceLog => {
  const uniform = createUniform(seed)
  return stepsOf(
    Array.from({ length: n }, () => {
      const served = 1 + Math.floor(uniform() * most)
      return { served, ms: factor * (5 + served) }
    }),
  )
}
const stepsOf = (all: readonly { served: number; ms: number }[]): ServiceLog => ({
  present: all.map(({ served }) => served),
  departed: all.map(({ served }) => served),
  tookMs: all.map(({ ms }) => ms),
  rank: all.map(() => 0),
  endedMs: all.map((_, i) => 100 * i),
  spreadMs: all.map(() => 0),
})

describe('a slowdown', () => {
  test('from one window to the next is found there, with its size', () => {
    const seen = detectSlowdown([
      services(100, () => 3),
      services(100, () => 3, 2),
      services(100, () => 7, 3),
    ])
    expect(seen).toEqual({ speed: expect.closeTo(3 / 7, 1), from: 2 })
  })

  test('within a window is known for sure after the next: the first that lies wholly behind it', () => {
    const changing = services(100, (i) => (i < 40 ? 3 : 7), 2)
    expect(detectSlowdown([services(100, () => 3), changing])).toEqual({
      speed: expect.closeTo(3 / 7, 1),
      from: 2,
    })
    expect(detectSlowdown([services(100, () => 3), changing, services(30, () => 7, 3)])).toEqual({
      speed: expect.closeTo(3 / 7, 1),
      from: 2,
    })
  })

  test('that goes on is one', () => {
    const runs = [0, 1, 2, 3].map((run) => services(100, (i) => 3 + 0.01 * (100 * run + i), run))
    expect(detectSlowdown(runs)).toMatchObject({
      speed: expect.toSatisfy((speed: number) => speed > 0.4 && speed < 0.75),
    })
  })

  test('of batches is told from larger ones', () => {
    expect(detectSlowdown([batches(60, 1, 5), batches(60, 1, 8, 2)])).toBeUndefined()
    expect(detectSlowdown([batches(60, 1), batches(60, 1.4, 8, 2)])).toEqual({
      speed: expect.toSatisfy((speed: number) => speed > 0.68 && speed < 0.8),
      from: 1,
    })
  })

  test('is none where the server is slow now and then, gets faster, or hardly differs', () => {
    const nowAndThen = [3, 6, 3, 3, 6, 6].map((ms, run) => services(100, () => ms, run))
    expect(detectSlowdown(nowAndThen)).toBeUndefined()
    expect(detectSlowdown([services(100, () => 7), services(100, () => 3)])).toBeUndefined()
    expect(detectSlowdown([services(100, () => 3), services(100, () => 3.2, 2)])).toBeUndefined()
    expect(detectSlowdown([services(7, () => 3), services(7, () => 7)])).toBeUndefined()
    expect(detectSlowdown([])).toBeUndefined()
  })
})

test('is told by how much longer steps take, and whether it goes on', () => {
  expect(describeSlowdown(0.5, false)).toBe(
    'slowed down during the measurement: service took 2.00 times as long at the end as at the beginning',
  )
  expect(describeSlowdown(0.8, true)).toBe(
    'still slowing down: service took 1.25 times as long at the end as at the beginning already',
  )
  expect(describeSlowdown(1, true)).toBe('slowing down at the end')
})
