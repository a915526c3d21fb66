/** What a predictor's device does, as nvidia-smi or the predictor itself tells. */
import { readAnswer } from '../../../profiler/bounded-reader.ts'
import { nvidiaUse } from '../../machine/nvidia-smi.ts'
import { amdUse } from '../../machine/rocm-smi.ts'

export interface DeviceReading {
  readonly memoryMiB?: number
  /** Share of the time since the last reading (nvidia-smi: of the last moment) that the device was busy, 0-1. */
  readonly utilization?: number
  /** Mean batch since the first reading. */
  readonly realisedBatch?: number
}

/** Reads once. Rejects when it cannot be read just now. */
export type DeviceProbe = () => Promise<DeviceReading>

export const nvidiaProbe =
  (uuid: string, pids: () => readonly number[]): DeviceProbe =>
  () =>
    nvidiaUse(uuid, pids())

export const amdProbe =
  (index: number): DeviceProbe =>
  () =>
    amdUse(index)

const scrapeTimeoutMs = 2_000

/**
 * The built-in predictor's own metrics.
 * @param hasGpu false: its devices are CPU engines, whose use is not that of a GPU.
 */
export const metricsProbe = (url: string, hasGpu: boolean): DeviceProbe => {
  let first: Metrics | undefined
  let last: Metrics | undefined
  return async () => {
    const response = await fetch(new URL('/metrics', url), { signal: AbortSignal.timeout(scrapeTimeoutMs) })
    const now = readMetrics(await readAnswer(response.body))
    const since = first ?? now
    const before = last ?? now
    first = since
    last = now
    const seconds = now.readySeconds - before.readySeconds
    const batches = now.batches - since.batches
    return {
      realisedBatch: batches > 0 ? (now.items - since.items) / batches : undefined,
      ...(hasGpu && {
        memoryMiB: now.memoryMiB,
        utilization: seconds > 0 ? Math.min(1, (now.busySeconds - before.busySeconds) / seconds / now.devices) : undefined,
      }),
    }
  }
}

interface Metrics {
  readonly items: number
  readonly batches: number
  readonly busySeconds: number
  readonly readySeconds: number
  readonly devices: number
  readonly memoryMiB: number
}

/** Sums over labels of the counters and gauges of `trials/predictor/metrics.ts`. */
export const readMetrics = (text: string): Metrics => {
  const sum = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)`, 'gm'))].reduce((total, [, value]) => total + Number(value), 0)
  return {
    items: sum('predictor_items_total'),
    batches: sum('predictor_batches_total'),
    busySeconds: sum('predictor_device_busy_seconds_total'),
    readySeconds: sum('predictor_ready_seconds'),
    devices: sum('predictor_devices') || 1,
    memoryMiB: sum('predictor_device_memory_bytes') / 2 ** 20,
  }
}
