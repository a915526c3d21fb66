/** What a built-in predictor has done, from its own metrics. */
import type { Usage } from '../types.ts'

/** Counters of one moment. */
export interface PredictorCounters {
  readonly readySeconds: number
  readonly busySeconds: number
  readonly devices: number
  readonly memoryMiB: number
  readonly items: number
  readonly batches: number
}

/** Reads a predictor's /metrics. Rejects when it does not answer or is no built-in predictor. */
export async function readCounters(url: string, signal?: AbortSignal): Promise<PredictorCounters> {
  const text = await (await fetch(`${url}/metrics`, { signal })).text()
  const sum = (name: string): number => {
    const values = [...text.matchAll(new RegExp(`^predictor_${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))]
    if (values.length === 0) throw new Error(`${url}/metrics has no predictor_${name}`)
    return values.reduce((total, [, value]) => total + Number(value), 0)
  }
  return {
    readySeconds: sum('ready_seconds'),
    busySeconds: sum('device_busy_seconds_total'),
    devices: sum('devices'),
    memoryMiB: sum('device_memory_bytes') / 2 ** 20,
    items: sum('items_total'),
    batches: sum('batches_total'),
  }
}

/** Device use and mean realised batch between two moments; from the start on when there is no earlier one. */
export function usageBetween(
  last: PredictorCounters,
  first: Pick<PredictorCounters, 'readySeconds' | 'busySeconds' | 'items' | 'batches'> = {
    readySeconds: 0,
    busySeconds: 0,
    items: 0,
    batches: 0,
  },
): Pick<Usage, 'gpuMemoryMiB' | 'gpuUtilization' | 'realisedBatch'> {
  const seconds = last.readySeconds - first.readySeconds
  const batches = last.batches - first.batches
  return {
    gpuMemoryMiB: last.memoryMiB,
    gpuUtilization: seconds > 0 ? Math.min(1, (last.busySeconds - first.busySeconds) / (seconds * last.devices)) : undefined,
    realisedBatch: batches > 0 ? (last.items - first.items) / batches : undefined,
  }
}
