import { describe, expect, test } from 'vitest'
import type { LatencySummary, LoadPoint } from '../../model/load-point.ts'
import type { Measurement } from '../../model/measurement.ts'
import { haveSameLatency, type Slo } from '../../model/slo.ts'
import { deriveCapacity } from './capacity-under-slo.ts'
import { viewUnderSlo } from './stream-points.ts'

const of = (ms: number): LatencySummary => ({
  requests: 400,
  meanMs: ms,
  p50Ms: ms,
  p90Ms: ms,
  p95Ms: ms,
  p99Ms: ms,
  maxMs: ms,
})
const infinite = Number.POSITIVE_INFINITY
const ttft: Slo = { percentile: 0.9, limitMs: 1000, maxErrorRate: 0.01, metric: 'ttft' }

/** TTFT 100/(1 - r/10), TPOT 10 + 4 r at rate r; measured for TTFT. */
function measured(rates: readonly number[], stream = true): Measurement {
  const point = (rateRps: number): LoadPoint => {
    const [first, each] = [100 / (1 - rateRps / 10), 10 + 4 * rateRps]
    return {
      ...of(first),
      load:
        rateRps === 0
          ? { kind: 'closed', connections: 1, durationS: 1 }
          : { kind: 'open', rateRps, arrivals: { kind: 'poisson' }, durationS: 1, seed: 1 },
      offeredRps: rateRps,
      achievedRps: rateRps,
      goodputRps: rateRps,
      errors: 0,
      errorKinds: {},
      sloMs: first,
      sloCi95Ms: [0.9 * first, 1.1 * first],
      generatorSaturated: false,
      latenessP99Ms: 0,
      seconds: 1,
      ...(stream && {
        stream: {
          ttft: of(first),
          tpot: of(each),
          e2e: of(first + 100 * each),
          interToken: of(each),
          outputTokensPerSecond: 1,
        },
      }),
    }
  }
  const points = [0, ...rates].map(point)
  return {
    outcome: 'converged',
    capacityRps: 9,
    capacityCi90Rps: [8.8, 9.2],
    bounds: 'both',
    slo: ttft,
    unloaded: of(100),
    saturationRps: 10,
    points,
    requests: 1,
    seconds: 1,
    caveats: [],
  }
}
const rates = [1, 2, 3, 4, 5, 6, 7, 8, 9]

test('an SLO on another latency uses the stream summaries of each point', () => {
  const found = deriveCapacity(measured(rates), { ...ttft, metric: 'tpot', limitMs: 30 })
  expect(found.derived).toBe(true)
  expect(found.capacityRps).toBeCloseTo(5, 1)
  expect(found.sloMs).toBeCloseTo(30)
})

test('a joint SLO is limited by the first limit that is reached', () => {
  const joint = (first: number, each: number): Slo => ({
    percentile: 0.9,
    limitMs: first,
    maxErrorRate: 0.01,
    limits: [
      { metric: 'ttft', limitMs: first },
      { metric: 'tpot', limitMs: each },
    ],
  })
  expect(deriveCapacity(measured(rates), joint(1000, 30)).capacityRps).toBeCloseTo(5, 1)
  expect(deriveCapacity(measured(rates), joint(400 / 3, 1000)).capacityRps).toBeCloseTo(2.5, 1)
  expect(deriveCapacity(measured(rates), joint(90, 1000))).toMatchObject({
    capacityRps: 0,
    derived: true,
  })
})

test('the measured SLO keeps its figures; without stream summaries there are none', () => {
  expect(deriveCapacity(measured(rates), ttft)).toMatchObject({ capacityRps: 9, derived: false })
  expect(
    deriveCapacity(measured(rates, false), { ...ttft, metric: 'tpot', limitMs: 30 }).capacityRps,
  ).toBe(0)
  expect(viewUnderSlo(measured(rates, false), { ...ttft, metric: 'tpot' }).points).toEqual([])
})

test('joint SLOs with proportional limits give the same figures', () => {
  const limits = (a: number, b: number) => ({
    limits: [{ metric: 'ttft', limitMs: a } as const, { metric: 'tpot', limitMs: b } as const],
  })
  expect(haveSameLatency(limits(200, 20), limits(100, 10))).toBe(true)
  expect(haveSameLatency(limits(200, 20), limits(200, 10))).toBe(false)
  expect(haveSameLatency({}, { metric: 'e2e' })).toBe(true)
})

describe('a measurement viewed under another SLO', () => {
  const tpot = { ...ttft, metric: 'tpot', limitMs: 30 } as const
  const summary = {
    requests: 400,
    meanMs: 3,
    p50Ms: 5,
    p90Ms: 9,
    p95Ms: 9.5,
    p99Ms: 9.9,
    maxMs: 10,
  }
  const pointOf = (change: Partial<LoadPoint> = {}): LoadPoint => {
    const [, point] = measured([1]).points
    return {
      ...point!,
      sloMs: 40,
      sloCi95Ms: [30, 60],
      stream: { ...point!.stream!, tpot: summary },
      ...change,
    }
  }
  const seenAs = (point: LoadPoint, percentile: number) =>
    viewUnderSlo({ ...measured([]), points: [point] }, { ...tpot, percentile }).points[0]!

  test('keeps everything but SLO, latencies and capacity, which is unknown', () => {
    const seen = viewUnderSlo(measured(rates), tpot)
    expect(seen).toMatchObject({
      slo: tpot,
      capacityRps: 0,
      capacityCi90Rps: [0, 0],
      outcome: 'converged',
      saturationRps: 10,
    })
    expect(seen.points.map(({ offeredRps, p99Ms }) => [offeredRps, p99Ms])).toEqual(
      [0, ...rates].map((rate) => [rate, 10 + 4 * rate]),
    )
    expect(seen.points[2]).toMatchObject({
      goodputRps: 2,
      requests: 400,
      load: { kind: 'open', rateRps: 2 },
    })
  })

  test('has the unloaded latency of the loop with one connection', () => {
    const of = measured(rates)
    const [alone, ...others] = of.points
    const crowd = { ...others[3]!, load: { kind: 'closed', connections: 4, durationS: 1 } as const }
    expect(
      viewUnderSlo({ ...of, points: [crowd, ...others, alone!] }, tpot).unloaded,
    ).toMatchObject({
      p99Ms: 10,
    })
    const { unloaded } = viewUnderSlo({ ...of, points: [crowd, ...others] }, tpot)
    expect(unloaded.requests).toBe(0)
    for (const ms of [
      unloaded.meanMs,
      unloaded.p50Ms,
      unloaded.p90Ms,
      unloaded.p95Ms,
      unloaded.p99Ms,
      unloaded.maxMs,
    ])
      expect(ms).toBeNaN()
  })

  test('uses the next stored percentile above', () => {
    const kept = [0.4, 0.5, 0.6, 0.9, 0.92, 0.95, 0.97, 0.99, 0.995].map(
      (percentile) => seenAs(pointOf(), percentile).sloMs,
    )
    expect(kept).toEqual([5, 5, 9, 9, 9.5, 9.5, 9.9, 9.9, 10])
  })

  test('counts failed requests as the slowest', () => {
    const failing = pointOf({ requests: 100, errors: 10 })
    // 0.45 / 0.9 and 0.46 / 0.9 of those that were answered; 0.9 / 0.9 are all of them.
    expect(
      [0.45, 0.46, 0.85, 0.9, 0.95].map((percentile) => seenAs(failing, percentile).sloMs),
    ).toEqual([5, 9, 9.5, infinite, infinite])
    expect(seenAs(pointOf({ requests: 100, errors: 100 }), 0.5).sloMs).toBe(infinite)
    expect(seenAs(pointOf({ requests: 0, errors: 0 }), 0.5).sloMs).toBe(5)
    expect(seenAs(pointOf({ requests: 1, errors: 1 }), 0.5).sloMs).toBe(infinite)
    expect(seenAs(failing, 0.5).requests).toBe(100)
  })

  test('keeps the relative width of the interval', () => {
    expect(seenAs(pointOf(), 0.9).sloCi95Ms).toEqual([9 * 0.75, 9 * 1.5])
    expect(seenAs(pointOf({ sloMs: infinite, sloCi95Ms: [50, infinite] }), 0.9).sloCi95Ms).toEqual([
      0,
      infinite,
    ])
    expect(seenAs(pointOf({ sloMs: 0, sloCi95Ms: [0, 0] }), 0.9).sloCi95Ms).toEqual([0, infinite])
  })

  test('under a joint SLO has the largest share of a limit, figure by figure', () => {
    const joint: Slo = {
      ...ttft,
      limitMs: 200,
      limits: [
        { metric: 'ttft', limitMs: 200 },
        { metric: 'tpot', limitMs: 20 },
      ],
    }
    const point = pointOf()
    const stream = { ...point.stream!, ttft: { ...of(60), p50Ms: 40, maxMs: 300 } }
    const [seen] = viewUnderSlo({ ...measured([]), points: [{ ...point, stream }] }, joint).points
    // Parts of the limits: 40 / 200 and 5 / 20; 60 / 200 and 9 / 20; 300 / 200 and 10 / 20; 60 /
    // 200 and 3 / 20.
    expect(seen).toMatchObject({ p50Ms: 50, p90Ms: 90, maxMs: 300, meanMs: 60, sloMs: 90 })
  })
})
