/** What a predictor uses, sampled while it serves. */
import { gpuUse } from '../machine/nvidia-smi.ts'
import type { Usage } from '../types.ts'
import { type ProcessStat, processStat, residentMiB, ticksPerSecond } from './processes.ts'

export interface UsageSampler {
  /** Takes one more sample and sums up. */
  read(): Promise<Usage>
  stop(): void
}

const everyMs = 1_000
/** Finding the members means a look at every process of the machine; in between only those found are looked at. */
const findEvery = 5
/** nvidia-smi takes tens of milliseconds of a core; more often it would disturb what is measured. */
const gpuEveryMs = 3_000

/** Samples a group's CPU time and memory from now on, and its GPU through nvidia-smi where it holds a real one. */
export const sampleUsage = (members: () => readonly ProcessStat[], gpuUuid: string | undefined, launchSeconds: number): UsageSampler => {
  const startedMs = performance.now()
  let found = members()
  const first = new Map(found.map((member) => [processKey(member), member.cpuTicks]))
  /** Last known CPU ticks of every process ever seen: one that has ended keeps what it used. */
  const last = new Map(first)
  let peakRssMiB = 0
  const gpu: { memoryMiB: number[]; utilization: number[] } = { memoryMiB: [], utilization: [] }

  let samples = 0
  const sample = () => {
    samples++
    found = samples % findEvery === 1 ? members() : found.flatMap(lookAgain)
    for (const member of found) last.set(processKey(member), member.cpuTicks)
    peakRssMiB = Math.max(
      peakRssMiB,
      found.reduce((sum, member) => sum + residentMiB(member.pid), 0),
    )
  }
  const sampleGpu = async () => {
    if (gpuUuid === undefined) return
    const use = await gpuUse(
      gpuUuid,
      found.map((member) => member.pid),
    )
    if (use.memoryMiB !== undefined) gpu.memoryMiB.push(use.memoryMiB)
    if (use.utilization !== undefined) gpu.utilization.push(use.utilization)
  }
  const ignoreGpuFailure = () => {
    // A sample less; what nvidia-smi never tells stays undefined in the usage.
  }
  sample()
  const timer = setInterval(sample, everyMs)
  const gpuTimer = gpuUuid === undefined ? undefined : setInterval(() => sampleGpu().catch(ignoreGpuFailure), gpuEveryMs)
  timer.unref()
  gpuTimer?.unref()

  return {
    read: async () => {
      samples = 0
      sample()
      await sampleGpu().catch(ignoreGpuFailure)
      const ticks = [...last].reduce((sum, [key, value]) => sum + value - (first.get(key) ?? 0), 0)
      const seconds = (performance.now() - startedMs) / 1000
      return {
        cpuCores: seconds > 0 ? ticks / ticksPerSecond / seconds : 0,
        peakRssMiB,
        gpuMemoryMiB: gpu.memoryMiB.length === 0 ? undefined : Math.max(...gpu.memoryMiB),
        gpuUtilization: gpu.utilization.length === 0 ? undefined : gpu.utilization.reduce((a, b) => a + b) / gpu.utilization.length,
        launchSeconds,
      }
    },
    stop: () => {
      clearInterval(timer)
      clearInterval(gpuTimer)
    },
  }
}

/** The same process now; [] when it has ended. */
const lookAgain = (member: ProcessStat): ProcessStat[] => {
  const now = processStat(member.pid)
  return now?.startTicks === member.startTicks ? [now] : []
}

const processKey = (process: ProcessStat) => `${process.pid}@${process.startTicks}`
