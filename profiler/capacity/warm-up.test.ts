import { describe, expect, test } from 'vitest'
import { runOf } from '../testing/scripted-generator.ts'
import { simpleCases } from '../testing/simple-servers.ts'
import type { LoadRun } from '../types.ts'
import { measureCapacity } from './measure.ts'
import { requestsToWarm, untilNoFaster, warmUpOf } from './warm-up.ts'

/** How many windows of these latencies are played; `undefined` where none is. */
async function windowsOf(
  windows: readonly (readonly number[] | undefined)[],
  most = windows.length,
  more: Partial<LoadRun>[] = [],
): Promise<number> {
  let played = 0
  await untilNoFaster(most, async (window) => {
    expect(window).toBe(played)
    const latencies = windows[played++]
    return latencies && runOf({ kind: 'closed', connections: 2, durationS: 1 }, latencies, more[window])
  })
  return played
}

test('goes on while a window is faster than the one before by 2 % at least', async () => {
  expect(await windowsOf([[100], [90], [80], [79], [10]])).toBe(4)
  expect(await windowsOf([[100], [98], [96.5], [10]])).toBe(3)
  expect(await windowsOf([[100], [98.1], [10]])).toBe(2)
  expect(await windowsOf([[100], [110], [10]])).toBe(2)
})

test('and by more than chance: two standard errors of both', async () => {
  // Two answers 6 ms apart: a variance of 18, a standard error of 3; of both windows 4.24, and twice that.
  const about = (mean: number) => [mean - 3, mean + 3]
  expect(await windowsOf([about(100), about(91.6), [1]])).toBe(2)
  expect(await windowsOf([about(100), about(91.4), [1]])).toBe(3)
})

test('not beyond the most, nor beyond a window that was not played; one that was cut short does not end it', async () => {
  expect(await windowsOf([[100], [50], [25], [12], [6]], 3)).toBe(3)
  expect(await windowsOf([[100], undefined, [25]])).toBe(2)
  expect(await windowsOf([[100], [100], [100], [1]], 4, [{}, { cutMs: 500 }, {}])).toBe(3)
})

describe('what a warm-up by number tells', () => {
  test('it was steady after the last window from which the others grew no more', () => {
    expect(warmUpOf(540, [100, 100, 100, 100])).toEqual({ requests: 540, steadyAfter: 140 })
    expect(warmUpOf(540, [20, 20, 100, 100, 100, 100])).toEqual({ requests: 540, steadyAfter: 140 })
    expect(warmUpOf(300, [20, 40, 80, 160])).toEqual({ requests: 300, steadyAfter: 140 })
    expect(warmUpOf(700, [])).toEqual({ requests: 700, steadyAfter: 700 })
  })

  test('half as many again warm servers alike, 128 at least and no more than an unknown one gets', () => {
    expect(requestsToWarm([])).toBeUndefined()
    expect(requestsToWarm([{ requests: 511, steadyAfter: 40 }])).toBeUndefined()
    expect(requestsToWarm([{ requests: 512, steadyAfter: 40 }])).toBe(128)
    const two = [
      { requests: 512, steadyAfter: 100 },
      { requests: 600, steadyAfter: 201 },
    ]
    expect(requestsToWarm(two)).toBe(302)
    expect(requestsToWarm([...two, { requests: 300, steadyAfter: 300 }])).toBe(302)
    expect(requestsToWarm([{ requests: 900, steadyAfter: 500 }])).toBe(512)
  })

  const measured = async (name: string, warmUpRequests?: number) => {
    const { server, slo } = simpleCases.find((one) => one.name === name)!
    const target = { kind: 'virtual', server: server(1) } as const
    return measureCapacity({ target, slo, signal: new AbortController().signal, effort: 'quick', warmUpRequests })
  }

  test('a steady server is measured sooner for it, and comes to the same', async () => {
    const [whole, shorter] = [await measured('FIFO 8 ms'), await measured('FIFO 8 ms', 128)]
    expect(requestsToWarm([whole.warmUp!])).toBeLessThan(300)
    expect(shorter.seconds).toBeLessThan(whole.seconds - 2)
    expect(shorter.capacityRps / whole.capacityRps).toBeCloseTo(1, 1)
  })

  test('one that warms by its number of requests tells of as many', async () => {
    const { warmUp } = await measured('FIFO 8 ms, first 300 5x slower')
    expect(warmUp!.steadyAfter).toBeGreaterThan(300)
    expect(requestsToWarm([warmUp!])).toBe(512)
  })
})
