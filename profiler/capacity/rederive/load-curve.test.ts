/** Load curves knot by knot; the capacities that they come to are in capacity-under.test.ts. */
import { describe, expect, test } from 'vitest'
import { measurement, point } from '../../../trials/store/samples.contract.ts'
import type { LatencySummary, LoadPoint } from '../../model/load-point.ts'
import type { Measurement } from '../../model/measurement.ts'
import type { Slo } from '../../model/slo.ts'
import type { CurveKnot } from '../capacity-bounds.ts'
import { deriveCapacity } from './capacity-under-slo.ts'
import {
  buildLoadCurve,
  findRateWithin,
  interpolateLatency,
  interpolatePercentile,
} from './load-curve.ts'

const infinite = Number.POSITIVE_INFINITY
const slo: Slo = { percentile: 0.99, limitMs: 60, maxErrorRate: 0.001 }
const knot = (rateRps: number, latencyMs: number, more: Partial<CurveKnot> = {}): CurveKnot => ({
  rateRps,
  latencyMs,
  lowMs: latencyMs,
  highMs: latencyMs,
  requests: 1,
  ...more,
})
/** An open window with this p99, its interval and requests. */
const window = (
  rateRps: number,
  p99Ms: number,
  ci: readonly [number, number] = [p99Ms, p99Ms],
  more: Partial<LoadPoint> = {},
) => point(rateRps, p99Ms, { sloCi95Ms: ci, requests: 1000, ...more })
/** Idle p99 10 ms, capacity 200 within 190 and 210 under p99 <= 60 ms. */
const measured = (points: readonly LoadPoint[], change: Partial<Measurement> = {}): Measurement =>
  measurement({ slo, points, ...change })
/** Rate, latency and its interval of each knot, to six digits. */
const knotsOf = (made: Measurement, of = slo) =>
  buildLoadCurve(made, of).map((k) =>
    [k.rateRps, k.lowMs, k.latencyMs, k.highMs].map((x) => Number(x.toPrecision(6))),
  )
const closed = (connections: number) => ({
  load: { kind: 'closed', connections, durationS: 2 } as const,
})

describe('a load curve', () => {
  test('contains the unloaded predictor, the windows by rising rate, and the estimate', () => {
    const m = measured([
      window(150, 30, [27, 35]),
      window(250, 120, [90, 150]),
      window(100, 20, [18, 23]),
    ])
    expect(knotsOf(m)).toEqual([
      [0, 10, 10, 10],
      [100, 18, 20, 23],
      [150, 27, 30, 35],
      [200, 60, 60, 60],
      [250, 90, 120, 150],
    ])
    const curve = buildLoadCurve(m, slo)
    expect(curve.map(({ requests }) => requests)).toEqual([50, 1000, 1000, 1100, 1000])
    expect(curve.map(({ modelled }) => modelled)).toEqual([
      undefined,
      undefined,
      undefined,
      true,
      undefined,
    ])
  })

  test('has no unloaded knot where that latency is unknown', () => {
    const { unloaded } = measurement()
    for (const p99Ms of [0, Number.NaN])
      expect(
        knotsOf(measured([window(100, 20)], { unloaded: { ...unloaded, p99Ms } })).map(
          ([rate]) => rate,
        ),
      ).toEqual([100, 200])
    expect(
      knotsOf(measured([window(100, 20)], { unloaded: { ...unloaded, p99Ms: 0.5 } }))[0],
    ).toEqual([0, 0.5, 0.5, 0.5])
  })

  test('leaves out windows with a saturated generator or without a rate', () => {
    const m = measured([
      window(100, 20),
      window(150, 30),
      window(120, 25, [25, 25], { generatorSaturated: true }),
      window(0, 12),
    ])
    expect(knotsOf(m).map(([rate]) => rate)).toEqual([0, 100, 150, 200])
    expect(knotsOf(measured([window(0.5, 12), window(150, 30)]))[1]).toEqual([0.5, 12, 12, 12])
  })

  test('uses closed loops where there are fewer than two open windows', () => {
    const loops = [window(120, 15, [15, 15], closed(4)), window(160, 18, [18, 18], closed(8))]
    const rates = (points: LoadPoint[]) => knotsOf(measured(points)).map(([rate]) => rate)
    expect(rates([...loops, window(100, 12)])).toEqual([0, 100, 120, 160, 200])
    expect(rates([...loops, window(100, 12), window(150, 30)])).toEqual([0, 100, 150, 200])
    expect(rates(loops)).toEqual([0, 120, 160, 200])
  })

  test('is infinite where too many requests failed, none was answered, or the window was cut', () => {
    for (const spoilt of [
      { errors: 40 },
      { p99Ms: Number.NaN },
      { p99Ms: 0 },
      { cut: true },
    ] as const)
      expect(
        knotsOf(measured([window(100, 20), window(250, 70, [70, 70], spoilt)])).at(-1),
      ).toEqual([250, infinite, infinite, infinite])
    expect(
      knotsOf(measured([window(100, 20), window(250, 0.6, [0.6, 0.6])], { capacityRps: 0 })).at(
        -1,
      )![2],
    ).not.toBe(infinite)
  })

  test('pools windows that contradict a rising latency, by the mean of ln latency weighted by requests', () => {
    const m = measured([
      window(100, 40, [36, 44], { requests: 1000 }),
      window(150, 20, [18, 22], { requests: 3000 }),
      window(160, 50, [45, 55]),
    ])
    // 20 times 2^(1/4).
    const pooled = [18 * 2 ** 0.25, 20 * 2 ** 0.25, 22 * 2 ** 0.25].map((x) =>
      Number(x.toPrecision(6)),
    )
    expect(knotsOf(m)).toEqual([
      [0, 10, 10, 10],
      [100, ...pooled],
      [150, ...pooled],
      [160, 45, 50, 55],
      [200, 60, 60, 60],
    ])
    // One that failed counts as a hundred times as slow as the slowest.
    const failed = measured([window(100, 30, [30, 30], { cut: true }), window(150, 20)], {
      capacityRps: 0,
      capacityCi90Rps: [0, 0],
    })
    expect(knotsOf(failed).slice(1)).toEqual([
      [100, 200, 200, 200],
      [150, 200, 200, 200],
    ])
    const chain = measured([window(100, 40), window(150, 30), window(160, 20)])
    expect(knotsOf(chain)[2]![2]).toBeCloseTo((40 * 30 * 20) ** (1 / 3), 3)
  })

  test('has interval ends that rise with the rate', () => {
    const m = measured([
      window(100, 20, [18, 50]),
      window(150, 30, [10.5, 35]),
      window(160, 31, [28, 33]),
    ])
    expect(knotsOf(m).slice(1, 4)).toEqual([
      [100, 10.5, 20, 50],
      [150, 10.5, 30, 50],
      [160, 28, 31, 50],
    ])
  })

  test('passes through the estimate, and drops windows that contradict it', () => {
    // Within the interval of 190 to 210 the estimate speaks alone.
    expect(
      knotsOf(measured([window(100, 20), window(195, 20), window(205, 90)])).map(([rate]) => rate),
    ).toEqual([0, 100, 200])
    expect(
      knotsOf(measured([window(100, 20), window(189, 20), window(211, 90)])).map(([rate]) => rate),
    ).toEqual([0, 100, 189, 200, 211])
    // Slower below than at the estimate, faster beyond it.
    expect(
      knotsOf(measured([window(100, 20), window(150, 70), window(250, 40), window(260, 55)])).map(
        ([rate]) => rate,
      ),
    ).toEqual([0, 100, 200])
    expect(knotsOf(measured([window(100, 50, [30, 90]), window(250, 80, [40, 90])]))).toEqual([
      [0, 10, 10, 10],
      [100, 30, 50, 60],
      [200, 60, 60, 60],
      [250, 60, 80, 90],
    ])
  })

  test('has no estimate without a capacity, at a generator limit, or outside its own interval', () => {
    for (const change of [
      { capacityRps: 0, capacityCi90Rps: [0, 0] },
      { outcome: 'generator-limit' },
      { capacityCi90Rps: [201, 210] },
    ] as const)
      expect(
        knotsOf(measured([window(100, 20), window(150, 30)], change)).map(([rate]) => rate),
      ).toEqual([0, 100, 150])
    expect(
      knotsOf(measured([window(100, 20)], { capacityRps: 0.5, capacityCi90Rps: [0.5, 0.5] })).map(
        ([rate]) => rate,
      ),
    ).toEqual([0, 0.5])
    expect(
      knotsOf(measured([window(100, 20)], { capacityCi90Rps: [200, 210] })).map(([rate]) => rate),
    ).toEqual([0, 100, 200])
  })

  describe('of another percentile', () => {
    const p50 = { ...slo, percentile: 0.5 }
    const halved = (rateRps: number, p99Ms: number, part = 0.5) =>
      window(rateRps, p99Ms, [0.9 * p99Ms, 1.2 * p99Ms], { p50Ms: part * p99Ms })

    test('uses each window’s own percentile, with its interval in proportion', () => {
      const m = measured([halved(100, 20), halved(150, 30), halved(250, 120)])
      expect(knotsOf(m, p50)).toEqual([
        [0, 8, 8, 8],
        [100, 9, 10, 12],
        [150, 13.5, 15, 18],
        [200, 30, 30, 30],
        [250, 54, 60, 72],
      ])
    })

    test('scales the estimate by the three nearest windows', () => {
      const near = [halved(180, 40, 0.4), halved(220, 70, 0.2), halved(230, 80, 0.1)]
      const far = [halved(100, 20, 0.9), halved(300, 90, 0.9)]
      const at = (points: LoadPoint[]) =>
        buildLoadCurve(measured(points), p50).find(({ modelled }) => modelled)!.latencyMs
      expect(at([far[0]!, ...near, far[1]!])).toBeCloseTo(60 * (0.4 * 0.2 * 0.1) ** (1 / 3), 9)
      expect(at([...far, ...near].toReversed())).toBeCloseTo(60 * (0.4 * 0.2 * 0.1) ** (1 / 3), 9)
      expect(
        at([halved(190, 40, 0.4), window(199, 50, [50, 50], { p99Ms: Number.NaN }), window(0, 9)]),
      ).toBeCloseTo(24, 9)
      // Without a window as the idle predictor's: 8 of 10 ms.
      expect(at([])).toBeCloseTo(48, 9)
    })
  })
})

describe('values read off a curve', () => {
  const curve = [knot(0, 10), knot(100, 20), knot(200, 80)]

  test('latencies are interpolated geometrically, and constant beyond the ends', () => {
    expect(interpolateLatency(curve, 50)).toBeCloseTo(Math.sqrt(200), 9)
    expect(interpolateLatency(curve, 125)).toBeCloseTo(20 * 4 ** 0.25, 9)
    expect([
      interpolateLatency(curve, 100),
      interpolateLatency(curve, 0),
      interpolateLatency(curve, 300),
    ]).toEqual([20, 10, 80])
    expect(interpolateLatency(curve.slice(1), 50)).toBe(20)
    expect(interpolateLatency([], 50)).toBeNaN()
    expect([
      interpolateLatency([knot(0, 10), knot(100, infinite)], 1),
      interpolateLatency([knot(50, 10), knot(50, 40)], 50),
    ]).toEqual([infinite, 10])
  })

  test('the rate is 0 if the first knot exceeds the limit, and the last rate if none does', () => {
    expect(findRateWithin(curve, 40)).toBeCloseTo(150, 9)
    expect([
      findRateWithin(curve, 20),
      findRateWithin(curve, 5),
      findRateWithin(curve, 80),
      findRateWithin(curve, 500),
    ]).toEqual([100, 0, 200, 200])
    expect([
      findRateWithin([], 5),
      findRateWithin([knot(0, 10), knot(100, 20), knot(200, infinite)], 50),
    ]).toEqual([0, 100])
  })
})

describe('a capacity read off a curve', () => {
  const points = [window(100, 20), window(150, 30), window(250, 120)]

  test('has the measured interval, 1.25 times as wide in ln rate', () => {
    const { capacityRps, capacityCi90Rps, sloMs, bounds } = deriveCapacity(
      measured(points, { capacityCi90Rps: [190, 220] }),
      {
        ...slo,
        limitMs: 30,
      },
    )
    expect(capacityRps).toBeCloseTo(150, 9)
    expect(capacityCi90Rps[0]).toBeCloseTo(150 * (190 / 200) ** 1.25, 9)
    expect(capacityCi90Rps[1]).toBeCloseTo(150 * (220 / 200) ** 1.25, 9)
    expect([sloMs, bounds]).toEqual([expect.closeTo(30, 9), 'both'])
  })

  test('has the end of the curve where the measured end is unknown', () => {
    const bounded = measured(points, { bounds: 'upper', capacityCi90Rps: [0, 200] })
    const beyond = 200 + (50 * Math.log(90 / 60)) / Math.log(120 / 60)
    expect(deriveCapacity(bounded, { ...slo, limitMs: 90 }).capacityCi90Rps).toEqual(
      [beyond, beyond].map((rate) => expect.closeTo(rate, 9)),
    )
    const slow = measured([window(0.25, 20), window(0.375, 30)], {
      capacityRps: 0.5,
      capacityCi90Rps: [0.4, 0.6],
    })
    expect(deriveCapacity(slow, { ...slo, limitMs: 30 }).capacityCi90Rps).toEqual([
      expect.closeTo(0.375 * 0.8 ** 1.25, 9),
      expect.closeTo(0.375 * 1.2 ** 1.25, 9),
    ])
  })

  test('has the interval of the curve where that is wider', () => {
    const wide = measured([window(100, 20, [15, 40]), window(150, 30, [20, 45])])
    const { capacityCi90Rps } = deriveCapacity(wide, { ...slo, limitMs: 30 })
    // The upper ends reach 30 ms on the way to 100, the lower ones on the way from 20 ms at 150 to
    // 60 at 200.
    const low = (100 * Math.log(30 / 10)) / Math.log(40 / 10)
    const high = 150 + (50 * Math.log(30 / 20)) / Math.log(60 / 20)
    expect(capacityCi90Rps[0]).toBeCloseTo(150 * (low / 150) ** 1.25, 6)
    expect(capacityCi90Rps[1]).toBeCloseTo(150 * (high / 150) ** 1.25, 6)
  })

  test('keeps its bounds up to the measured limit, and is a lower bound where no knot exceeds the limit', () => {
    const bound = measured(points, { bounds: 'upper' })
    const under = (limitMs: number, of = bound) => deriveCapacity(of, { ...slo, limitMs })
    expect([under(30).bounds, under(100).bounds, under(500).bounds]).toEqual([
      'upper',
      'both',
      'lower',
    ])
    expect(deriveCapacity(bound, { ...slo, percentile: 0.95, limitMs: 60 }).bounds).toBe('upper')
    expect(under(500).capacityCi90Rps[1]).toBe(Math.max(260, 250 * (210 / 200) ** 1.25))
    expect(under(500, measured(points, { saturationRps: 400 })).capacityCi90Rps[1]).toBe(400)
  })

  test('is 0 where the unloaded predictor violates the SLO, with an open upper end', () => {
    expect(deriveCapacity(measured(points), { ...slo, limitMs: 9 })).toEqual({
      capacityRps: 0,
      capacityCi90Rps: [0, 0],
      bounds: 'both',
      sloMs: 10,
      derived: true,
    })
    const unloaded: LatencySummary = { ...measurement().unloaded, p99Ms: Number.NaN }
    const open = deriveCapacity(
      measured([window(100, 20, [10, 25]), window(150, 30, [28, 33])], { unloaded }),
      { ...slo, limitMs: 15 },
    )
    expect(open.capacityRps).toBe(0)
    expect(open.capacityCi90Rps).toEqual([
      0,
      expect.closeTo(100 + (50 * Math.log(1.5)) / Math.log(2.8), 9),
    ])
    expect(
      deriveCapacity(measured([], { unloaded, capacityRps: 0, capacityCi90Rps: [0, 0] }), {
        ...slo,
        limitMs: 15,
      }),
    ).toMatchObject({
      capacityRps: 0,
      capacityCi90Rps: [0, 0],
    })
  })

  test('has the latency of the curve, at most the limit, under the measured SLO', () => {
    expect(deriveCapacity(measured(points), slo).sloMs).toBeCloseTo(60, 9)
    expect(
      deriveCapacity(measured(points, { outcome: 'generator-limit', capacityRps: 150 }), slo).sloMs,
    ).toBeCloseTo(30, 9)
    expect(
      deriveCapacity(measured(points, { outcome: 'generator-limit', capacityRps: 249 }), slo).sloMs,
    ).toBe(60)
    expect(
      deriveCapacity(measured(points, { capacityRps: 0, capacityCi90Rps: [0, 0] }), slo).sloMs,
    ).toBe(10)
    expect(
      deriveCapacity(
        measured([window(0.1, 20)], { outcome: 'generator-limit', capacityRps: 0.5 }),
        slo,
      ).sloMs,
    ).toBeCloseTo(20, 9)
  })

  test('rejects percentile 1 and accepts limits below a millisecond', () => {
    expect(() => deriveCapacity(measured(points), { ...slo, percentile: 1 })).toThrow(RangeError)
    expect(deriveCapacity(measured(points), { ...slo, limitMs: 0.5 }).capacityRps).toBe(0)
  })
})

describe('a percentile that is not stored', () => {
  const summary = {
    requests: 1000,
    meanMs: 0,
    p50Ms: 10,
    p90Ms: 30,
    p95Ms: 36,
    p99Ms: 50,
    maxMs: 80,
  }

  test('is linear in -ln(1 - q) between stored ones', () => {
    const between = (q: number, [q0, ms0]: [number, number], [q1, ms1]: [number, number]) =>
      ms0 + ((ms1 - ms0) * Math.log((1 - q0) / (1 - q))) / Math.log((1 - q0) / (1 - q1))
    expect(interpolatePercentile(summary, 0.7)).toBeCloseTo(between(0.7, [0.5, 10], [0.9, 30]), 9)
    expect(interpolatePercentile(summary, 0.93)).toBeCloseTo(
      between(0.93, [0.9, 30], [0.95, 36]),
      9,
    )
    expect(interpolatePercentile(summary, 0.98)).toBeCloseTo(
      between(0.98, [0.95, 36], [0.99, 50]),
      9,
    )
    expect(interpolatePercentile(summary, 0.995)).toBeCloseTo(
      between(0.995, [0.99, 50], [1 - 1 / 1001, 80]),
      9,
    )
    expect(interpolatePercentile(summary, 0.4)).toBeCloseTo(between(0.4, [0.5, 10], [0.9, 30]), 9)
  })

  test('is the maximum for very high percentiles, and never negative', () => {
    expect(interpolatePercentile(summary, 0.9995)).toBe(80)
    // Of 99 the slowest is the 99th percentile itself.
    expect(interpolatePercentile({ ...summary, requests: 98 }, 0.999)).toBe(50)
    expect(interpolatePercentile({ ...summary, requests: 120 }, 0.999)).toBe(80)
    expect(interpolatePercentile({ ...summary, p50Ms: 1 }, 0.01)).toBe(0)
  })
})
