/**
 * Trials of one small experiment, for the tests of reports. Capacities and usage are made up; the
 * tests check what is said of them.
 */
import type { LoadPoint } from '../profiler/model/load-point.ts'
import type { Measurement } from '../profiler/model/measurement.ts'
import type { Slo } from '../profiler/model/slo.ts'
import type { Configuration } from '../search/types.ts'
import type { FinishedTrial, Usage } from '../trials/types.ts'
import type { RecommendInput } from './recommendation/recommend.ts'

export const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }

/** A predictor whose p99 at a rate r is idle / (1 - r / saturation): what a queue does. */
export function measured(
  saturationRps: number,
  unloadedMs: number,
  change: Partial<Measurement> = {},
): Measurement {
  const p99 = (rate: number) => unloadedMs / (1 - rate / saturationRps)
  const capacityRps = Math.max(0, saturationRps * (1 - unloadedMs / slo.limitMs))
  const unloaded = summary(unloadedMs, 100)
  const point = (rate: number): LoadPoint => ({
    ...summary(p99(rate), Math.round(rate * 4)),
    load: { kind: 'open', rateRps: rate, arrivals: { kind: 'poisson' }, durationS: 4, seed: 1 },
    offeredRps: rate,
    achievedRps: rate,
    goodputRps: rate * 0.99,
    errors: 0,
    errorKinds: {},
    sloMs: p99(rate),
    sloCi95Ms: [p99(rate) * 0.95, p99(rate) * 1.05],
    generatorSaturated: false,
    latenessP99Ms: 0.6,
    seconds: 4,
  })
  return {
    outcome: capacityRps > 0 ? 'converged' : 'slo-unattainable',
    capacityRps,
    capacityCi90Rps: [capacityRps * 0.97, capacityRps * 1.03],
    bounds: 'both',
    slo,
    unloaded,
    saturationRps,
    points: [0.3, 0.5, 0.7, 0.8, 0.9].map((share) => point(share * saturationRps)),
    requests: 4000,
    seconds: 20,
    caveats: [],
    ...change,
  }
}

function summary(p99Ms: number, requests: number) {
  return {
    requests,
    meanMs: p99Ms * 0.5,
    p50Ms: p99Ms * 0.45,
    p90Ms: p99Ms * 0.8,
    p95Ms: p99Ms * 0.9,
    p99Ms,
    maxMs: p99Ms * 1.2,
  }
}

export function complete(
  number: number,
  configuration: Configuration,
  measurement: Measurement,
  change: { usage?: Usage; purpose?: FinishedTrial['purpose'] } = {},
): FinishedTrial {
  return {
    number,
    configuration,
    why: 'grid',
    startedAt: '2026-11-20T10:00:00.000Z',
    state: 'complete',
    measurement,
    seconds: 25,
    ...change,
  }
}

const gpu = (batchSize: number, gpuMemoryPercent: number, cpuCores = 2): Configuration => ({
  cpuCores,
  gpu: 'T4',
  gpuMemoryPercent,
  batchSize,
})

/**
 * A default, a clear winner, a runner-up within 2 %, one too slow, one out of memory, one that
 * failed.
 */
export const sampleTrials: readonly FinishedTrial[] = [
  complete(1, gpu(1, 100), measured(150, 10), {
    purpose: 'default',
    usage: { gpuUtilization: 0.55, cpuCores: 0.8, launchSeconds: 12 },
  }),
  complete(2, gpu(8, 25), measured(265, 10), {
    usage: { gpuUtilization: 0.93, cpuCores: 1.2, launchSeconds: 11 },
  }),
  complete(3, gpu(8, 25, 1), measured(222, 10), { usage: { gpuUtilization: 0.7, cpuCores: 0.97 } }),
  complete(4, gpu(32, 100), measured(900, 60)),
  {
    number: 5,
    configuration: gpu(64, 25),
    why: 'expected improvement 12 %',
    startedAt: '2026-11-20T10:05:00.000Z',
    seconds: 4,
    state: 'infeasible',
    reason: 'out-of-memory',
    detail: '4.6 GiB of 4.0 GiB',
  },
  {
    number: 6,
    configuration: gpu(4, 50),
    why: 'grid',
    startedAt: '2026-11-20T10:06:00.000Z',
    seconds: 1,
    state: 'failed',
    error: 'no free port',
  },
]

export const price = (c: Configuration) =>
  Number(c.cpuCores) * 0.01 + (Number(c.gpuMemoryPercent) / 100) * 0.26

export const sampleInput: RecommendInput = {
  experimentId: 'bert-7f3a',
  provenance: 'emulated',
  seed: 7,
  slo,
  objective: { kind: 'price-per-request' },
  trials: sampleTrials,
  pricePerHour: price,
  label: (c) => `${c.cpuCores} cores, ${Number(c.gpuMemoryPercent) / 100} T4, batch ${c.batchSize}`,
  notices: ['GPUs are emulated from published measurements, error 9 %'],
}
