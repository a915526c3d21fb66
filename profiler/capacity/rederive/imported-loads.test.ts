import { describe, expect, test } from 'vitest'
import type { LoadPoint } from '../../model/load-point.ts'
import type { Measurement } from '../../model/measurement.ts'
import type { Slo } from '../../model/slo.ts'
import { deriveCapacity } from './capacity-under-slo.ts'
import { buildLoadCurve } from './load-curve.ts'

const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }

/** @param loads rate, p99 and p95 in ms, requests, failed ones */
function imported(
  loads: readonly (readonly [number, number, number?, number?, number?])[],
  made: Slo = slo,
): Measurement {
  const unknown = {
    requests: 0,
    meanMs: NaN,
    p50Ms: NaN,
    p90Ms: NaN,
    p95Ms: NaN,
    p99Ms: NaN,
    maxMs: NaN,
  }
  const points = loads.map(
    ([achievedRps, p99Ms, p95Ms = NaN, requests = 0, errors = 0]): LoadPoint => ({
      ...unknown,
      load: { kind: 'closed', connections: 8, durationS: 10 },
      offeredRps: achievedRps,
      achievedRps,
      goodputRps: NaN,
      requests,
      errors,
      errorKinds: {},
      p95Ms,
      p99Ms,
      sloMs: p99Ms,
      sloCi95Ms: [0, Infinity],
      generatorSaturated: false,
      latenessP99Ms: 0,
      seconds: 10,
    }),
  )
  const base = {
    outcome: 'imported',
    slo: made,
    unloaded: unknown,
    saturationRps: 0,
    points,
    requests: 0,
    seconds: 0,
    caveats: [],
  } as const
  return { ...base, capacityRps: 0, capacityCi90Rps: [0, 0], bounds: 'both' as const }
}

const under = (measurement: Measurement, asked: Partial<Slo> = {}) =>
  deriveCapacity(measurement, { ...slo, ...asked })

describe('the capacity from imported loads', () => {
  test.each<[string, Parameters<typeof imported>[0], object]>([
    [
      'the most that kept it, up to the next that did not',
      [
        [100, 20],
        [200, 40],
        [260, 80],
      ],
      { capacityRps: 200, capacityCi90Rps: [200, 260], bounds: 'both', sloMs: 40 },
    ],
    [
      'in any order',
      [
        [260, 80],
        [100, 20],
        [200, 40],
      ],
      { capacityRps: 200, capacityCi90Rps: [200, 260] },
    ],
    [
      'none that did not: at least',
      [
        [100, 20],
        [200, 40],
      ],
      { capacityRps: 200, capacityCi90Rps: [200, Infinity], bounds: 'lower' },
    ],
    [
      'more requests at once, and fewer a second: at least',
      [
        [300, 45],
        [290, 90],
      ],
      { capacityRps: 300, capacityCi90Rps: [300, Infinity], sloMs: 45 },
    ],
    [
      'none that kept it',
      [
        [10, 70],
        [20, 90],
      ],
      { capacityRps: 0, capacityCi90Rps: [0, 10], sloMs: 70 },
    ],
    [
      'too many failed',
      [
        [100, 20],
        [200, 30, undefined, 1000, 20],
      ],
      { capacityRps: 100, capacityCi90Rps: [100, 200] },
    ],
    ['at the limit itself', [[100, 50]], { capacityRps: 100, sloMs: 50 }],
  ])('%s', (_, loads, expected) => {
    expect(under(imported(loads))).toMatchObject(expected)
  })

  test('another limit uses the same loads, without interpolation', () => {
    const loads = imported([
      [100, 20],
      [200, 40],
      [260, 80],
    ])
    expect(under(loads, { limitMs: 39 })).toMatchObject({
      capacityRps: 100,
      capacityCi90Rps: [100, 200],
      derived: true,
    })
    expect(under(loads, { limitMs: 100 })).toMatchObject({
      capacityRps: 260,
      bounds: 'lower',
      derived: true,
    })
    expect(under(loads)).toMatchObject({ derived: false })
    expect(
      buildLoadCurve(loads, slo).map(({ rateRps, latencyMs }) => [rateRps, latencyMs]),
    ).toEqual([
      [100, 20],
      [200, 40],
      [260, 80],
    ])
  })

  test('another percentile is known where every load reports it', () => {
    expect(
      under(
        imported([
          [100, 60, 30],
          [200, 90, 45],
        ]),
        { percentile: 0.95 },
      ),
    ).toMatchObject({ capacityRps: 200, derived: true })
    expect(
      under(
        imported([
          [100, 60, 30],
          [200, 90],
        ]),
        { percentile: 0.95 },
      ),
    ).toMatchObject({ bounds: 'none', capacityRps: 0, sloMs: NaN })
    expect(under(imported([[100, 20]]), { percentile: 0.999 })).toMatchObject({ bounds: 'none' })
  })

  test('another latency, and joint limits, are unknown', () => {
    expect(under(imported([[100, 20]]), { metric: 'ttft' })).toMatchObject({ bounds: 'none' })
    const limits = [
      { metric: 'ttft', limitMs: 50 },
      { metric: 'tpot', limitMs: 20 },
    ] as const
    expect(under(imported([[100, 20]]), { limits })).toMatchObject({ bounds: 'none' })
  })
})
