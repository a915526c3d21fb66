/** What a predictor's device does, as nvidia-smi or the predictor itself tells. */
import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { mean, sum } from 'simple-statistics'
import { readAnswer } from '../../../profiler/bounded-reader.ts'
import { nvidiaUse } from '../../machine/nvidia-smi.ts'
import { amdUse } from '../../machine/rocm-smi.ts'
import type { HeldDevice } from './holdings.ts'

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

/**
 * What the vendor's tool tells of the GPUs that a predictor holds: memory of the fullest, the mean
 * of their use, the power of all.
 */
export const heldProbe = (
  devices: readonly HeldDevice[],
  pids: () => readonly number[],
  tools: { readonly nvidia?: string; readonly amd?: string } = {},
): DeviceProbe => {
  const read = ({ vendor, index, uuid }: HeldDevice) =>
    vendor === 'amd' ? amdUse(index, tools.amd) : nvidiaUse(uuid, pids(), tools.nvidia)
  return async () => {
    const readings = await Promise.all(devices.map(read))
    const told = (name: 'memoryMiB' | 'utilization' | 'gpuWatts') =>
      readings.flatMap((reading) => reading[name] ?? [])
    const [memories, uses, watts] = [told('memoryMiB'), told('utilization'), told('gpuWatts')]
    return {
      ...(memories.length > 0 && { memoryMiB: Math.max(...memories) }),
      ...(uses.length > 0 && { utilization: mean(uses) }),
      // Of some alone it would be taken for that of all.
      ...(watts.length === devices.length && { gpuWatts: sum(watts) }),
    }
  }
}

/**
 * Power of the machine's processors by their energy counters (RAPL), between two readings. Most
 * kernels let root alone read them: then nothing is told.
 * @param folder of the kernel's power capping
 */
export const raplProbe = (
  folder = '/sys/class/powercap',
  now: () => number = () => performance.now(),
): DeviceProbe => {
  // intel-rapl:0 is a package, intel-rapl:0:1 a part of it.
  const packages = packagesOf(folder)
  let last: { readonly atMs: number; readonly microjoules: readonly number[] } | undefined
  return async () => {
    const reading = {
      atMs: now(),
      microjoules: await Promise.all(
        packages.map(({ path }) => readNumber(join(path, 'energy_uj'))),
      ),
    }
    const before = last
    last = reading
    if (before === undefined || packages.length === 0 || reading.atMs <= before.atMs) return {}
    const used = packages.map(({ range }, i) => {
      const more = reading.microjoules[i]! - before.microjoules[i]!
      return more < 0 ? more + range : more
    })
    return { cpuWatts: used.reduce((sum, uj) => sum + uj, 0) / 1e3 / (reading.atMs - before.atMs) }
  }
}

function packagesOf(folder: string): { path: string; range: number }[] {
  try {
    return readdirSync(folder)
      .filter((name) => /^intel-rapl:\d+$/.test(name))
      .map((name) => join(folder, name))
      .map((path) => ({
        path,
        range: Number(readFileSync(join(path, 'max_energy_range_uj'), 'utf8')),
      }))
  } catch {
    return [] // no such counters, or none that we may read
  }
}

const readNumber = async (path: string): Promise<number> => Number(await readFile(path, 'utf8'))

/** Of a look at a server's own metrics. */
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
