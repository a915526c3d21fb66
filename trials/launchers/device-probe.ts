/** Probes of the device of a predictor, and the one that reads the built-in predictor's metrics. */
import { readAnswer } from '../../profiler/bounded-reader.ts'

export interface DeviceReading {
  readonly memoryMiB?: number
  /**
   * Share of the time since the last reading (nvidia-smi: of the last moment) that the device was
   * busy, 0-1.
   */
  readonly utilization?: number
  /** Power now (nvidia-smi: mean of the last second) of all GPUs that are held, W. */
  readonly gpuWatts?: number
  /** Power of the machine's processors since the last reading, W. */
  readonly cpuWatts?: number
  /** Mean batch since the first reading. */
  readonly realisedBatch?: number
  /** Sequences under way, and waiting, in a server of language models. */
  readonly sequences?: number
  readonly waiting?: number
  /** Share of its cache that is in use, 0-1. */
  readonly cacheUse?: number
  /** Sequences that gave up their place in it since the first reading. */
  readonly preemptions?: number
  /**
   * Draft tokens that a step kept of each answer, on average since the first reading (speculative
   * decoding).
   */
  readonly acceptedTokens?: number
}

/** Reads once. Rejects when it cannot be read just now. */
export type DeviceProbe = () => Promise<DeviceReading>

/** Timeout of a read of a server's own metrics. */
export const scrapeTimeoutMs = 2_000

/**
 * The built-in predictor's own metrics.
 * @param hasGpu false: its devices are CPU engines, whose use is not that of a GPU.
 */
export const metricsProbe = (url: string, hasGpu: boolean): DeviceProbe => {
  let first: Metrics | undefined
  let last: Metrics | undefined
  return async () => {
    const now = await builtinMetrics(url)
    const since = first ?? now
    const before = last ?? now
    first = since
    last = now
    const seconds = now.readySeconds - before.readySeconds
    const batches = now.batches - since.batches
    const draftings = now.draftings - since.draftings
    return {
      realisedBatch: batches > 0 ? (now.items - since.items) / batches : undefined,
      acceptedTokens: draftings > 0 ? (now.accepted - since.accepted) / draftings : undefined,
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

/** What a built-in predictor has counted so far. @throws where it does not answer */
async function builtinMetrics(url: string): Promise<Metrics> {
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
  /** Of a language model: draft tokens that were kept, and how often an answer had some drafted. */
  readonly accepted: number
  readonly draftings: number
}

/** Sums over labels of the counters and gauges of `trials/predictor/metrics.ts`. */
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
