import { expect, test } from 'vitest'
import { countsTheSame } from '../slo.ts'
import type { LatencySummary, LoadPoint, Measurement, Slo } from '../types.ts'
import { capacityUnder } from './capacity-under.ts'
import { seenUnder } from './stream-view.ts'

const of = (ms: number): LatencySummary => ({ requests: 400, meanMs: ms, p50Ms: ms, p90Ms: ms, p95Ms: ms, p99Ms: ms, maxMs: ms })
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
        stream: { ttft: of(first), tpot: of(each), e2e: of(first + 100 * each), interToken: of(each), outputTokensPerSecond: 1 },
      }),
    }
  }
  const points = [0, ...rates].map(point)
  return {
    outcome: 'converged',
    capacityRps: 9,
    capacityCi90Rps: [8.8, 9.2],
    slo: ttft,
    idle: of(100),
    saturationRps: 10,
    points,
    requests: 1,
    seconds: 1,
    caveats: [],
  }
}
const rates = [1, 2, 3, 4, 5, 6, 7, 8, 9]

test('an SLO on the other part of the stream is read off the summaries kept with each load point', () => {
  const found = capacityUnder(measured(rates), { ...ttft, metric: 'tpot', limitMs: 30 })
  expect(found.derived).toBe(true)
  expect(found.capacityRps).toBeCloseTo(5, 1)
  expect(found.sloMs).toBeCloseTo(30)
})

test('a joint SLO is bound by whichever limit is reached first', () => {
  const joint = (first: number, each: number): Slo => ({
    percentile: 0.9,
    limitMs: first,
    maxErrorRate: 0.01,
    limits: [
      { metric: 'ttft', limitMs: first },
      { metric: 'tpot', limitMs: each },
    ],
  })
  expect(capacityUnder(measured(rates), joint(1000, 30)).capacityRps).toBeCloseTo(5, 1)
  expect(capacityUnder(measured(rates), joint(400 / 3, 1000)).capacityRps).toBeCloseTo(2.5, 1)
  expect(capacityUnder(measured(rates), joint(90, 1000))).toMatchObject({ capacityRps: 0, derived: true })
})

test('the SLO of the measurement is its own; without stream summaries nothing is made up', () => {
  expect(capacityUnder(measured(rates), ttft)).toMatchObject({ capacityRps: 9, derived: false })
  expect(capacityUnder(measured(rates, false), { ...ttft, metric: 'tpot', limitMs: 30 }).capacityRps).toBe(0)
  expect(seenUnder(measured(rates, false), { ...ttft, metric: 'tpot' }).points).toEqual([])
})

test('joint SLOs whose limits stand in the same proportion count the same', () => {
  const limits = (a: number, b: number) => ({ limits: [{ metric: 'ttft', limitMs: a } as const, { metric: 'tpot', limitMs: b } as const] })
  expect(countsTheSame(limits(200, 20), limits(100, 10))).toBe(true)
  expect(countsTheSame(limits(200, 20), limits(200, 10))).toBe(false)
  expect(countsTheSame({}, { metric: 'e2e' })).toBe(true)
})
