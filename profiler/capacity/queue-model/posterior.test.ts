/**
 * The posterior of the capacity where the queue model's own is known without playing it: by its
 * slowness alone.
 */
import { describe, expect, test } from 'vitest'
import type { LoadRun } from '../../model/load-run.ts'
import type { Slo } from '../../model/slo.ts'
import { createUniform } from '../../seeded-random.ts'
import { runOf } from '../../testing/scripted-generator.ts'
import type { ObservedRun, ServiceLog } from '../service-log/service-log.ts'
import { estimatePosterior } from './posterior.ts'
import type { CalibratedDiscipline } from './service-discipline.ts'

const play = { requests: 100, maxRequests: 100, replicates: 2 }
const slo = (limitMs: number, percentile = 0.99, maxErrorRate = 0.001): Slo => ({
  percentile,
  limitMs,
  maxErrorRate,
})

/**
 * Forty steps of 10 ms, so many of which served a later request before an earlier one, and whose
 * answers took so long to write.
 */
const stepsOf = (
  overtaking = 0,
  spreadMs = 0,
  tookMs: (i: number) => number = () => 10,
): ServiceLog => {
  const each = Array.from({ length: 40 }, (_, i) => i)
  return {
    present: each.map(() => 1),
    tookMs: each.map(tookMs),
    departed: each.map(() => 1),
    rank: each.map((i) => (i < overtaking ? 2 : 0)),
    endedMs: each.map((i) => 100 * i),
    spreadMs: each.map(() => spreadMs),
  }
}
/** Requests a second apart: none waits for another. */
function window(
  latencyMs: readonly number[],
  log = stepsOf(),
  more: Partial<LoadRun> = {},
  disturbed: ObservedRun['disturbed'] = [],
): ObservedRun {
  const load = {
    kind: 'open',
    rateRps: 1,
    arrivals: { kind: 'constant' },
    durationS: latencyMs.length,
    seed: 1,
  } as const
  return { run: runOf(load, latencyMs, more), disturbed, log }
}

/** ln P(count), negative binomial with this mean and variance: the product of its terms. */
function logCount(count: number, mean: number, variance: number): number {
  const p = mean / variance
  const size = (mean * p) / (1 - p)
  let log = size * Math.log(p)
  for (let i = 1; i <= count; i++) log += Math.log((size + i - 1) / i) + Math.log(1 - p)
  return log
}

const oneWorker = { workers: 1, maxBatch: 1, maxDelayMs: 0, overheadMs: 0 } as const

interface Seen {
  /**
   * Requests that count, and how many of them were over; those of the queue model's where it is
   * slower than `beyond`, or `always`.
   */
  readonly n: number
  readonly over: number
  readonly always?: number
}
/** Doubt of steps that all overtake. */
const allOvertake = 0.055

/**
 * Capacities of slownesses s and errors e of the queue model: capacity / s exp(e), up to `mostRps`,
 * each with its probability. Slownesses are known 4 % apart, their likelihoods by straight lines
 * between.
 */
function expected(
  doubt: number,
  slowestRps: number,
  windows: readonly Seen[] = [],
  beyond = 0,
  mostRps = Number.POSITIVE_INFINITY,
  loose = doubt < allOvertake ? 0 : 0.3,
) {
  const normalAt = (x: number, sd: number) => Math.exp((-x * x) / (2 * sd * sd)) / sd
  const likelihood = Array.from({ length: 17 }, (_, i) => {
    const isOver = (i - 8) * 0.04 > beyond
    return windows.reduce((log, { n, over, always = 0 }) => {
      const mean = always + (isOver ? n : 0) + 0.25
      return log + logCount(over, mean, mean + 0.25 + (0.05 * mean) ** 2)
    }, 0)
  })
  const slow: { x: number; weight: number }[] = []
  for (let i = 0; i <= 80; i++) {
    const x = (i - 40) * 0.008
    const [left, share] = [Math.min(15, Math.floor(i / 5)), i / 5 - Math.min(15, Math.floor(i / 5))]
    const log = likelihood[left]! * (1 - share) + likelihood[left + 1]! * share
    const within = 0.75 * normalAt(x, doubt) + 0.25 * normalAt(x, 3 * doubt)
    slow.push({ x, weight: Math.exp(log) * ((1 - loose) * within + loose * normalAt(x, 0.2)) })
  }
  const errors = [-2, -1, 0, 1, 2].map((z) => ({ e: z * doubt, weight: Math.exp(-0.5 * z * z) }))
  const total =
    slow.reduce((sum, { weight }) => sum + weight, 0) *
    errors.reduce((sum, { weight }) => sum + weight, 0)
  const particles = slow
    .flatMap(({ x, weight }) =>
      errors.map((error) => ({
        rps: Math.min(mostRps, slowestRps * Math.exp(error.e - x)),
        weight: (weight * error.weight) / total / 2,
      })),
    )
    // Of two queue models that are alike.
    .flatMap((particle) => [particle, particle])
    .sort((a, b) => a.rps - b.rps)
  const below = (rps: number) =>
    particles.reduce((sum, p) => (p.rps < rps ? sum + p.weight : sum), 0)
  /**
   * Where the sum of the probabilities, by straight lines from one capacity to the next, is so
   * much.
   */
  const quantile = (probability: number) => {
    let [beforeRps, sum] = [particles[0]!.rps, 0]
    for (const { rps, weight } of particles) {
      if (sum + weight > probability)
        return beforeRps + (rps - beforeRps) * ((probability - sum) / weight)
      ;[beforeRps, sum] = [rps, sum + weight]
    }
    return beforeRps
  }
  return { below, quantile }
}

/**
 * A limit that everybody misses, so that the capacity is the lowest rate that is looked at: a fifth
 * of the saturation, 12 % below.
 */
const lowestRps = 20 * Math.exp(-0.12)

/** Whether a posterior is what is expected, at rates all over it. */
function expectAlike(
  found: ReturnType<typeof estimatePosterior>,
  wanted: ReturnType<typeof expected>,
  precision = 3,
) {
  for (let x = -0.4; x <= 0.4; x += 0.0137)
    expect(found.computeProbabilityBelow(lowestRps * Math.exp(x))).toBeCloseTo(
      wanted.below(lowestRps * Math.exp(x)),
      precision,
    )
  const quantiles = [0.05, 0.5, 0.95].map((probability) => wanted.quantile(probability))
  for (const [i, rps] of [
    found.capacityCi90Rps[0],
    found.capacityRps,
    found.capacityCi90Rps[1],
  ].entries())
    expect(Math.abs(rps / quantiles[i]! - 1)).toBeLessThan(2e-4)
}

describe('without a request to compare, a capacity is as uncertain as the queue model', () => {
  const doubted = (log: ServiceLog, limitMs = 1) =>
    estimatePosterior([window([], log)], slo(limitMs), play, 1)

  test('half a per cent; up to 5 % more as far as requests overtake one another, and 6 % as far as answers are being written', () => {
    for (const [overtaking, spreadMs, doubt] of [
      [2, 0, 0.0075],
      [0, 5, 0.035],
      [2, 2, 0.0195],
    ] as const)
      expectAlike(doubted(stepsOf(overtaking, spreadMs)), expected(doubt, lowestRps))
    expectAlike(doubted(stepsOf()), expected(0.005, lowestRps))
  })

  test('and three in ten open to all speeds where a tenth and more overtake: the order may be another than the queue model’s', () => {
    for (const [overtaking, doubt, loose] of [
      [40, 0.055, 0.3],
      [20, 0.03, 0.3],
      [4, 0.01, 0.3],
      [3, 0.00875, 0],
    ] as const)
      expectAlike(
        doubted(stepsOf(overtaking)),
        expected(doubt, lowestRps, [], 0, Number.POSITIVE_INFINITY, loose),
      )
    // The last come first is an order that is known.
    const last = {
      ...stepsOf(40),
      present: Array.from({ length: 40 }, (_, i) => 3 + (i % 3)),
      rank: Array.from({ length: 40 }, (_, i) => 2 + (i % 3)),
    }
    const found = doubted(last)
    expect(Math.log(found.capacityCi90Rps[1] / found.capacityCi90Rps[0])).toBeLessThan(6 * 0.055)
  })

  test('and never more than its saturation', () => {
    const found = doubted(stepsOf(40), 1e9)
    // Looked for up to 110 exp(.05) a second.
    const wanted = expected(0.055, 110 * Math.exp(0.05), [], 0, 100, 0.3)
    expect(found.computeProbabilityBelow(100)).toBeCloseTo(wanted.below(100), 3)
    expect(found.computeProbabilityBelow(90)).toBeCloseTo(wanted.below(90), 3)
    expect([
      found.capacityRps,
      found.capacityCi90Rps[1],
      found.computeProbabilityBelow(100.001),
    ]).toEqual([100, 100, expect.closeTo(1, 5)])
  })

  test('whatever the seed, of steps that are all alike', () => {
    const of = (seed: number) =>
      estimatePosterior([window([], stepsOf(20))], slo(1), play, seed).capacityRps
    expect(of(1)).toBe(of(2))
  })

  test('there has to be a step', () => {
    const none: ServiceLog = {
      present: [],
      tookMs: [],
      departed: [],
      rank: [],
      endedMs: [],
      spreadMs: [],
    }
    expect(() => doubted(none)).toThrow(RangeError)
  })
})

describe('requests over the limit tell how slow the server is', () => {
  const log = stepsOf(40)
  /**
   * The limit is 10.2 ms: of a queue model that is more than 2 % slower than seen everybody is over
   * it.
   */
  const limit = slo(10.2)
  const fast = (n: number): number[] => Array<number>(n).fill(5)
  const slow = (n: number): number[] => Array<number>(n).fill(50)
  const seen = (windows: readonly ObservedRun[], of = limit) =>
    estimatePosterior(windows, of, play, 1)
  const wanted = (...windows: Seen[]) => expected(0.055, lowestRps, windows, 0.02)

  test.each([
    [1, 0],
    [4, 0],
    [4, 2],
    [4, 4],
    [30, 30],
    [30, 12],
  ])('of %i requests %i', (n, over) => {
    expectAlike(seen([window([...slow(over), ...fast(n - over)], log)]), wanted({ n, over }))
  })

  test('window by window', () => {
    expectAlike(
      seen([
        window([...slow(2), ...fast(2)], log),
        window([...slow(1), ...fast(4)], stepsOf(40)),
        window([], log),
      ]),
      wanted({ n: 4, over: 2 }, { n: 5, over: 1 }),
    )
  })

  test('at the limit is not over it', () => {
    expectAlike(seen([window([10.2, 10.2, 10.21, 5], log)]), wanted({ n: 4, over: 1 }))
  })

  test('but for those that met a disturbance, while they were there', () => {
    const disturbed = [[1040, 1060]] as const
    // Sent at 1,000 ms: after 50 ms of it, or 39; and one that was lost.
    expectAlike(seen([window([50, 50, 5, 5], log, {}, disturbed)]), wanted({ n: 3, over: 1 }))
    expectAlike(seen([window([50, 39, 5, 5], log, {}, disturbed)]), wanted({ n: 4, over: 2 }))
    expectAlike(
      seen([window([5, Number.NaN, 5, 5], log, {}, [[999, 1000]])]),
      wanted({ n: 3, over: 0 }),
    )
  })

  test('but for those too young, when their window was cut, to have missed the limit', () => {
    expectAlike(
      seen([window([50, 5, 5, 5], log, { cutMs: 2000 + 10.2 })]),
      wanted({ n: 3, over: 1 }),
    )
    expectAlike(
      seen([window([50, 5, 5, 5], log, { cutMs: 2000 + 10.1 })]),
      wanted({ n: 2, over: 1 }),
    )
    expectAlike(seen([window([50, 5, 5, 5], log, { cutMs: 10 })]), wanted())
  })

  test('the first 8,000 of a window', () => {
    const many = (n: number, over: number) => {
      const latencyMs = [...fast(n), ...slow(over)]
      return window(latencyMs, log, { sentMs: Float64Array.from(latencyMs, (_, i) => 20 * i) })
    }
    const [all, later, within] = [many(8000, 0), many(8000, 8000), many(7000, 1000)].map(
      (run) => seen([run]).capacityRps,
    )
    expect(later).toBe(all)
    expect(within).toBeLessThan(0.97 * all!)
  })

  test('failed ones fail whatever the queue model does, and leave so much less of what is allowed', () => {
    // One in four fails: of a queue model that is slow enough all of four are over beside it.
    expectAlike(seen([window([Number.NaN, 5, 5, 5], log)]), wanted({ n: 4, over: 1, always: 1 }))
    expectAlike(seen([window([Number.NaN], log)]), wanted({ n: 1, over: 1, always: 1 }))
    expectAlike(
      seen([window([Number.NaN, 5, 5, 5], log), window([50, 5, 5, 5], log)]),
      wanted({ n: 4, over: 1, always: 0.5 }, { n: 4, over: 1, always: 0.5 }),
    )
  })
})

describe('a server that refuses once its queue is full', () => {
  /** One worker and no room to wait: Erlang's B, of which the refused share is rho / (1 + rho). */
  const discipline = { ...oneWorker, windows: [stepsOf()], loops: [] }
  const refusing = (maxErrorRate: number, percentile = 0.5) =>
    estimatePosterior(
      [window([])],
      slo(1000, percentile, maxErrorRate),
      { requests: 12_000, maxRequests: 12_000, replicates: 2 },
      1,
      1,
      discipline,
    )

  test('is told, and its capacity is where as many are refused as may be', () => {
    const { capacityRps, capacityCi90Rps, refusesWhenFull } = refusing(0.3)
    expect(refusesWhenFull).toBe(true)
    expect(Math.abs(capacityRps / ((100 * 0.3) / 0.7) - 1)).toBeLessThan(0.04)
    expect(capacityCi90Rps[0]).toBeLessThan(capacityRps)
    expect(capacityCi90Rps[1]).toBeGreaterThan(capacityRps)
    expect(estimatePosterior([window([])], slo(1000), play, 1).refusesWhenFull).toBe(false)
  })

  test('refuses are over the limit too', () => {
    // A quarter may be over: rho is a third.
    expect(Math.abs(refusing(0.5, 0.75).capacityRps / (100 / 3) - 1)).toBeLessThan(0.04)
  })
})

describe('the luck of the queue model', () => {
  /**
   * Capacities of as many queue models: nothing is over the limit, so that each is the saturation
   * of one.
   */
  const drawn = (log: ServiceLog, seen?: CalibratedDiscipline) => {
    const { computeProbabilityBelow } = estimatePosterior(
      [window([], log)],
      slo(1e9),
      { ...play, replicates: 3 },
      1,
      1e9,
      seen,
    )
    return (
      new Set(
        Array.from({ length: 3000 }, (_, i) => computeProbabilityBelow(80 + i / 100).toFixed(6)),
      ).size - 1
    )
  }
  const spread = (ms: number) => stepsOf(0, 0, (i) => 10 + (i % 2 === 0 ? -ms : ms) + i / 100)
  const workers = (...windows: ServiceLog[]): CalibratedDiscipline => ({
    ...oneWorker,
    windows,
    loops: [],
  })

  test('is drawn as often as it is played; twice, of service times that spread by a twentieth or have outages', () => {
    expect(drawn(spread(0.3))).toBe(3)
    expect(drawn(spread(0.8))).toBe(3)
    expect(drawn(stepsOf(), workers(spread(0.3)))).toBe(3)
    expect(drawn(stepsOf(), workers(spread(0.8)))).toBe(6)
    const stalled = (more: number) => stepsOf(0, 0, (i) => (i === 20 ? 10 + more : 10 + i / 40))
    expect(drawn(stepsOf(), workers(stalled(0), stalled(60)))).toBe(6)
    expect(drawn(stalled(0))).toBe(3)
    expect(drawn(stalled(60))).toBe(6)
  })

  test('explains a count as far as queue models differ in theirs', () => {
    // Every second step takes 20 ms, over the limit of 20.4 at more than 2 % slower: some 20 of 40
    // requests.
    const log = stepsOf(40, 0, (i) => (i % 2 === 0 ? 10 : 20))
    const slower = (over: number) => {
      const latencyMs = Array.from({ length: 40 }, (_, i) => (i < over ? 50 : 5))
      const found = estimatePosterior(
        [window(latencyMs, log)],
        slo(20.4),
        { ...play, replicates: 10 },
        1,
      )
      return found.capacityRps
    }
    const alike = (over: number) => expected(0.055, 1, [{ n: 20, over }], 0.02).quantile(0.5)
    expect(Math.abs(slower(20) / slower(0) / (alike(20) / alike(0)) - 1)).toBeLessThan(0.01)
    // Six of 40 are unlikely of a count about 20, were it that of every queue model.
    expect(slower(6) / slower(0)).toBeLessThan(0.98 * (alike(6) / alike(0)))
  })
})

test('the chance of its own long runs is no doubt of a server whose services are all alike', () => {
  // One worker, 10 ms: runs of 4,000 requests know its capacity within 60 ms to five per cent each.
  const uniform = createUniform(3)
  const sentMs = Float64Array.from({ length: 400 }, () => 6000 * uniform()).sort()
  let freeMs = 0
  const latencyMs = [...sentMs].map((ms) => {
    freeMs = Math.max(ms, freeMs) + 10
    return freeMs - ms
  })
  const log = stepsOf()
  const seen: CalibratedDiscipline = { ...oneWorker, windows: [log], loops: [] }
  const halves = [1, 2, 3, 4, 5].map((seed) => {
    const found = estimatePosterior(
      [window(latencyMs, log, { sentMs })],
      slo(60),
      { requests: 4000, maxRequests: 4000, replicates: 8 },
      seed,
      undefined,
      seen,
    )
    const [low, high] = found.capacityCi90Rps
    return (high - low) / 2 / found.capacityRps
  })
  expect(halves.reduce((total, half) => total + half, 0) / halves.length).toBeLessThan(0.06)
})
