import { describe, expect, test } from 'vitest'
import type { Phase } from '../model/load.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Uniform } from '../seeded-random.ts'
import { QueueServer } from '../testing/queue-server.ts'
import { runOf, scriptedGenerator } from '../testing/scripted-generator.ts'
import { targetAt } from '../testing/servers.ts'
import { simpleCases } from '../testing/simple-servers.ts'
import { measureCapacity } from './measure.ts'
import { Session } from './session.ts'
import {
  estimateRequestsToWarm,
  estimateRequestsUntilSteady,
  RequestWarmUp,
  summariseWarmUp,
  warmUntilSteady,
} from './warm-up.ts'

/**
 * How many windows of a dozen requests of these latencies are played; `undefined` where none is.
 */
async function windowsOf(
  windows: readonly (number | undefined)[],
  most = windows.length,
  more: Partial<LoadRun>[] = [],
): Promise<number> {
  let played = 0
  await warmUntilSteady(most, async (window) => {
    expect(window).toBe(played)
    const ms = windows[played++]
    const load = { kind: 'closed', connections: 2, durationS: 1 } as const
    return ms === undefined ? undefined : runOf(load, new Array<number>(12).fill(ms), more[window])
  })
  return played
}

test('goes on while a window is faster than the one before by 2 % at least', async () => {
  expect(await windowsOf([100, 90, 80, 79, 10])).toBe(4)
  expect(await windowsOf([100, 97.9, 96.5, 10])).toBe(3)
  expect(await windowsOf([100, 98.1, 10])).toBe(2)
  expect(await windowsOf([100, 110, 10])).toBe(2)
})

test('not beyond the most, nor beyond a window that was not played; one that was cut short does not end it', async () => {
  expect(await windowsOf([100, 50, 25, 12, 6], 3)).toBe(3)
  expect(await windowsOf([100, undefined, 25])).toBe(2)
  expect(await windowsOf([100, 100, 100, 1], 4, [{}, { cutMs: 500 }, {}])).toBe(3)
})

describe('what a warm-up by number tells', () => {
  const windows = (...answered: number[]) =>
    answered.map((rps, i) => ({
      rpsUntilLastAnswer: rps,
      rpsUntilSendingEnds: rps,
      speeds: new Array<number>(8).fill(rps),
      elapsedS: 1,
      untilS: i + 1,
    }))

  test('it was steady after the last window from which the others grew no more', () => {
    expect(summariseWarmUp(540, windows(100, 100, 100, 100))).toEqual({
      requests: 540,
      steadyAfter: 140,
    })
    expect(summariseWarmUp(540, windows(20, 20, 100, 100, 100, 100))).toEqual({
      requests: 540,
      steadyAfter: 140,
    })
    expect(summariseWarmUp(300, windows(20, 40, 80, 160))).toEqual({
      requests: 300,
      steadyAfter: 140,
    })
    expect(summariseWarmUp(700, [])).toEqual({ requests: 700, steadyAfter: 700 })
  })

  test('half as many again warm servers alike, 128 at least and no more than an unknown one gets', () => {
    expect(estimateRequestsToWarm([])).toBeUndefined()
    expect(estimateRequestsToWarm([{ requests: 511, steadyAfter: 40 }])).toBeUndefined()
    expect(estimateRequestsToWarm([{ requests: 512, steadyAfter: 40 }])).toBe(128)
    const two = [
      { requests: 512, steadyAfter: 100 },
      { requests: 600, steadyAfter: 201 },
    ]
    expect(estimateRequestsToWarm(two)).toBe(302)
    expect(estimateRequestsToWarm([...two, { requests: 300, steadyAfter: 300 }])).toBe(302)
    expect(estimateRequestsToWarm([{ requests: 900, steadyAfter: 500 }])).toBe(512)
    expect(estimateRequestsUntilSteady([{ requests: 900, steadyAfter: 500 }])).toBe(750)
    expect(estimateRequestsUntilSteady([])).toBeUndefined()
  })

  /**
   * What is gained per second as windows of a second each, of eight connections, have these
   * answers.
   */
  const gainsOf = async (answered: readonly number[], recheckGain?: readonly number[]) => {
    const all = [...answered, ...(recheckGain ?? [])]
    const generator = scriptedGenerator((load, window) =>
      runOf(load, Array<number>(all[window]!).fill(8)),
    )
    const session = new Session(
      targetAt('http://127.0.0.1:1'),
      slo,
      generator,
      new AbortController().signal,
      () => {},
    )
    const warmUp = new RequestWarmUp(session, 1)
    for (const _ of answered) await warmUp.play()
    const isWarm = warmUp.isWarm()
    if (recheckGain !== undefined) await warmUp.recheckGain()
    return { isWarm, gainPerS: warmUp.gainPerS, windows: generator.asked.length }
  }
  const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }

  test('a slow server that gains little by little is not warm, be the gain within the chance of arrivals at random', async () => {
    const gains = [64, 64, 65, 66, 66, 67, 68, 69]
    const { isWarm, gainPerS } = await gainsOf(gains)
    expect(isWarm).toBe(false)
    // Four of 259 and four of 270, four seconds apart.
    expect(gainPerS).toBeCloseTo((270 / 259 - 1) / 4, 9)
    expect(await gainsOf([66, 64, 68, 65, 67, 64, 69, 66])).toMatchObject({
      isWarm: true,
      gainPerS: 0,
    })
    expect(await gainsOf([64, 64, 64, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69])).toMatchObject({
      isWarm: true,
      gainPerS: 0,
    })
  })

  test('a gain that eight windows do not show is shown by all of them, unless it has ended', async () => {
    const slowly = [31, 30, 32, 30, 31, 33, 31, 32, 34, 33, 35, 33, 34, 36, 34, 35]
    expect((await gainsOf(slowly.slice(-8))).gainPerS).toBe(0)
    expect((await gainsOf(slowly)).gainPerS).toBeCloseTo((274 / 250 - 1) / 8, 9)
    expect(
      (await gainsOf([...Array<number>(6).fill(60), ...Array<number>(10).fill(300)])).gainPerS,
    ).toBe(0)
  })

  test('one that was still gaining is looked at again, beside its last windows', async () => {
    const gains = [64, 64, 65, 66, 66, 67, 68, 69]
    expect(await gainsOf(gains, [66, 65, 66, 66, 68, 67, 65, 66])).toMatchObject({
      gainPerS: 0,
      windows: 16,
    })
    expect((await gainsOf(gains, [80, 80, 81, 82, 82, 81, 83, 84])).gainPerS).toBeCloseTo(
      (653 / 529 - 1) / 8,
      9,
    )
    // One that was level is not asked again.
    expect((await gainsOf(Array<number>(8).fill(64), [])).windows).toBe(8)
  })

  const measured = async (name: string, warmUpRequests?: number) => {
    const { server, slo } = simpleCases.find((one) => one.name === name)!
    const target = { kind: 'virtual', server: server(1) } as const
    return measureCapacity({
      target,
      slo,
      signal: new AbortController().signal,
      effort: 'quick',
      warmUpRequests,
    })
  }

  test('a steady server is measured sooner for it, and comes to the same', async () => {
    const [whole, shorter] = [await measured('FIFO 8 ms'), await measured('FIFO 8 ms', 128)]
    expect(estimateRequestsToWarm([whole.warmUp!])).toBeLessThan(300)
    expect(shorter.seconds).toBeLessThan(whole.seconds - 2)
    expect(shorter.capacityRps / whole.capacityRps).toBeCloseTo(1, 1)
  })

  test('more connections bring one of a known kind sooner to as many requests as it has not had yet', async () => {
    const { server, slo } = simpleCases.find((one) => one.name === 'FIFO 8 ms')!
    const warmingBy = async (warmUpRequests?: number) => {
      const connections: number[] = []
      const onStep = ({ load }: LoadPoint, phase: Phase) => {
        if (phase === 'warm-up' && load.kind === 'closed' && !load.forOpen)
          connections.push(load.connections)
      }
      const target = { kind: 'virtual', server: server(1) } as const
      await measureCapacity({
        target,
        slo,
        signal: new AbortController().signal,
        effort: 'quick',
        warmUpRequests,
        onStep,
      })
      return connections
    }
    expect((await warmingBy(200)).slice(0, 2)).toEqual([2, 8])
    // As many as it has had in the first window: that it gets no faster is seen by as few
    // connections.
    expect((await warmingBy(20)).slice(0, 2)).toEqual([2, 2])
    expect((await warmingBy()).slice(0, 2)).toEqual([2, 2])
  })

  test('one that warms by its number of requests tells of as many', async () => {
    const { warmUp } = await measured('FIFO 8 ms, first 300 5x slower')
    expect(warmUp!.steadyAfter).toBeGreaterThan(300)
    expect(estimateRequestsToWarm([warmUp!])).toBeGreaterThan(450)
  })
})

/**
 * Each request is served a little faster than the one before, `times` as long at first and e times
 * less of that every `requests`.
 */
const warmingByCount = (
  servers: number,
  ms: number,
  times: number,
  requests: number,
  seed: number,
) => {
  let served = 0
  const serviceMs = (_: number, uniform: Uniform) =>
    ms * (0.8 + 0.4 * uniform()) * (1 + (times - 1) * Math.exp(-served++ / requests))
  return new QueueServer({ seed, servers, maxBatch: 1, serviceMs })
}

describe('a slow server that warms by the number of its requests, for longer than the warm-up', () => {
  const slo = { percentile: 0.99, limitMs: 120, maxErrorRate: 0.001 }
  const measured = async (server: QueueServer) =>
    measureCapacity({
      target: { kind: 'virtual', server },
      slo,
      signal: new AbortController().signal,
      effort: 'quick',
    })

  test('is measured when it is warm: two workers of 14 ms, four times as long at first', async () => {
    const cold = await measured(warmingByCount(2, 14, 4, 500, 3))
    const warm = await measured(warmingByCount(2, 14, 1, 1, 3))
    // Without: 14 to 55 % too low, and converged.
    expect(cold.capacityRps / warm.capacityRps).toBeGreaterThan(0.95)
    expect(cold.capacityCi90Rps[1]).toBeGreaterThan(0.98 * warm.capacityRps)
  })

  test('is not said to be known where it gains for longer than that is waited for', async () => {
    const { outcome, detail, capacityCi90Rps } = await measured(warmingByCount(1, 6, 5, 2500, 3))
    expect(outcome).toBe('non-stationary')
    expect(detail).toMatch(/^still speeding up: /)
    expect(capacityCi90Rps[1]).toBe(Number.POSITIVE_INFINITY)
  })
})
