/** Probes of this machine's devices: the vendor's tool for GPUs, RAPL for processors. */
import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { mean, sum } from 'simple-statistics'
import { readNvidiaUse } from '../../machine/nvidia-smi.ts'
import { readAmdUse } from '../../machine/rocm-smi.ts'
import type { DeviceProbe } from '../device-probe.ts'
import type { ReservedDevice } from './resource-pool.ts'

/**
 * Probes a predictor's GPUs by the vendor's tool: maximum memory, mean utilisation, total power.
 */
export const createGpuProbe = (
  devices: readonly ReservedDevice[],
  pids: () => readonly number[],
  tools: { readonly nvidia?: string; readonly amd?: string } = {},
): DeviceProbe => {
  const read = ({ vendor, index, uuid }: ReservedDevice) =>
    vendor === 'amd' ? readAmdUse(index, tools.amd) : readNvidiaUse(uuid, pids(), tools.nvidia)
  return async () => {
    const readings = await Promise.all(devices.map(read))
    const readFigures = (name: 'memoryMiB' | 'utilization' | 'gpuWatts') =>
      readings.flatMap((reading) => reading[name] ?? [])
    const [memories, uses, watts] = [
      readFigures('memoryMiB'),
      readFigures('utilization'),
      readFigures('gpuWatts'),
    ]
    return {
      ...(memories.length > 0 && { memoryMiB: Math.max(...memories) }),
      ...(uses.length > 0 && { utilization: mean(uses) }),
      // The power of only some GPUs would be taken for that of all.
      ...(watts.length === devices.length && { gpuWatts: sum(watts) }),
    }
  }
}

/**
 * Power of the machine's processors by their energy counters (RAPL), between two readings. Most
 * kernels restrict them to root; the power is then unknown.
 * @param folder the kernel's powercap folder
 */
export const createRaplProbe = (
  folder = '/sys/class/powercap',
  now: () => number = () => performance.now(),
): DeviceProbe => {
  // intel-rapl:0 is a package, intel-rapl:0:1 a part of it.
  const packages = listRaplPackages(folder)
  let last: { readonly atMs: number; readonly microjoules: readonly number[] } | undefined
  return async () => {
    const reading = {
      atMs: now(),
      microjoules: await Promise.all(
        packages.map(({ path }) => readNumber(join(path, 'energy_uj'))),
      ),
    }
    const previous = last
    last = reading
    if (previous === undefined || packages.length === 0 || reading.atMs <= previous.atMs) return {}
    const usedMicrojoules = packages.map(({ range }, i) => {
      const difference = reading.microjoules[i]! - previous.microjoules[i]!
      return difference < 0 ? difference + range : difference
    })
    return {
      cpuWatts:
        usedMicrojoules.reduce((sum, uj) => sum + uj, 0) / 1e3 / (reading.atMs - previous.atMs),
    }
  }
}

function listRaplPackages(folder: string): { path: string; range: number }[] {
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
