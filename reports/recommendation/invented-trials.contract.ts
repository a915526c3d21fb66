/** Trials as they might have been, first and second measurements of three configurations. */
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import type { Configuration } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { type Windows, window } from './windows.contract.ts'

const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
/** Rising prices: A is the cheapest. */
export const [A, B, C] = [25, 50, 100].map(
  (gpuMemoryPercent): Configuration => ({
    cpuCores: 2,
    memoryMiB: 4096,
    gpu: 'T4',
    gpuMemoryPercent,
    batchSize: 8,
    maxDelayMs: 2,
  }),
) as [Configuration, Configuration, Configuration]

interface Tried extends Partial<Omit<Measurement, 'points'>> {
  readonly windows?: Windows
}

/** Measured once: an estimate with its interval, and windows as [rate, p99]. */
export function tried(
  number: number,
  configuration: Configuration,
  capacityRps: number,
  change: Tried = {},
): FinishedTrial {
  const { windows = [[0.5 * capacityRps, 20]], ...rest } = change
  const unloaded = { ...window(1, 8).summary, requests: 200 }
  return trialOf(number, configuration, {
    outcome: 'converged',
    capacityRps,
    capacityCi90Rps: [0.97 * capacityRps, 1.03 * capacityRps],
    bounds: 'both',
    slo,
    unloaded,
    saturationRps: 1.2 * capacityRps,
    points: windows
      .filter(([rate]) => rate > 0)
      .map(([rate, p99Ms]) => window(rate, p99Ms, rest.slo ?? slo).point),
    requests: 4000,
    seconds: 7,
    caveats: [],
    ...rest,
  })
}

/**
 * Measured again: the highest window that held is its capacity. `proven`: many requests; else the
 * profiler lowers the interval.
 */
export function again(
  number: number,
  configuration: Configuration,
  windows: Windows,
  proven = true,
  change: Partial<Measurement> = {},
): FinishedTrial {
  const limitMs = (change.slo ?? slo).limitMs
  const held = Math.max(0, ...windows.filter(([, p99Ms]) => p99Ms <= limitMs).map(([rate]) => rate))
  const measurement: Measurement = {
    ...(
      tried(number, configuration, held, { windows: [] }) as FinishedTrial & { state: 'complete' }
    ).measurement,
    points: windows.map(
      ([rate, p99Ms]) => window(rate, p99Ms, change.slo ?? slo, proven ? 30 : 0.4).point,
    ),
    outcome: held > 0 ? 'converged' : 'budget',
    capacityRps: held,
    capacityCi90Rps:
      held > 0
        ? [held * (proven ? 1 : 0.95), Number.POSITIVE_INFINITY]
        : [0, 0.82 * (windows[0]?.[0] ?? 0)],
    bounds: held > 0 ? 'lower' : 'upper',
    ...change,
  }
  return {
    ...trialOf(number, configuration, measurement),
    purpose: 'confirmation',
    why: 'confirmation',
  }
}

function trialOf(
  number: number,
  configuration: Configuration,
  measurement: Measurement,
): FinishedTrial {
  const startedAt = new Date(Date.UTC(2026, 10, 20, 10, number)).toISOString()
  return {
    number,
    configuration,
    why: 'grid',
    startedAt,
    state: 'complete',
    measurement,
    seconds: 12,
    usage: { launchSeconds: 4 },
  }
}

const base = (number: number, configuration: Configuration) => {
  const {
    measurement: _,
    state: __,
    usage: ___,
    ...rest
  } = tried(number, configuration, 1) as FinishedTrial & { state: 'complete' }
  return rest
}
export const outOfMemory = (number: number, configuration: Configuration): FinishedTrial => ({
  ...base(number, configuration),
  state: 'infeasible',
  reason: 'out-of-memory',
  detail: '5.1 GiB of 3.8 GiB',
})
export const failed = (number: number, configuration: Configuration): FinishedTrial => ({
  ...base(number, configuration),
  state: 'failed',
  error: 'no free port',
})
export const slow = (number: number, configuration: Configuration): FinishedTrial =>
  tried(number, configuration, 0, {
    outcome: 'slo-unattainable',
    capacityCi90Rps: [0, 0],
    unloaded: { ...window(1, 73).summary, requests: 200 },
    windows: [],
  })
export const disturbed = {
  outcome: 'host-interference',
  capacityRps: 0,
  capacityCi90Rps: [0, Number.POSITIVE_INFINITY],
  bounds: 'none',
} as const

export const tight: Slo = {
  percentile: 0.99,
  limitMs: 200,
  maxErrorRate: 0.001,
  limits: [
    { metric: 'ttft', limitMs: 200 },
    { metric: 'tpot', limitMs: 30 },
    { metric: 'e2e', limitMs: 2000 },
  ],
}
