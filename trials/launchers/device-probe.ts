/** Probes of the device of a predictor, and the one that reads the built-in predictor's metrics. */
import { readAnswer } from '../../profiler/bounded-reader.ts'

export interface DeviceReading {
  readonly memoryMiB?: number
  /**
   * Utilisation of the device since the last reading, 0-1 (nvidia-smi: over its last sample
   * period).
   */
  readonly utilization?: number
  /** Current power of all reserved GPUs, W (nvidia-smi: mean of the last second). */
  readonly gpuWatts?: number
  /** Power of the machine's processors since the last reading, W. */
  readonly cpuWatts?: number
  /** Mean batch since the first reading. */
  readonly realisedBatch?: number
  /** Language servers: running sequences. */
  readonly sequences?: number
  /** Queued sequences. */
  readonly waiting?: number
  /** Share of the KV cache in use, 0-1. */
  readonly cacheUse?: number
  /** Sequences that lost their place in the KV cache since the first reading. */
  readonly preemptions?: number
  /** Mean accepted draft tokens of a step since the first reading (speculative decoding). */
  readonly acceptedTokens?: number
}

/** Reads once. Rejects if there is no reading now. */
export type DeviceProbe = () => Promise<DeviceReading>

/** Timeout of a read of a server's own metrics. */
export const scrapeTimeoutMs = 2_000

/**
 * Probes the metrics of the built-in predictor.
 * @param hasGpu false: its devices are CPU engines, whose utilisation is not that of a GPU
 */
export const createMetricsProbe = (url: string, hasGpu: boolean): DeviceProbe => {
  let first: Metrics | undefined
  let last: Metrics | undefined
  return async () => {
    const now = await readBuiltinMetrics(url)
    const since = first ?? now
    const before = last ?? now
    first = since
    last = now
    const seconds = now.readySeconds - before.readySeconds
    const batches = now.batches - since.batches
    const draftSteps = now.draftings - since.draftings
    return {
      realisedBatch: batches > 0 ? (now.items - since.items) / batches : undefined,
      acceptedTokens: draftSteps > 0 ? (now.accepted - since.accepted) / draftSteps : undefined,
      ...(hasGpu && {
        memoryMiB: now.memoryMiB,
        utilization:
          seconds > 0
            ? Math.min(1, (now.busySeconds - before.busySeconds) / seconds / now.devices)
            : undefined,
      }),
    }
  }
}

/**
 * Reads the counters of a built-in predictor.
 * @throws if it does not answer
 */
async function readBuiltinMetrics(url: string): Promise<Metrics> {
  const response = await fetch(new URL('/metrics', url), {
    signal: AbortSignal.timeout(scrapeTimeoutMs),
  })
  return readMetrics(await readAnswer(response.body))
}

interface Metrics {
  readonly items: number
  readonly batches: number
  readonly busySeconds: number
  readonly readySeconds: number
  readonly devices: number
  readonly memoryMiB: number
  /** Language models: accepted draft tokens, and steps with a draft. */
  readonly accepted: number
  readonly draftings: number
}

/** Sums over labels of the counters and gauges of `trials/predictor/server/metrics.ts`. */
export const readMetrics = (text: string): Metrics => {
  const sum = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)`, 'gm'))].reduce(
      (total, [, value]) => total + Number(value),
      0,
    )
  return {
    items: sum('predictor_items_total'),
    batches: sum('predictor_batches_total'),
    busySeconds: sum('predictor_device_busy_seconds_total'),
    readySeconds: sum('predictor_ready_seconds'),
    devices: sum('predictor_devices') || 1,
    memoryMiB: sum('predictor_device_memory_bytes') / 2 ** 20,
    accepted: sum('predictor_accepted_draft_tokens_total'),
    draftings: sum('predictor_draftings_total'),
  }
}
