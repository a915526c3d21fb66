import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { measurement, point } from '../../../trials/store/samples.contract.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { Measurement } from '../../model/measurement.ts'
import type { Slo } from '../../model/slo.ts'
import { deriveCapacity } from './capacity-under-slo.ts'
import { buildLoadCurve, interpolateLatency, interpolatePercentile } from './load-curve.ts'

/**
 * An M/M/1 queue: the q quantile of the time in the system is -ln(1 - q) / (mu - lambda)
 * (Kleinrock, Queueing Systems I, section 3.2).
 */
const mu = 250
const quantileMs = (q: number, rate: number) => (-Math.log(1 - q) * 1000) / (mu - rate)
const capacity = (slo: Slo) => Math.max(0, mu + (Math.log(1 - slo.percentile) * 1000) / slo.limitMs)
const summary = (rate: number, requests: number) => ({
  requests,
  meanMs: 1000 / (mu - rate),
  p50Ms: quantileMs(0.5, rate),
  p90Ms: quantileMs(0.9, rate),
  p95Ms: quantileMs(0.95, rate),
  p99Ms: quantileMs(0.99, rate),
  maxMs: quantileMs(1 - 1 / (requests + 1), rate),
})
const measuredSlo: Slo = { percentile: 0.99, limitMs: 60, maxErrorRate: 0.001 }

function queue(
  rates: readonly number[],
  noise: (i: number) => number = () => 1,
  change: Partial<Measurement> = {},
): Measurement {
  const truth = capacity(measuredSlo)
  const points = rates.map((rate, i): LoadPoint => {
    const stretch = noise(i)
    const s = summary(rate, 2000)
    const scaled = Object.fromEntries(
      Object.entries(s).map(([k, v]) => [k, k.endsWith('Ms') ? v * stretch : v]),
    )
    const sloMs = s.p99Ms * stretch
    return point(rate, sloMs, { ...scaled, sloMs, sloCi95Ms: [sloMs * 0.85, sloMs * 1.18] })
  })
  return measurement({
    slo: measuredSlo,
    capacityRps: truth,
    capacityCi90Rps: [truth * 0.97, truth * 1.03],
    unloaded: summary(0, 200),
    saturationRps: mu,
    points,
    ...change,
  })
}
const rates = [40, 80, 120, 150, 165, 180, 200, 215]

describe('capacity under another SLO', () => {
  test('is the measured one under the measured SLO', () => {
    const m = queue(rates)
    expect(deriveCapacity(m, measuredSlo)).toMatchObject({
      capacityRps: m.capacityRps,
      capacityCi90Rps: m.capacityCi90Rps,
      derived: false,
    })
  })

  test.each([35, 45, 55, 65, 80, 120])(
    'of a queue with a known answer at p99 <= %d ms is within 4 %, and its interval holds the truth',
    (limitMs) => {
      const slo = { ...measuredSlo, limitMs }
      const derived = deriveCapacity(queue(rates), slo)
      expect(derived.derived).toBe(true)
      expect(Math.abs(Math.log(derived.capacityRps / capacity(slo)))).toBeLessThan(0.04)
      expect(derived.capacityCi90Rps[0]).toBeLessThanOrEqual(capacity(slo))
      expect(derived.capacityCi90Rps[1]).toBeGreaterThanOrEqual(capacity(slo))
      expect(derived.sloMs).toBeCloseTo(limitMs, 6)
    },
  )

  test.each([0.5, 0.75, 0.9, 0.95])('at another percentile (%d) as well', (percentile) => {
    const slo = { ...measuredSlo, percentile, limitMs: 25 }
    const derived = deriveCapacity(queue(rates), slo)
    expect(Math.abs(Math.log(derived.capacityRps / capacity(slo)))).toBeLessThan(0.04)
  })

  test('has intervals that contain the truth in 90 % of 400 noisy curves', () => {
    let seed = 1
    const uniform = () => {
      seed = (seed * 48271) % 2147483647
      return seed / 2147483647
    }
    const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())
    let held = 0
    for (let i = 0; i < 400; i++) {
      const slo = { ...measuredSlo, limitMs: 30 + 60 * uniform() }
      const m = queue(rates, () => Math.exp(0.08 * normal()))
      const [low, high] = deriveCapacity(m, slo).capacityCi90Rps
      if (low <= capacity(slo) && capacity(slo) <= high) held++
    }
    expect(held / 400).toBeGreaterThanOrEqual(0.9)
  })

  test('is monotone and continuous in the limit', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.tuple(fc.integer({ min: 1, max: 240 }), fc.double({ min: 0.5, max: 2, noNaN: true })),
          { minLength: 1, maxLength: 12 },
        ),
        (drawn) => {
          const m = queue(
            drawn.map(([rate]) => rate),
            (i) => drawn[i]![1],
          )
          const at = (limitMs: number) => deriveCapacity(m, { ...measuredSlo, limitMs }).capacityRps
          const limits = [5, 15, 25, 40, 59.999, 60, 60.001, 75, 100, 300, 1000]
          const capacities = limits.map(at)
          for (let i = 1; i < capacities.length; i++)
            expect(capacities[i]).toBeGreaterThanOrEqual(capacities[i - 1]! * (1 - 1e-9))
          // As close as this, because a noisy point may lie just under the limit: the curve is then
          // steep there, but it has no jump.
          expect(at(60 - 1e-7)).toBeGreaterThan(at(60) * 0.96)
        },
      ),
    )
  })

  test('is 0 if the unloaded predictor is too slow, with its latency', () => {
    expect(deriveCapacity(queue(rates), { ...measuredSlo, limitMs: 10 })).toMatchObject({
      capacityRps: 0,
      sloMs: quantileMs(0.99, 0),
      derived: true,
    })
  })

  test('is a lower bound beyond every measured latency', () => {
    const derived = deriveCapacity(
      queue([40, 80], undefined, {
        capacityRps: 90,
        capacityCi90Rps: [85, 95],
        outcome: 'generator-limit',
      }),
      {
        ...measuredSlo,
        limitMs: 500,
      },
    )
    expect(derived).toMatchObject({ capacityRps: 80, bounds: 'lower' })
    expect(derived.capacityCi90Rps[1]).toBe(mu)
  })

  test('is a lower bound where no load violated the SLO', () => {
    const given = queue([40, 80], undefined, {
      capacityRps: 80,
      capacityCi90Rps: [80, Number.POSITIVE_INFINITY],
      bounds: 'lower',
    })
    expect(deriveCapacity(given, given.slo)).toMatchObject({
      capacityRps: 80,
      bounds: 'lower',
    })
  })

  test('does not reach into rates that failed requests', () => {
    const m = measurement({
      points: [point(100, 20), point(150, 30), point(220, 35, { errors: 40 })],
      capacityRps: 150,
      slo: measuredSlo,
      capacityCi90Rps: [150, 150],
    })
    expect(deriveCapacity(m, { ...measuredSlo, limitMs: 400 }).capacityRps).toBe(150)
  })

  test('is found under a looser SLO than one that nothing met', () => {
    const m = queue([5, 20, 40], undefined, {
      outcome: 'slo-unattainable',
      capacityRps: 0,
      capacityCi90Rps: [0, 0],
      slo: { ...measuredSlo, limitMs: 10 },
    })
    const derived = deriveCapacity(m, { ...measuredSlo, limitMs: 60 })
    expect(derived.capacityRps).toBe(40)
    expect(derived.bounds).toBe('lower')
  })

  test('uses only open-loop points where there are enough', () => {
    const closed = point(190, 8, { load: { kind: 'closed', connections: 8, durationS: 2 } })
    const m = queue([40, 80, 120])
    expect(buildLoadCurve({ ...m, points: [...m.points, closed] }, measuredSlo)).toEqual(
      buildLoadCurve(m, measuredSlo),
    )
  })

  test('ignores the percentiles of sweeps and the latencies of cut windows', () => {
    const m = queue(rates)
    const sweep = point(100, 1, {
      load: {
        kind: 'open',
        rateRps: 100,
        arrivals: { kind: 'sweep', fromRps: 50, toRps: 150 },
        durationS: 2,
        seed: 1,
      },
    })
    expect(buildLoadCurve({ ...m, points: [...m.points, sweep] }, measuredSlo)).toEqual(
      buildLoadCurve(m, measuredSlo),
    )
    const cut = point(240, 61, { cut: true })
    expect(
      deriveCapacity(
        { ...queue([40, 120]), points: [...queue([40, 120]).points, cut] },
        { ...measuredSlo, limitMs: 300 },
      ).capacityRps,
    ).toBeLessThan(240)
  })

  test('never exceeds the upper bound of a pruned trial', () => {
    const closed = [190, 240].map((rate) =>
      point(rate, 12, { load: { kind: 'closed', connections: 8, durationS: 2 } }),
    )
    const m = measurement({
      points: closed,
      outcome: 'pruned',
      capacityRps: 150,
      capacityCi90Rps: [90, 150],
      bounds: 'upper',
      slo: measuredSlo,
    })
    for (const limitMs of [15, 30, 59]) {
      const derived = deriveCapacity(m, { ...measuredSlo, limitMs })
      expect(derived.capacityRps).toBeLessThanOrEqual(150)
      expect(derived.bounds).toBe('upper')
    }
  })

  test('rejects impossible percentiles and limits', () => {
    for (const bad of [
      { percentile: 99 },
      { percentile: 0 },
      { limitMs: 0 },
      { limitMs: Number.NaN },
    ]) {
      expect(() => deriveCapacity(queue(rates), { ...measuredSlo, ...bad })).toThrow(RangeError)
    }
  })
})

test('a percentile between stored ones follows an exponential tail', () => {
  const s = summary(100, 1000)
  for (const q of [0.5, 0.9, 0.95, 0.99])
    expect(interpolatePercentile(s, q)).toBe(quantileMs(q, 100))
  for (const q of [0.3, 0.6, 0.75, 0.97, 0.995])
    expect(Math.abs(Math.log(interpolatePercentile(s, q) / quantileMs(q, 100)))).toBeLessThan(1e-9)
})

test('a load curve rises with the rate and passes through the measured capacity', () => {
  const m = queue(rates, (i) => (i % 2 ? 1.2 : 0.9))
  const curve = buildLoadCurve(m, measuredSlo)
  for (let i = 1; i < curve.length; i++)
    expect(curve[i]!.latencyMs).toBeGreaterThanOrEqual(curve[i - 1]!.latencyMs)
  expect(interpolateLatency(curve, m.capacityRps)).toBeCloseTo(60, 6)
})
