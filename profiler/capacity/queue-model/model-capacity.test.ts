/**
 * The capacity of queue models whose queue is solved in closed form; where none is, what must hold
 * of any.
 */
import { describe, expect, test } from 'vitest'
import { createUniform } from '../../seeded-random.ts'
import { computeModelCapacities, shrinkSimulationNoise } from './model-capacity.ts'
import type { OutageRate } from './outages.ts'
import { simulateOutages } from './outages.ts'
import { type QueueModel, simulate } from './queue-model.ts'

/** Each request served by the first of so many workers, its service one of these. */
function serving(tookMs: number[], workers = 1, systemCapacity?: number): QueueModel {
  const each = (value: number) => tookMs.map(() => value)
  return {
    log: {
      present: each(1),
      tookMs,
      departed: each(1),
      rank: each(0),
      endedMs: each(0),
      spreadMs: each(0),
    },
    binOf: Int32Array.of(0, 0),
    bins: [Int32Array.from(tookMs.keys())],
    discipline: { workers, maxBatch: 1, maxDelayMs: 0, overheadMs: 0 },
    systemCapacity,
  }
}
/** Quantiles of an exponential distribution in no order. */
function exponential(meanMs: number): number[] {
  const uniform = createUniform(3)
  return Array.from({ length: 2000 }, (_, i) => ({
    ms: -meanMs * Math.log((i + 0.5) / 2000),
    at: uniform(),
  }))
    .sort((a, b) => a.at - b.at)
    .map(({ ms }) => ms)
}
/** Places that are never filled. */
const unlimited = 1e9
interface Asked {
  readonly slownesses?: readonly number[]
  readonly limitMs: number
  readonly allowed: number
  readonly allowedFailed?: number
  readonly outages?: OutageRate
  readonly seed?: number
}
const capacities = (
  model: QueueModel,
  { slownesses = [1], allowedFailed = 1, outages, seed = 1, ...asked }: Asked,
  requests = 12_000,
  maxRequests?: number,
) => [
  ...computeModelCapacities(
    { model, outages, slownesses: Float64Array.from(slownesses), allowedFailed, seed, ...asked },
    requests,
    maxRequests,
  ).rps,
]
const capacity = (...asked: Parameters<typeof capacities>) => capacities(...asked)[0]!
/** Where a rising condition changes. */
function root(low: number, high: number, beyond: (x: number) => boolean): number {
  while (high - low > 1e-9 * high)
    [low, high] = beyond((low + high) / 2) ? [low, (low + high) / 2] : [(low + high) / 2, high]
  return low
}
/** How far off a figure is, as a share of the truth. */
const error = (found: number, truth: number) => Math.abs(found / truth - 1)

/** Requests per ms of which so many take longer, of services of 10 ms each (Erlang 1909). */
function mD1(limitMs: number, allowed: number): number {
  const waitMs = limitMs - 10
  // P(W <= x) = (1 - rho) sum over k up to x / D of (lambda (k D - x))^k / k! exp(-lambda (k D -
  // x)).
  const within = (perMs: number) => {
    let [sum, factorial] = [0, 1]
    for (let k = 0; k <= Math.floor(waitMs / 10); k++) {
      factorial *= Math.max(1, k)
      sum += ((perMs * (10 * k - waitMs)) ** k / factorial) * Math.exp(-perMs * (10 * k - waitMs))
    }
    return (1 - 10 * perMs) * sum
  }
  return root(0, 0.1, (perMs) => within(perMs) < 1 - allowed)
}

describe('the capacity of a queue model with', () => {
  test.each([
    [0.01, 100],
    [0.1, 100],
    [0.1, 50],
    [0.3, 25],
  ])(
    'exponential services, %d of requests over %d ms: M/M/1, whose sojourns are exponential',
    (allowed, limitMs) => {
      // P(T > t) = exp(-(mu - lambda) t), at 10 ms to a service.
      const rps = 100 - (1000 * Math.log(1 / allowed)) / limitMs
      expect(error(capacity(serving(exponential(10)), { limitMs, allowed }), rps)).toBeLessThan(
        0.05,
      )
    },
  )

  test.each([
    [0.05, 45],
    [0.2, 25],
    [0.3, 14],
  ])('services of one length, %d over %d ms: M/D/1, by Erlang’s series', (allowed, limitMs) => {
    expect(
      error(capacity(serving([10]), { limitMs, allowed }), 1000 * mD1(limitMs, allowed)),
    ).toBeLessThan(0.03)
  })

  test('rare services far over the limit: a fiftieth of what it serves', () => {
    // Of 300 ms each, three in a thousand are over 100 ms themselves, and so are those that come in
    // the first 200 ms of one.
    const tookMs = Array.from({ length: 1000 }, (_, i) => (i % 333 === 100 ? 300 : 1))
    const rps = (0.01 - 0.003) / 0.003 / 0.2
    expect(
      error(capacity(serving(tookMs), { limitMs: 100, allowed: 0.01 }, 200_000), rps),
    ).toBeLessThan(0.25)
  })

  test('four workers, a fifth of the requests not at once: Erlang’s C', () => {
    const waits = (erlangs: number) => {
      const atOnce = 1 + erlangs + erlangs ** 2 / 2 + erlangs ** 3 / 6
      const later = (erlangs ** 4 / 24) * (4 / (4 - erlangs))
      return later / (atOnce + later)
    }
    const erlangs = root(0, 4, (a) => waits(a) > 0.2)
    // Of services of one length nearly as many wait as of exponential ones.
    expect(
      error(capacity(serving([10], 4), { limitMs: 10.0001, allowed: 0.2 }), 100 * erlangs),
    ).toBeLessThan(0.04)
  })

  test.each([
    [1, 0.3, 0.3 / 0.7],
    [2, 0.2, 1.0],
  ])(
    '%i workers and no room to wait, %d refused: Erlang’s B, whatever the services',
    (workers, allowedFailed, erlangs) => {
      for (const tookMs of [[10], exponential(10)]) {
        const model = serving(tookMs, workers, workers)
        // No answer is over the limit: what is refused decides, by its own share or as what is
        // over.
        expect(
          error(capacity(model, { limitMs: 1000, allowed: 0.6, allowedFailed }), 100 * erlangs),
        ).toBeLessThan(0.05)
        expect(
          error(
            capacity(model, { limitMs: 1000, allowed: allowedFailed, allowedFailed: 0.6 }),
            100 * erlangs,
          ),
        ).toBeLessThan(0.05)
      }
    },
  )

  test('outages of 90 ms at one step in ten: those and who waits for them are over', () => {
    // At rates so low that nobody waits a tenth is over; so it is never, once so many may be and
    // what waits a little is not.
    const outages = { clock: 'step', rate: 0.1, shape: 1, delays: [90] } as const
    const rps = (allowed: number) => capacity(serving([10]), { limitMs: 50, allowed, outages })
    expect(rps(0.05)).toBeCloseTo(20 * Math.exp(-0.12), 6)
    // Mean 19 ms, mean square 1090: the busy share at which three in ten are over lies between a
    // fifth and three fifths.
    expect(rps(0.3)).toBeGreaterThan(22)
    expect(rps(0.3)).toBeLessThan(42)
    expect(capacity(serving([10]), { limitMs: 50, allowed: 0.05 })).toBeGreaterThan(60)
  })
})

describe('a capacity is looked for', () => {
  test('from a fifth of the saturation on, 12 % below what short runs show', () => {
    expect(capacity(serving([10]), { limitMs: 5, allowed: 0.01 })).toBeCloseTo(
      20 * Math.exp(-0.12),
      9,
    )
    expect(capacity(serving([10], 3), { limitMs: 5, allowed: 0.01 })).toBeCloseTo(
      60 * Math.exp(-0.12),
      9,
    )
  })

  test('up to a tenth beyond it, and 5 % beyond what short runs show', () => {
    expect(capacity(serving([10], 1, unlimited), { limitMs: 1e9, allowed: 0.01 })).toBeCloseTo(
      110 * Math.exp(0.05),
      9,
    )
  })

  test('at each slowness: s times as slow is as fast under a limit 1/s as long, in 1/s of the time', () => {
    const model = serving(exponential(10))
    const asked = { limitMs: 60, allowed: 0.1 }
    const [slow] = capacities(model, { ...asked, slownesses: [1.25] })
    expect(slow).toBeCloseTo(capacity(model, { ...asked, limitMs: 48 }) / 1.25, 9)
    // M/M/1 again, all of them at once: (100 - 1000 ln 10 / limit) of each limit.
    const slownesses = [0.8, 1, 1.25]
    const found = capacities(model, { ...asked, slownesses })
    for (const [i, s] of slownesses.entries())
      expect(error(found[i]! * s, 100 - (1000 * Math.log(10)) / (60 / s))).toBeLessThan(0.05)
    expect(found).toEqual(found.toSorted((a, b) => b - a))
  })

  test('with the same luck for the same seed, and other luck for another', () => {
    const of = (seed: number) =>
      capacity(serving(exponential(10)), { limitMs: 60, allowed: 0.1, seed }, 4000)
    expect(of(1)).toBe(of(1))
    expect(of(1)).not.toBe(of(2))
  })
})

describe('where short runs mislead', () => {
  /**
   * One outage of half a second in so many steps: it, and who arrives meanwhile, is over 300 ms.
   */
  const outageProcess = (every: number, seed: number, allowed: number) =>
    capacity(serving([10]), {
      limitMs: 300,
      allowed,
      seed,
      outages: { clock: 'step', rate: 1 / every, shape: 1, delays: [500] },
    })
  /** Steps before the first and the second outage. */
  const firstTwo = (every: number, seed: number) => {
    const outageProcess = simulateOutages(
      { clock: 'step', rate: 1 / every, shape: 1, delays: [500] },
      createUniform(seed + 13),
    )
    const at: number[] = []
    for (let step = 1; at.length < 2 && step < 15_000; step++)
      if (outageProcess(0, 10) > 0) at.push(step)
    return [at[0] ?? 15_000, at[1] ?? 15_000] as const
  }
  const seeds = Array.from({ length: 200 }, (_, i) => i)

  test('as no outage falls into them, long ones decide between rates below what they showed', () => {
    const seed = seeds.find((s) => firstTwo(6000, s)[0] > 3000 && firstTwo(6000, s)[1] < 9000)!
    // Without outages the short runs show some 97 % of the saturation, and the six long ones lie
    // from 12 % below that on: all of them miss.
    const withoutRps = capacity(serving([10]), { limitMs: 300, allowed: 0.0004, seed }, 3000)
    const rps = outageProcess(6000, seed, 0.0004)
    expect(rps).toBeLessThan(withoutRps * Math.exp(-0.12))
    expect(rps).toBeGreaterThan(withoutRps * Math.exp(-0.12 - Math.log(5.5) / 13))
  })

  test('as one falls into them and none after, rates beyond what they showed count', () => {
    const seed = seeds.find(
      (s) =>
        firstTwo(20_000, s)[0] > 400 &&
        firstTwo(20_000, s)[0] < 2000 &&
        firstTwo(20_000, s)[1] > 13_000,
    )!
    // An outage at a fifth of the saturation makes ten of 2,700 miss, or of 10,800.
    const rps = outageProcess(20_000, seed, 0.002)
    expect(rps).toBeGreaterThan(20 * Math.exp(0.05))
    expect(rps).toBeLessThan(20 * Math.exp(0.05 + Math.log(5.5) / 13))
  })
})

describe('what it costs', () => {
  /** Requests that were played, told by how often the one service time was looked up. */
  function played(
    limitMs: number,
    allowed: number,
    requests: number,
    maxRequests?: number,
    slownesses = [1],
  ): number {
    let reads = 0
    const counted = () => {
      reads++
      return 10
    }
    const model = serving(Object.defineProperty([10], 0, { get: counted }), 1, unlimited)
    reads = 0
    simulate(model, new Float64Array(1000), 1, createUniform(1), new Float64Array(1000))
    const each = reads / 1000
    reads = 0
    capacities(model, { limitMs, allowed, slownesses }, requests, maxRequests)
    // The saturation reads it once.
    return Math.floor((reads - 1) / each)
  }

  test('are fourteen short runs and six long ones', () => {
    expect(played(1e9, 0.01, 100)).toBe(14 * 3000 + 6 * 100)
    expect(played(1e9, 0.01, 100, 2000)).toBe(14 * 3000 + 6 * 2000)
  })

  test('but those beyond four times what is allowed; a short one has an eighth of the requests of a long one, and 3,000 at least', () => {
    // All are over at the first rate of either kind.
    expect([played(5, 0.2, 24_000), played(5, 0.2, 24_001)]).toEqual([3000 + 24_000, 3001 + 24_001])
    // Of a share of .3 none is over four times what is allowed: warm-up is left out, and .9 of all
    // are less than 1.2.
    expect(played(5, 0.3, 700)).toBe(14 * 3000 + 6 * 700)
    // The fastest of several decides.
    expect(played(9, 0.2, 700, 700, [0.5, 1])).toBeGreaterThan(10 * 3000)
  })

  test('with the square of the nearness to saturation: 400 services in units of it, so many at most', () => {
    // At a fifth of the saturation 400 / 0.8² are 625.
    expect(played(5, 0.2, 100, 100_000)).toBe(3000 + 625)
    expect(played(5, 0.2, 100, 600)).toBe(3000 + 600)
    expect(played(5, 0.2, 800, 100_000)).toBe(3000 + 800)
    // M/D/1 with one in ten over 70 ms, as short runs show it: about .83 of the saturation.
    const services = 400 / (1 - 10 * mD1(70, 0.1)) ** 2
    const near = played(70, 0.1, 5000, 1e6) - 14 * 3000
    expect(services).toBeGreaterThan(10_000)
    expect(near).toBeGreaterThan(6 * 0.6 * services)
    expect(near).toBeLessThan(6 * 1.6 * services)
  })
})

describe('the chance of long runs', () => {
  test.each([
    ['services of one length', [10], 40],
    ['exponential services', exponential(10), 60],
  ])('is told by one of them, of %s, as well as by many', (_, tookMs, limitMs) => {
    const found = Array.from({ length: 16 }, (_, seed) =>
      computeModelCapacities(
        {
          model: serving(tookMs),
          outages: undefined,
          slownesses: Float64Array.of(1),
          limitMs,
          allowed: 0.05,
          allowedFailed: 1,
          seed,
        },
        12_000,
      ),
    )
    const logs = found.map(({ rps }) => Math.log(rps[0]!))
    const mean = logs.reduce((total, log) => total + log, 0) / logs.length
    const variance = logs.reduce((total, log) => total + (log - mean) ** 2, 0) / (logs.length - 1)
    const told =
      found.reduce((total, { simulationVariance }) => total + simulationVariance[0]!, 0) /
      found.length
    expect(Math.sqrt(told / variance)).toBeGreaterThan(0.6)
    expect(Math.sqrt(told / variance)).toBeLessThan(1.6)
  })

  const models = (logs: readonly number[], simulationVariance: number) =>
    logs.map((log) => ({
      logs: Float64Array.of(log, log + 1),
      simulationVariance: Float64Array.of(simulationVariance, simulationVariance),
    }))
  const weights = Float64Array.of(0.75, 0.25)
  const first = (of: readonly Float64Array[]) => of.map(([log]) => log!)

  test('taken out leaves what the draws differ by, about the same mean', () => {
    // Their variance is 1 / 3: without three quarters of that, and with a quarter of those as the
    // chance of the mean.
    const found = shrinkSimulationNoise(models([1.5, 2.5, 1.5, 2.5], 0.25), weights)
    const left = Math.sqrt((1 / 3 - 0.25 + 0.25 / 4) / (1 / 3))
    for (const [i, log] of first(found).entries())
      expect(log).toBeCloseTo(2 + left * (i % 2 === 0 ? -0.5 : 0.5), 9)
    expect(found.map(([a, b]) => b! - a!)).toEqual(
      [1, 1, 1, 1].map((apart) => expect.closeTo(apart, 9)),
    )
  })

  test('changes nothing where there is none, and leaves the chance of the mean where it is all', () => {
    expect(first(shrinkSimulationNoise(models([1.5, 2.5, 1.5, 2.5], 0), weights))).toEqual([
      1.5, 2.5, 1.5, 2.5,
    ])
    const all = first(shrinkSimulationNoise(models([1.5, 2.5, 1.5, 2.5], 1 / 3), weights))
    expect(all[1]! - all[0]!).toBeCloseTo(0.5, 9)
    expect(first(shrinkSimulationNoise(models([2, 2], 0.1), weights))).toEqual([2, 2])
    expect(first(shrinkSimulationNoise(models([1.9, 2.1], 10), weights))).toEqual([1.9, 2.1])
  })
})
