import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { summariseRun } from '../../load/load-point.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import { meetsSlo, type Slo } from '../../model/slo.ts'
import { isProvenUnder, judgeWindow } from './window-under-slo.ts'

const measured: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.01 }
const runOf = (latencyMs: number[], rest: Partial<LoadRun> = {}): LoadRun => ({
  load: {
    kind: 'open',
    rateRps: latencyMs.length,
    arrivals: { kind: 'poisson' },
    durationS: 1,
    seed: 1,
  },
  sentMs: Float64Array.from(latencyMs.keys()),
  latencyMs: Float64Array.from(latencyMs),
  errorKinds: {},
  planned: latencyMs.length,
  latenessP99Ms: 0,
  seconds: 1,
  elapsedS: 1,
  generatorCores: 0,
  ...rest,
})
const stored = (run: LoadRun): LoadPoint => JSON.parse(JSON.stringify(summariseRun(run, measured)))
const spread = (n: number) => Array.from({ length: n }, (_, i) => 1 + (40 * ((i * 7919) % n)) / n)

describe('a stored window under another SLO', () => {
  test('is judged as by all its latencies, or not at all', () => {
    let [told, asked] = [0, 0]
    const ms = fc.oneof(
      fc.double({ min: 0.2, max: 60, noNaN: true }),
      fc.double({ min: 60, max: 4000, noNaN: true }),
      fc.constant(Number.NaN),
    )
    const slos = fc.record({
      percentile: fc.constantFrom(0.5, 0.75, 0.9, 0.95, 0.99, 0.999),
      limitMs: fc.double({ min: 0.1, max: 5000, noNaN: true }),
    })
    fc.assert(
      fc.property(
        fc.array(ms, { minLength: 1, maxLength: 300 }),
        slos,
        fc.constantFrom(0.001, 0.5),
        (latencies, about, maxErrorRate) => {
          const slo = { ...about, maxErrorRate }
          const run = runOf(latencies)
          const found = judgeWindow(stored(run), slo)
          asked++
          if (found === undefined) return
          told++
          expect(found).toBe(meetsSlo(summariseRun(run, slo), slo))
        },
      ),
    )
    expect(told / asked).toBeGreaterThan(0.8)
  })

  test('may meet or violate a tighter SLO than the confirmed one', () => {
    const point = stored(runOf(spread(2000)))
    expect(judgeWindow(point, { ...measured, percentile: 0.95, limitMs: 10 })).toBe(false)
    expect(judgeWindow(point, { ...measured, percentile: 0.2, limitMs: 10 })).toBe(true)
    expect(judgeWindow(point, { ...measured, percentile: 0.95, limitMs: 42 })).toBe(true)
  })

  test('is judged by its percentiles where it has no histogram', () => {
    const { latencies: _, ...old } = stored(runOf(spread(2000)))
    expect(judgeWindow(old, { ...measured, percentile: 0.95, limitMs: 30 })).toBe(false)
    expect(judgeWindow(old, { ...measured, percentile: 0.95, limitMs: 40 })).toBe(true)
    expect(judgeWindow(old, { ...measured, percentile: 0.97, limitMs: 39.5 })).toBeUndefined()
    expect(isProvenUnder(old, { ...measured, percentile: 0.95, limitMs: 42 })).toBe(false)
  })

  test('counts the violations of two limits as between coincident and disjoint', () => {
    const whole = spread(1000)
    const of = (miss: number) => Float64Array.from(whole, (_, i) => (i % 1000 < miss ? 100 : 5))
    const stream = {
      latenciesMs: { ttft: of(30), tpot: of(40), e2e: Float64Array.from(whole) },
      tokens: of(0),
      gapsMs: new Float64Array(0),
    }
    const point = stored(runOf(whole, { stream }))
    const joint = (percentile: number): Slo => ({
      ...measured,
      percentile,
      limitMs: 10,
      limits: [
        { metric: 'ttft', limitMs: 10 },
        { metric: 'tpot', limitMs: 10 },
      ],
    })
    expect([0.93, 0.95, 0.97].map((percentile) => judgeWindow(point, joint(percentile)))).toEqual([
      true,
      undefined,
      false,
    ])
    expect(judgeWindow(stored(runOf(whole)), { ...measured, metric: 'ttft' })).toBeUndefined()
  })

  test('of streams, some in one piece, is judged consistently under every SLO', () => {
    const ms = fc.double({ min: 1, max: 60, noNaN: true })
    const answer = fc.record({
      ttft: ms,
      tpot: fc.oneof(
        { weight: 8, arbitrary: ms },
        { weight: 1, arbitrary: fc.constant(Number.NaN) },
      ),
      fails: fc.oneof({ weight: 20, arbitrary: fc.constant(false) }, fc.boolean()),
    })
    const asked = fc.constantFrom<Slo>(
      { ...measured, percentile: 0.7, metric: 'tpot', maxErrorRate: 0.2 },
      { ...measured, percentile: 0.7, metric: 'ttft', maxErrorRate: 0.2 },
      {
        ...measured,
        percentile: 0.7,
        limitMs: 40,
        maxErrorRate: 0.2,
        limits: [
          { metric: 'ttft', limitMs: 40 },
          { metric: 'tpot', limitMs: 50 },
        ],
      },
    )
    fc.assert(
      fc.property(
        fc.array(answer, { minLength: 1, maxLength: 60 }),
        asked,
        asked,
        (answers, first, slo) => {
          const of = (value: (one: (typeof answers)[number]) => number) =>
            Float64Array.from(answers, (one) => (one.fails ? Number.NaN : value(one)))
          const e2e = of(({ ttft }) => ttft + 100)
          const stream = {
            latenciesMs: { ttft: of(({ ttft }) => ttft), tpot: of(({ tpot }) => tpot), e2e },
            tokens: of(() => 9),
            gapsMs: new Float64Array(0),
          }
          const run = runOf([...e2e], { stream })
          const point: LoadPoint = JSON.parse(JSON.stringify(summariseRun(run, first)))
          const found = judgeWindow(point, slo)
          if (found !== undefined) expect(found).toBe(meetsSlo(summariseRun(run, slo), slo))
        },
      ),
    )
  })

  test('can only meet the SLO if it is invalid, and only violate it if it was cut', () => {
    const point = stored(runOf(spread(2000)))
    const [loose, strict] = [
      { ...measured, limitMs: 60 },
      { ...measured, limitMs: 20 },
    ]
    for (const spoilt of [{ generatorSaturated: true, latenessP99Ms: 10 }, { invalid: true }])
      expect([
        judgeWindow({ ...point, ...spoilt }, loose),
        judgeWindow({ ...point, ...spoilt }, strict),
      ]).toEqual([true, undefined])
    expect([
      judgeWindow({ ...point, cut: true }, loose),
      judgeWindow({ ...point, cut: true }, strict),
    ]).toEqual([undefined, false])
  })

  test('is proven with 473 independent requests, one of them over the limit', () => {
    const one = (n: number) => stored(runOf(spread(n).map((ms, i) => (i === 5 ? 100 : ms))))
    expect([isProvenUnder(one(700), measured), isProvenUnder(one(440), measured)]).toEqual([
      true,
      false,
    ])
    const alike = (n: number, dispersion: number) => {
      const point = stored(runOf(spread(n).map((ms, i) => (i < dispersion ? 100 : ms))))
      return isProvenUnder({ ...point, latencies: { ...point.latencies!, dispersion } }, measured)
    }
    expect([alike(473, 1), alike(472, 1), alike(946, 2), alike(945, 2)]).toEqual([
      true,
      false,
      true,
      false,
    ])
    // Slow ones in a row say less.
    const clustered = stored(
      runOf(Array.from({ length: 700 }, (_, i) => (i > 300 && i < 370 ? 49 : 10))),
    )
    expect(isProvenUnder(clustered, measured)).toBe(false)
  })

  test('counts requests that a cut left out as within the limit', () => {
    /** So many of 99 requests over 50 ms, of a load that meant to send so many in two seconds. */
    const cutShort = (over: number, planned: number, more: Partial<LoadPoint> = {}) => ({
      ...stored(runOf(spread(99).map((ms, i) => (i < over ? 90 : ms)))),
      load: {
        kind: 'open',
        rateRps: planned / 2,
        arrivals: { kind: 'poisson' },
        durationS: 2,
        seed: 1,
      } as const,
      cut: true,
      ...more,
    })
    const under = (point: LoadPoint, percentile = 0.99) =>
      judgeWindow(point, { ...measured, percentile, maxErrorRate: 1 })
    // One in a hundred of a thousand may be over.
    expect([under(cutShort(10, 1000)), under(cutShort(11, 1000))]).toEqual([undefined, false])
    expect([
      under(cutShort(10, 1000, { cut: false })),
      under(cutShort(0, 1000, { cut: false })),
    ]).toEqual([false, true])
    expect(
      under(cutShort(10, 1000, { load: { kind: 'closed', connections: 8, durationS: 2 } })),
    ).toBe(false)
    // Half of 99.6 requests, 100, may be over: of the 99 that were sent one more than half.
    expect([under(cutShort(50, 99.6), 0.5), under(cutShort(51, 99.6), 0.5)]).toEqual([
      undefined,
      false,
    ])
    expect([under(cutShort(49, 20), 0.5), under(cutShort(50, 20), 0.5)]).toEqual([undefined, false])
  })

  test('counts violations by the ranks of its percentiles', () => {
    const { latencies: _, ...old } = stored(runOf([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]))
    const under = (percentile: number, limitMs: number) =>
      judgeWindow(old, { ...measured, percentile, limitMs })
    // The fifth of ten is 5 ms: six at least are over 4.5 ms, five at most over 5 ms.
    expect([under(0.4, 4.5), under(0.5, 4.5)]).toEqual([undefined, false])
    expect([under(0.5, 5), under(0.6, 5)]).toEqual([true, undefined])
    expect([under(0.9, 9), under(0.9, 8.5)]).toEqual([true, false])
  })

  test('counts requests in the histogram bin of the limit on either side', () => {
    const point = stored(runOf(Array.from({ length: 100 }, (_, i) => (i < 50 ? 10 : 10.1))))
    // Half of them are 10 ms, the 90th of 100 is more: 11 to 50 are over.
    const under = (percentile: number) =>
      judgeWindow(point, { ...measured, percentile, limitMs: 10.05 })
    expect([0.5, 0.51, 0.8, 0.89, 0.9].map(under)).toEqual([
      true,
      undefined,
      undefined,
      undefined,
      false,
    ])
  })

  test('without an answer meets no SLO', () => {
    const point = stored(runOf([Number.NaN]))
    expect(judgeWindow(point, { ...measured, maxErrorRate: 1 })).toBe(false)
    expect(isProvenUnder(point, { ...measured, maxErrorRate: 1 })).toBe(false)
  })

  test('has a small record', () => {
    const latencies = Array.from({ length: 50_000 }, (_, i) => 0.05 * 1.0003 ** i)
    expect(JSON.stringify(stored(runOf(latencies)).latencies).length).toBeLessThan(5000)
  })
})
