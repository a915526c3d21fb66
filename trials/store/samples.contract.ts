/** Arbitrary trials for the tests of stores: every state, every number a measurement may hold. */
import fc from 'fast-check'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { FinishedTrial } from '../types.ts'

export const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }

export function point(
  offeredRps: number,
  sloMs: number,
  change: Partial<LoadPoint> = {},
): LoadPoint {
  return {
    load: {
      kind: 'open',
      rateRps: offeredRps,
      arrivals: { kind: 'poisson' },
      durationS: 2,
      seed: 1,
    },
    offeredRps,
    achievedRps: offeredRps,
    goodputRps: offeredRps,
    errors: 0,
    errorKinds: {},
    sloMs,
    sloCi95Ms: [sloMs * 0.9, sloMs * 1.1],
    generatorSaturated: false,
    latenessP99Ms: 0.7,
    seconds: 2,
    requests: offeredRps * 2,
    meanMs: sloMs / 2,
    p50Ms: sloMs / 2,
    p90Ms: sloMs * 0.8,
    p95Ms: sloMs * 0.9,
    p99Ms: sloMs,
    maxMs: sloMs * 1.3,
    ...change,
  }
}

export function measurement(change: Partial<Measurement> = {}): Measurement {
  return {
    outcome: 'converged',
    capacityRps: 200,
    capacityCi90Rps: [190, 210],
    bounds: 'both',
    slo,
    unloaded: { requests: 50, meanMs: 8, p50Ms: 8, p90Ms: 9, p95Ms: 9.5, p99Ms: 10, maxMs: 12 },
    saturationRps: 260,
    points: [
      point(100, 20),
      point(200, 50),
      point(250, Number.POSITIVE_INFINITY, { sloCi95Ms: [400, Number.POSITIVE_INFINITY] }),
    ],
    requests: 1100,
    seconds: 20,
    caveats: [],
    ...change,
  }
}

export function completeTrial(
  number: number,
  change: Partial<Extract<FinishedTrial, { state: 'complete' }>> = {},
): FinishedTrial {
  return {
    number,
    configuration: { cpuCores: 2, gpuMemoryMiB: 4096, batchSize: 8, gpu: 'T4' },
    why: 'start: space-filling',
    startedAt: '2026-11-20T10:00:00.000Z',
    state: 'complete',
    measurement: measurement(),
    seconds: 25,
    ...change,
  }
}

const anyNumber = fc.oneof(
  fc.double(),
  fc.integer(),
  fc.constantFrom(Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN, -0),
)
const anyText = fc.string({ unit: 'binary' })
const configuration = fc.dictionary(
  fc.constantFrom('cpuCores', 'gpu', 'batchSize', '$number', '$literal', '__x'),
  fc.oneof(anyNumber, anyText),
  { noNullPrototype: true },
)
const anyPoint: fc.Arbitrary<LoadPoint> = fc
  .tuple(
    anyNumber,
    anyNumber,
    anyNumber,
    fc.dictionary(anyText, fc.nat(), { noNullPrototype: true }),
  )
  .map(([rate, ms, p99Ms, errorKinds]) => point(rate, ms, { p99Ms, errorKinds }))

export const anyTrial: fc.Arbitrary<FinishedTrial> = fc
  .tuple(configuration, anyText, fc.array(anyPoint, { maxLength: 5 }), anyNumber, anyText)
  .chain(([configuration, why, points, number, text]) =>
    fc.constantFrom<FinishedTrial>(
      completeTrial(1, {
        configuration,
        why,
        measurement: measurement({
          points,
          capacityRps: number,
          capacityCi90Rps: [number, number],
        }),
        usage: { cpuCores: number },
      }),
      {
        number: 1,
        configuration,
        why,
        startedAt: text,
        seconds: number,
        state: 'infeasible',
        reason: 'out-of-memory',
        detail: text,
      },
      {
        number: 1,
        configuration,
        why,
        startedAt: text,
        seconds: number,
        state: 'failed',
        error: text,
        logPath: text,
      },
    ),
  )
