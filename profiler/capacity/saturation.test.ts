import { describe, expect, test } from 'vitest'
import type { Load } from '../model/load.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Slo } from '../model/slo.ts'
import { runOf, scriptedGenerator } from '../testing/scripted-generator.ts'
import { targetAt } from '../testing/servers.ts'
import { efforts } from './effort.ts'
import { planConnectionLoop, saturate } from './saturation.ts'
import { Session } from './session.ts'

const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
const effort = { ...efforts.quick, saturationS: 1 }

/** A closed loop whose answers come evenly; `failing`: as many, none of them well. */
const answers = (
  load: Load,
  count: number,
  failing = false,
  more: Partial<LoadRun> = {},
): LoadRun => {
  const endedMs = Array.from({ length: count }, (_, i) => (1000 * load.durationS * (i + 1)) / count)
  return runOf(load, failing ? endedMs.fill(Number.NaN) : endedMs, {
    sentMs: new Float64Array(count),
    ...more,
  })
}
/** Warm-up loops of so many answers a second. */
const warmedBy = (warmedRps?: readonly number[]) =>
  warmedRps?.map((rps) => ({ rpsUntilSendingEnds: rps, speeds: new Array<number>(8).fill(rps) }))
const connectionsOf = (load: Load): number =>
  load.kind === 'closed' ? load.connections : Number.NaN

async function saturated(
  answer: (connections: number, load: Load, window: number) => LoadRun,
  fromRps = 0,
  maxConnectionCount?: number,
  expectedRps?: number,
  warmedRps?: readonly number[],
) {
  const generator = scriptedGenerator((load, window) => answer(connectionsOf(load), load, window))
  const session = new Session(
    targetAt('http://127.0.0.1:1'),
    slo,
    generator,
    new AbortController().signal,
    () => {},
  )
  const found = await saturate(session, effort, fromRps, {
    maxConnectionCount,
    expectedRps,
    warmUpLoops: warmedBy(warmedRps),
  })
  return { ...found, connectionsAsked: generator.asked.map(connectionsOf) }
}
/** A thousand a second, 8 ms alone. */
const steady = (connections: number) => Math.min(1000, connections * 125)

describe('a closed loop', () => {
  test('has as many connections as the SLO leaves time for and a fifth more, and goes on until four windows are level', async () => {
    const found = await saturated((connections, load) => answers(load, steady(connections)))
    // 1.2 times 1,000 per second times 50 ms.
    expect(found.connectionsAsked).toEqual([8, 60, 60, 60, 60])
    expect(found).toMatchObject({
      rps: expect.closeTo(1000, 6),
      connections: 60,
      isGeneratorLimited: false,
      hasDied: false,
      refusedLoop: undefined,
    })
    expect(found.point.achievedRps).toBe(1000)
  })

  test('stays where a third more connections would be enough; those of the first window do not count', async () => {
    const found = await saturated((_, load) => answers(load, 170))
    // 1.2 times 170 per second times 50 ms are 10.2, 11 of at most 10.4.
    expect(found.connectionsAsked).toEqual([8, 11, 11, 11, 11])
    expect((await saturated((_, load) => answers(load, 160))).connectionsAsked).toEqual([
      8, 10, 10, 10, 10,
    ])
    expect((await saturated((_, load) => answers(load, 100))).connectionsAsked).toEqual([
      8, 8, 8, 8, 8,
    ])
  })

  test('is held while it gets faster by 2 % or more, for a dozen windows at most', async () => {
    const windows = async (rates: readonly number[]) =>
      (
        await saturated(
          (_, load, window) => answers(load, rates[Math.min(window, rates.length - 1)]!),
          0,
          8,
        )
      ).connectionsAsked.length
    // One window to begin with.
    expect([
      await windows([1000, 1000, 1000, 1018, 1018]),
      await windows([1000, 1000, 1000, 1022, 1022]),
    ]).toEqual([5, 7])
    // What was slow before the last four, be it ever so slow, is forgotten.
    expect(await windows([1, 10, 1000, 1000, 1000, 1000])).toBe(6)
    expect(await windows([10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10_240, 20_480])).toBe(
      12,
    )
  })

  test('waits for last answers no longer than six seconds in all; what they came at is a rate too', async () => {
    // Its answers take two seconds and more: none is finished within a window of one.
    const slow = (load: Load, count: number) =>
      runOf(load, Array<number>(count).fill(4000), { sentMs: new Float64Array(count), elapsedS: 4 })
    const found = await saturated((connections, load) => slow(load, connections))
    expect(found.connectionsAsked).toHaveLength(2)
    expect(found).toMatchObject({ rps: 2, hasDied: false })
    expect(found.point.achievedRps).toBe(0)
  })

  test('of a dozen windows ends with what it saw', async () => {
    const growing = await saturated((_, load, window) => answers(load, 10 * 2 ** window), 0, 8)
    expect(growing).toMatchObject({
      rps: expect.closeTo(20_480, 6),
      connections: 8,
      hasDied: false,
    })
  })

  test('begins anew with more connections', async () => {
    // Faster by half from the fourth window on: those before it had fewer connections.
    const found = await saturated((_, load, window) => answers(load, window < 3 ? 1000 : 1500))
    expect(found.connectionsAsked).toEqual([8, 60, 60, 60, 90, 90, 90, 90])
  })

  test('never has more than the most, and one connection counts from the first window on', async () => {
    expect(
      (await saturated((connections, load) => answers(load, steady(connections)), 0, 20))
        .connectionsAsked,
    ).toEqual([8, 20, 20, 20, 20])
    expect((await saturated((_, load) => answers(load, 125), 0, 1)).connectionsAsked).toEqual([
      1, 1, 1, 1,
    ])
    expect(
      (await saturated((_, load) => answers(load, 40_000))).connectionsAsked.slice(0, 2),
    ).toEqual([8, 128])
  })

  test('is halved while requests are refused, and the last refusal told', async () => {
    const found = await saturated((connections, load) =>
      answers(load, connections > 16 ? 500 : steady(connections), connections > 16),
    )
    expect(found.connectionsAsked).toEqual([8, 60, 30, 15, 15, 15, 15])
    expect(found).toMatchObject({ rps: expect.closeTo(1000, 6), connections: 15, hasDied: false })
    expect(found.refusedLoop!.load).toMatchObject({ connections: 30 })
    const smaller = await saturated((connections, load) =>
      answers(load, connections > 8 ? 500 : 1000, connections > 8),
    )
    expect(smaller.connectionsAsked).toEqual([8, 60, 30, 15, 7, 7, 7, 7])
    // What was answered before a refusal does not count after it.
    const later = await saturated((connections, load, window) =>
      answers(load, steady(connections), window === 3),
    )
    expect(later.connectionsAsked).toEqual([8, 60, 60, 60, 30, 30, 30, 30])
    const hopeless = await saturated((_, load) => answers(load, 500, true), 40)
    expect(hopeless.connectionsAsked).toEqual([8, 4, 2, 1])
    expect(hopeless).toMatchObject({ rps: 40, connections: 1, hasDied: false })
  })

  test('ends with the server, and tells of a generator at its limit', async () => {
    const died = await saturated((_, load, window) =>
      window === 0 ? answers(load, 1000) : answers(load, 50, true, { errorKinds: { refused: 50 } }),
    )
    expect(died).toMatchObject({ hasDied: true, rps: expect.closeTo(1000, 6) })
    expect(died.connectionsAsked).toEqual([8, 60])
    const busy = await saturated(
      (connections, load) => answers(load, steady(connections), false, { generatorCores: 0.95 }),
      1500,
    )
    expect(busy).toMatchObject({ isGeneratorLimited: true, rps: 1500, connections: 90 })
  })
})

describe('an SLO that is long beside a window', () => {
  /** 1.2 times 2 s at 330 a second would be 792 connections, whose answers take 2.4 s. */
  const asked = async (
    answered: (connections: number, window: number) => number,
    warmedRps?: readonly number[],
  ) => {
    const generator = scriptedGenerator((load, window) =>
      answers(load, answered(connectionsOf(load), window)),
    )
    const session = new Session(
      targetAt('http://127.0.0.1:1'),
      { ...slo, limitMs: 2000 },
      generator,
      new AbortController().signal,
      () => {},
    )
    const found = await saturate(session, effort, 0, { warmUpLoops: warmedBy(warmedRps) })
    return { ...found, asked: generator.asked.map(connectionsOf) }
  }

  test('is climbed to by fours, as long as more connections get more answers', async () => {
    expect((await asked(() => 330)).asked).toEqual([8, 32, 32, 32, 32])
    // Sixteen at a time: 32 get twice as many as 8, and 128 no more.
    expect((await asked((connections) => 50 * Math.min(16, connections))).asked).toEqual([
      8, 32, 128, 128, 128,
    ])
    expect((await asked((connections) => 5 * Math.min(200, connections))).asked).toEqual([
      8, 32, 128, 512, 1024, 1024, 1024,
    ])
  })

  test('of a cold server, which answers none of many at once, is climbed to again once it answers', async () => {
    const cold = await asked((connections, window) =>
      window === 1 ? 1 : Math.min(connections, 100) * 10,
    )
    expect(cold.asked.slice(0, 4)).toEqual([8, 32, 32, 128])
    expect(cold).toMatchObject({ rps: expect.closeTo(1000, 6), connections: 512 })
  })

  test('needs two windows more where the warm-up has seen what eight connections get', async () => {
    expect((await asked(() => 330, [330, 330, 330])).asked).toEqual([32, 32])
    expect((await asked(() => 330, [330])).asked).toEqual([32, 32, 32])
    expect((await asked(() => 330, [60, 60, 60, 330])).asked).toEqual([32, 32, 32])
    expect(
      (await asked((connections) => 50 * Math.min(16, connections), [400, 400, 400])).asked,
    ).toEqual([32, 128, 128, 128])
  })
})

describe('connections that take long to open', () => {
  /**
   * Each gets its first answer after 90 ms for every 100 of them; all together 5,000 a second from
   * then on.
   */
  const opening = (connections: number, load: Load): LoadRun => {
    const firstMs = 0.9 * connections
    const ends = Array.from(
      { length: Math.max(connections, Math.floor(5 * (1000 * load.durationS - firstMs))) },
      (_, i) => firstMs + i / 5,
    )
    const sentMs = Float64Array.from(ends, (_, i) => (i < connections ? 0 : ends[i - connections]!))
    return runOf(
      load,
      ends.map((at, i) => at - sentMs[i]!),
      { sentMs, seconds: load.durationS },
    )
  }
  const opened = async (saturationS: number) => {
    const generator = scriptedGenerator((load) => opening(connectionsOf(load), load))
    const session = new Session(
      targetAt('http://127.0.0.1:1'),
      slo,
      generator,
      new AbortController().signal,
      () => {},
    )
    const found = await saturate(session, { ...effort, saturationS }, 0)
    return { ...found, lengthsS: generator.asked.map(({ durationS }) => durationS) }
  }

  test('are no slow server: what they get counts from when each has had an answer', async () => {
    const { rps, lengthsS } = await opened(0.25)
    expect(rps / 5000).toBeCloseTo(1, 1)
    expect(new Set(lengthsS)).toEqual(new Set([0.25]))
  })

  test('make a window longer that is over before they are open, four times at most', async () => {
    const { rps, lengthsS } = await opened(0.1)
    expect(rps / 5000).toBeCloseTo(1, 1)
    expect(Math.max(...lengthsS)).toBe(0.2)
    expect(Math.max(...(await opened(0.02)).lengthsS)).toBeLessThanOrEqual(0.08)
  })
})

describe('what the warm-up saw', () => {
  test('counts where as many connections are enough, and says how many are where they are not', async () => {
    expect(
      (
        await saturated(
          (_, load) => answers(load, 125),
          0,
          undefined,
          undefined,
          [125, 125, 125, 125],
        )
      ).connectionsAsked,
    ).toEqual([8, 8])
    expect(
      (
        await saturated(
          (connections, load) => answers(load, steady(connections)),
          0,
          undefined,
          undefined,
          [1000, 1000],
        )
      ).connectionsAsked,
    ).toEqual([60, 60, 60, 60])
  })
})

describe('the loop that opens connections', () => {
  const found = {
    rps: 333,
    connections: 32,
    isGeneratorLimited: false,
    isDisturbed: false,
    hasDied: false,
    point: {} as LoadPoint,
  }
  test('is as large as the one before it, or a burst of as many as may wait, of a second’s at most', () => {
    expect(planConnectionLoop({ ...found, connections: 20 }, 50, 0.25)).toEqual({
      connections: 20,
      durationS: 0.25,
      isBurst: false,
    })
    expect(planConnectionLoop(found, 500, 0.25)).toEqual({
      connections: 200,
      durationS: 0.05,
      isBurst: true,
    })
    expect(planConnectionLoop(found, 5000, 0.25)).toEqual({
      connections: 333,
      durationS: 0.05,
      isBurst: true,
    })
    expect(planConnectionLoop({ ...found, rps: 20 }, 5000, 0.25)).toEqual({
      connections: 120,
      durationS: 0.05,
      isBurst: true,
    })
    expect(planConnectionLoop({ ...found, rps: 40 }, 5000, 0.25)).toEqual({
      connections: 128,
      durationS: 0.05,
      isBurst: true,
    })
  })
  test('is no burst where requests were refused', () => {
    expect(planConnectionLoop({ ...found, refusedLoop: {} as LoadRun }, 500, 0.25).isBurst).toBe(
      false,
    )
  })
})

describe('of a server that is known about', () => {
  const found = async (expectedRps: number, answered = steady) =>
    (
      await saturated(
        (connections, load) => answers(load, answered(connections)),
        0,
        undefined,
        expectedRps,
      )
    ).connectionsAsked

  test('it climbs as ever, for a cold server answers none of many at once, and ends with two windows that bear out what is expected', async () => {
    expect(await found(1000)).toEqual([8, 60, 60])
    // 1,190 and 850 are within 1.2 of 1,000.
    expect(await found(1190)).toEqual([8, 60, 60])
    expect(await found(850)).toEqual([8, 60, 60])
    // 800 are not.
    expect(await found(800)).toEqual([8, 60, 60, 60, 60])
  })

  test('two windows that differ are not enough, and the first, which may be cold, is forgotten', async () => {
    let window = 0
    expect(await found(1000, () => (window++ === 0 ? 900 : 1000))).toEqual([8, 54, 60])
  })

  test('it climbs as ever where the expectation is wrong, either way', async () => {
    expect(await found(100)).toEqual([8, 60, 60, 60, 60])
    expect(await found(4000)).toEqual([8, 60, 60, 60, 60])
    expect(await found(4000, () => 200)).toEqual([8, 12, 12, 12, 12])
  })
})
