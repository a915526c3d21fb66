import { describe, expect, test } from 'vitest'
import { summarise, summariseRun } from '../load/load-point.ts'
import type { CpuWait, LoadRun } from '../model/load-run.ts'
import type { Slo } from '../model/slo.ts'
import { createUniform } from '../seeded-random.ts'
import { computeDispersion, computeSerialDispersion, computeViolationShare } from './dependence.ts'
import { provesPercentile } from './early-stopping.ts'
import { chooseTablePercentiles, computeLatencyHistogram } from './histogram.ts'

describe("LoadGen's early stopping", () => {
  // The fewest n with P(Binomial(n, 0.01) <= over) <= 0.05, summed with 60 digits (Python's
  // decimal).
  test.each([
    [0, 299],
    [1, 473],
    [2, 628],
    [5, 1049],
    [10, 1693],
  ])('%i over the limit: p99 at 95 %% needs %i requests', (over, needed) => {
    expect([
      provesPercentile(needed, over, 0.99),
      provesPercentile(needed - 1, over, 0.99),
    ]).toEqual([true, false])
  })

  test('parts of effective requests count against the claim: begun ones over the limit in full, begun ones within it not', () => {
    expect([provesPercentile(472, 0.2, 0.99), provesPercentile(473, 0.2, 0.99)]).toEqual([
      false,
      true,
    ])
    expect([provesPercentile(298.9, 0, 0.99), provesPercentile(299.1, 0, 0.99)]).toEqual([
      false,
      true,
    ])
  })

  test('a higher confidence needs more', () => {
    // 0.99^458 = 0.01002, 0.99^459 = 0.00992.
    expect([provesPercentile(458, 0, 0.99, 0.99), provesPercentile(459, 0, 0.99, 0.99)]).toEqual([
      false,
      true,
    ])
  })
})

describe('dispersion', () => {
  test('is about 1 for independent values, and the cluster size for clusters', () => {
    const uniform = createUniform(3)
    const independent = Array.from({ length: 20_000 }, () => (uniform() < 0.05 ? 1 : 0))
    expect(computeDispersion(independent)).toBeLessThan(2.2)
    const clustered = Array.from({ length: 2000 }, () => (uniform() < 0.05 ? 1 : 0)).flatMap(
      (one) => Array<number>(10).fill(one),
    )
    expect(computeDispersion(clustered)).toBeGreaterThan(4)
    expect(computeDispersion(clustered)).toBeLessThan(25)
  })

  test('shrinks the effective sample, failures counting as over', () => {
    const latency = Float64Array.from({ length: 4000 }, (_, i) => (i % 400 < 20 ? Number.NaN : 10))
    const share = computeViolationShare(latency, 50)
    expect(share.violations).toBe(200)
    expect(share.nEff).toBeLessThan(4000)
    expect(share.nEff).toBeCloseTo(4000 / share.dispersion, 6)
  })
})

describe('dispersion by hand', () => {
  test('is m Var(means) / (p (1 - p)) of equal batches', () => {
    // Two batches of four, means 1/4 and 3/4: sample variance 1/8, p = 1/2: 4 (1/8) / (1/4) = 2.
    expect(computeDispersion([0, 0, 0, 1, 1, 1, 1, 0], 2)).toBeCloseTo(2, 12)
    // What is left over of the last batch is not counted.
    expect(computeDispersion([0, 0, 0, 1, 1, 1, 1, 0, 1], 2)).toBeCloseTo(2, 12)
  })

  test('is 1 where nothing can be said: constant, alike in all batches, or batches of one', () => {
    expect(computeDispersion([0, 0, 0, 0], 2)).toBe(1)
    expect(computeDispersion([1, 1, 1, 1], 2)).toBe(1)
    expect(computeDispersion([0, 1, 0, 1], 2)).toBe(1)
    expect(computeDispersion([0, 1, 1], 2)).toBe(1)
    expect(computeDispersion([0, 0, 1, 1], 2)).toBeCloseTo(4, 12)
    // 20 batches unless told.
    expect(computeDispersion(Array.from({ length: 39 }, (_, i) => (i < 20 ? 0 : 1)))).toBe(1)
    expect(
      computeDispersion(Array.from({ length: 40 }, (_, i) => (i < 20 ? 0 : 1))),
    ).toBeGreaterThan(1)
  })
})

describe('the share over a limit', () => {
  test('a request at the limit is within it', () => {
    expect(computeViolationShare(Float64Array.of(49, 50, 51, Number.NaN), 50)).toEqual({
      n: 4,
      violations: 2,
      dispersion: 1,
      nEff: 4,
    })
  })

  test('the slowest tenth is found wherever it stands, and a limit within it stays', () => {
    const clusteredAt = (from: number) =>
      Float64Array.from({ length: 2000 }, (_, i) => (i >= from && i < from + 200 ? 40 : 10))
    for (const from of [0, 1000, 1700]) {
      const tenth = computeDispersion(Array.from(clusteredAt(from), (ms) => (ms > 10 ? 1 : 0)))
      expect(computeViolationShare(clusteredAt(from), 50).dispersion).toBeCloseTo(tenth, 9)
    }
    // Three over a limit of 5 in 2,000 answers of 1 ms: the slowest tenth begins below it.
    const few = Float64Array.from({ length: 2000 }, (_, i) => (i < 3 ? 9 : i % 5 === 0 ? 2 : 1))
    expect(computeViolationShare(few, 5).dispersion).toBe(
      computeDispersion(Array.from(few, (ms) => (ms > 2 ? 1 : 0))),
    )
  })

  test('the dispersion is the larger of what was over and of the slowest tenth', () => {
    // A slow tenth in one cluster; of it 20 are over the limit, spread evenly through it.
    const spread = Float64Array.from({ length: 2000 }, (_, i) =>
      i < 200 ? (i % 10 === 0 ? 60 : 40) : 10,
    )
    const few = computeViolationShare(spread, 50)
    expect(few.violations).toBe(20)
    expect(few.dispersion).toBeCloseTo(
      computeDispersion(Array.from({ length: 2000 }, (_, i) => (i < 200 ? 1 : 0))),
      9,
    )
    // A slow tenth spread evenly, of which one cluster is over.
    const cluster = Float64Array.from({ length: 2000 }, (_, i) =>
      i < 20 ? 60 : i % 10 === 0 ? 40 : 10,
    )
    const own = computeViolationShare(cluster, 50)
    expect(own.dispersion).toBeCloseTo(
      computeDispersion(Array.from(cluster, (ms) => (ms > 50 ? 1 : 0))),
      9,
    )
    expect(own.dispersion).toBeGreaterThan(10)
  })
})

describe('a histogram', () => {
  const latencies = Float64Array.of(80, 10, 20, Number.NaN, 40, 10)

  test('has bins of equal ratio from the fastest to the slowest answer', () => {
    const bins = computeLatencyHistogram(latencies, 3)
    const close = (values: number[], wanted: number[]) => {
      for (const [i, value] of values.entries()) expect(value).toBeCloseTo(wanted[i]!, 9)
    }
    close(
      bins.map(({ fromMs }) => fromMs),
      [10, 20, 40],
    )
    close(
      bins.map(({ toMs }) => toMs),
      [20, 40, 80],
    )
    expect(bins.reduce((sum, { count }) => sum + count, 0)).toBe(5)
    expect(bins[0]!.count).toBe(2)
  })

  test('counts each answer in the bin that holds it', () => {
    const uniform = createUniform(4)
    const many = Float64Array.from({ length: 500 }, () => 5 * Math.exp(3 * uniform()))
    const bins = computeLatencyHistogram(many, 12)
    for (const { fromMs, toMs, count } of bins.slice(0, -1))
      expect(count).toBe(many.filter((ms) => ms >= fromMs && ms < toMs).length)
    expect(bins.at(-1)!.toMs).toBeCloseTo(Math.max(...many), 9)
  })

  test('of answers that took no time, or all the same, has a width all the same', () => {
    expect(
      computeLatencyHistogram(Float64Array.of(0, 0), 2).map(({ fromMs, count }) => [
        fromMs,
        count,
      ])[0],
    ).toEqual([1e-3, 2])
    const alike = computeLatencyHistogram(Float64Array.of(8, 8), 4)
    expect(alike.at(-1)!.toMs).toBeCloseTo(8.008, 9)
    expect(computeLatencyHistogram(Float64Array.of(Number.NaN), 4)).toEqual([])
  })
})

test('tables show the percentiles of which requests say something', () => {
  expect(chooseTablePercentiles(1)).toEqual([0.5, 0.75, 0.9])
  expect(chooseTablePercentiles(20)).toEqual([0.5, 0.75, 0.9, 0.95])
  expect(chooseTablePercentiles(101)).toEqual([0.5, 0.75, 0.9, 0.95, 0.99])
  expect(chooseTablePercentiles(20_000)).toEqual([0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999])
})

describe('loadPointOf', () => {
  const slo: Slo = { percentile: 0.9, limitMs: 50, maxErrorRate: 0.001 }
  const run = (latencyMs: number[]): LoadRun => ({
    load: { kind: 'open', rateRps: 10, durationS: 1, arrivals: { kind: 'constant' }, seed: 1 },
    sentMs: Float64Array.from(latencyMs, (_, i) => i * 100),
    latencyMs: Float64Array.from(latencyMs),
    errorKinds: {},
    planned: latencyMs.length,
    latenessP99Ms: 0,
    seconds: 1,
    elapsedS: 1,
    generatorCores: 0,
  })

  test('failed requests are infinitely slow in the SLO percentile and absent from the others', () => {
    const point = summariseRun(run([10, 20, 30, 40, 60, 10, 10, 10, Number.NaN, Number.NaN]), slo)
    expect(point).toMatchObject({
      requests: 10,
      errors: 2,
      achievedRps: 8,
      goodputRps: 7,
      maxMs: 60,
      sloMs: Number.POSITIVE_INFINITY,
    })
    expect(summariseRun(run([10, 20, 30, 40, 60, 10, 10, 10, 10, Number.NaN]), slo).sloMs).toBe(60)
  })

  test('the interval of the percentile is that of order statistics at 95 %, failed requests its slowest', () => {
    // P(Binomial(100, 0.9) <= 83) = 0.0206 and P(Binomial(100, 0.9) <= 84) = 0.0399;
    // P(Binomial(100, 0.9) <= 95) = 0.9763 (Python's decimal).
    const answers = Array.from({ length: 100 }, (_, i) => 100 - i)
    expect(summariseRun(run(answers), slo).sloCi95Ms).toEqual([84, 96])
    const failing = answers.map((ms) => (ms > 95 ? Number.NaN : ms))
    expect(summariseRun(run(failing), slo).sloCi95Ms).toEqual([84, Number.POSITIVE_INFINITY])
    expect(summariseRun(run(failing), slo).sloMs).toBe(90)
  })

  test('a generator that could not sustain the load is marked', () => {
    expect(summariseRun({ ...run([10]), planned: 100 }, slo).generatorSaturated).toBe(true)
    expect(summariseRun({ ...run([10]), latenessP99Ms: 20 }, slo).generatorSaturated).toBe(true)
    expect(summariseRun(run([10]), slo).generatorSaturated).toBe(false)
  })

  test('a generator is at its limit just beyond 1 % left out, 3 ms or 5 % of the limit late, 0.9 of a core in a closed loop', () => {
    const many = run(Array.from({ length: 99 }, () => 10))
    const saturated = (change: Partial<LoadRun>, of = slo) =>
      summariseRun({ ...many, ...change }, of).generatorSaturated
    expect([saturated({ planned: 100 }), saturated({ planned: 101 })]).toEqual([false, true])
    expect([saturated({ latenessP99Ms: 3 }), saturated({ latenessP99Ms: 3.01 })]).toEqual([
      false,
      true,
    ])
    const lenient = { ...slo, limitMs: 200 }
    expect([
      saturated({ latenessP99Ms: 10 }, lenient),
      saturated({ latenessP99Ms: 10.1 }, lenient),
    ]).toEqual([false, true])
    const load = { kind: 'closed', connections: 2, durationS: 1 } as const
    expect([
      saturated({ load, generatorCores: 0.9 }),
      saturated({ load, generatorCores: 0.91 }),
    ]).toEqual([false, true])
    expect([
      saturated({ load, planned: 1000, latenessP99Ms: 99 }),
      saturated({ generatorCores: 2 }),
    ]).toEqual([false, false])
  })

  test('waiting for a core through more than 5 % of a window disturbs it, on either side or by the host', () => {
    const disturbed = (machineWait: LoadRun['machineWait']) =>
      summariseRun({ ...run([10]), machineWait }, slo).invalid
    expect(disturbed(undefined)).toBeUndefined()
    expect(disturbed({ server: 0.05, generator: 0.05, stolen: 0.05 })).toBeUndefined()
    for (const who of ['server', 'generator', 'stolen'] as const)
      expect(disturbed({ [who]: 0.051 })).toBe(true)
  })

  test('rates are per second of the window: offered what was planned, achieved what was answered, good what was in time', () => {
    const point = summariseRun({ ...run([10, 50, 51, Number.NaN]), planned: 5, seconds: 2 }, slo)
    expect(point).toMatchObject({
      offeredRps: 2.5,
      achievedRps: 1.5,
      goodputRps: 1,
      errors: 1,
      requests: 4,
    })
    expect(summariseRun({ ...run([10]), seconds: 0 }, slo)).toMatchObject({
      offeredRps: 0,
      achievedRps: 0,
      goodputRps: 0,
    })
  })

  test('a closed loop has offered and achieved what came to its end within the window', () => {
    const load = { kind: 'closed', connections: 1, durationS: 1 } as const
    const closed = {
      ...run([100, 100, 100, Number.NaN]),
      load,
      sentMs: Float64Array.of(0, 900, 901, 950),
    }
    expect(summariseRun(closed, slo)).toMatchObject({
      achievedRps: 2,
      offeredRps: 3,
      goodputRps: 0,
      requests: 4,
      errors: 1,
    })
  })

  test('an empty run is no good run', () => {
    expect(summariseRun(run([]), slo).sloMs).toBe(Number.POSITIVE_INFINITY)
  })
})

test('a window in which the machine kept the server or the generator waiting is marked', () => {
  const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0 }
  const marked = (machineWait?: CpuWait) => {
    const load = {
      kind: 'open',
      rateRps: 1,
      arrivals: { kind: 'poisson' },
      durationS: 1,
      seed: 1,
    } as const
    const rest = {
      errorKinds: {},
      planned: 1,
      latenessP99Ms: 0,
      seconds: 1,
      elapsedS: 1,
      generatorCores: 0,
    }
    return summariseRun(
      { load, sentMs: new Float64Array(1), latencyMs: new Float64Array(1), ...rest, machineWait },
      slo,
    ).invalid
  }
  expect([{ server: 0.04, generator: 0.05, stolen: 0.01 }, undefined].map(marked)).toEqual([
    undefined,
    undefined,
  ])
  expect([{ server: 0.06 }, { generator: 0.2 }, { stolen: 0.06 }].map(marked)).toEqual([
    true,
    true,
    true,
  ])
})

test('waits of the generator that are short beside the limit mark nothing, however many they are; a server’s are capacity lost', () => {
  const load = {
    kind: 'open',
    rateRps: 1,
    arrivals: { kind: 'poisson' },
    durationS: 1,
    seed: 1,
  } as const
  const rest = {
    errorKinds: {},
    planned: 1,
    latenessP99Ms: 0,
    seconds: 1,
    elapsedS: 1,
    generatorCores: 0,
  }
  const marked = (limitMs: number, machineWait: CpuWait) =>
    summariseRun(
      { load, sentMs: new Float64Array(1), latencyMs: new Float64Array(1), ...rest, machineWait },
      { percentile: 0.99, limitMs, maxErrorRate: 0 },
    ).invalid
  expect(marked(300, { generator: 0.4, generatorMs: 2.9 })).toBeUndefined()
  expect(marked(300, { generator: 0.4, generatorMs: 3.1 })).toBe(true)
  expect(marked(50, { generator: 0.4, generatorMs: 2.9 })).toBe(true)
  expect(marked(300, { generator: 0.04, generatorMs: 9 })).toBeUndefined()
  expect(marked(300, { server: 0.06, generator: 0, generatorMs: 0 })).toBe(true)
  expect(marked(300, { stolen: 0.06, generator: 0, generatorMs: 0 })).toBe(true)
})

test('a summary holds the mean, the percentiles and the most of what was answered', () => {
  const summary = summarise(
    Float64Array.from({ length: 201 }, (_, i) => (i === 200 ? Number.NaN : 200 - i)),
  )
  expect(summary).toEqual({
    requests: 200,
    meanMs: 100.5,
    p50Ms: 100,
    p90Ms: 180,
    p95Ms: 190,
    p99Ms: 198,
    maxMs: 200,
  })
  const nothing = summarise(Float64Array.of(Number.NaN))
  expect(nothing.requests).toBe(0)
  for (const value of [nothing.meanMs, nothing.p50Ms, nothing.maxMs]) expect(value).toBeNaN()
})

describe('streamed answers', () => {
  const slo: Slo = {
    percentile: 0.5,
    limitMs: 200,
    maxErrorRate: 0.1,
    limits: [
      { metric: 'ttft', limitMs: 200 },
      { metric: 'tpot', limitMs: 30 },
    ],
  }
  const load = {
    kind: 'open',
    rateRps: 4,
    arrivals: { kind: 'poisson' },
    durationS: 1,
    seed: 1,
  } as const
  const played = (ttftMs: number[], tpotMs: number[], tokens: number[], elapsedS = 2): LoadRun => ({
    load,
    sentMs: Float64Array.from(ttftMs, () => 0),
    latencyMs: Float64Array.from(ttftMs, (ms) => ms + 1),
    errorKinds: {},
    planned: ttftMs.length,
    latenessP99Ms: 0,
    seconds: 1,
    elapsedS,
    generatorCores: 0,
    stream: {
      latenciesMs: {
        ttft: Float64Array.from(ttftMs),
        tpot: Float64Array.from(tpotMs),
        e2e: Float64Array.from(ttftMs, (ms) => ms + 1),
      },
      tokens: Float64Array.from(tokens),
      gapsMs: Float64Array.of(5, 15),
    },
  })

  test('a request at a limit keeps it', () => {
    expect(summariseRun(played([200, 200.1], [30, 30], [3, 3]), slo).joint).toEqual({
      good: 0.5,
      met: { ttft: 0.5, tpot: 1 },
    })
  })

  test('tokens a second are at the rate of a load that is kept up with, of one that is not until the last answer', () => {
    const { stream } = summariseRun(
      played([10, 20, Number.NaN], [1, 1, Number.NaN], [7, 9, Number.NaN]),
      slo,
    )
    expect(stream!.outputTokensPerSecond).toBe(16)
    expect(stream!.outputTokens).toBe(8)
    expect(stream!.inputTokens).toBeUndefined()
    expect([stream!.interToken.p50Ms, stream!.interToken.maxMs, stream!.tpot.requests]).toEqual([
      5, 15, 2,
    ])
    expect(
      summariseRun(played([300, 300], [1, 1], [7, 9]), slo).stream!.outputTokensPerSecond,
    ).toBe(8)
    expect(summariseRun(played([300], [1], [7], 0), slo).stream!.outputTokensPerSecond).toBe(0)
  })

  test('a window without a request has no shares, one with a single request has', () => {
    expect(summariseRun(played([], [], []), slo).joint).toBeUndefined()
    expect(summariseRun(played([10], [1], [2]), slo).joint!.good).toBe(1)
  })
})

describe('serial dispersion', () => {
  test('is 1 for alternating and for few values, about m for values that stay in spells of m', () => {
    const values = (spell: number) =>
      Array.from({ length: 400 }, (_, i) => Math.floor(i / spell) % 2)
    expect([computeSerialDispersion(values(1)), computeSerialDispersion([1, 2, 3])]).toEqual([1, 1])
    expect(computeSerialDispersion(values(20))).toBeGreaterThan(20)
    expect(computeSerialDispersion(new Array<number>(400).fill(3))).toBe(1)
  })

  test('takes neither a trend nor one change of level for dependence', () => {
    const trend = Array.from({ length: 400 }, (_, i) => i)
    expect(computeSerialDispersion(trend)).toBe(1)
    expect(computeSerialDispersion(trend.map((i) => (i < 200 ? 0 : 1)))).toBeLessThan(2.2)
  })
})
