/** Samples the usage of a serving predictor. */
import type { Usage } from '../../types.ts'
import type { DeviceProbe, DeviceReading } from '../device-probe.ts'
import { type ProcessStat, readProcessStat, readResidentMiB, ticksPerSecond } from './processes.ts'

interface UsageSampler {
  /** Takes one more sample, and summarises all. */
  read(): Promise<Usage>
  stop(): void
}

/** Interval of the samples of processes. Assumed. */
const sampleEveryMs = 1_000
/** Finding the members reads every process of the machine; the samples between reuse the result. */
const samplesPerSearch = 5
/** A probe takes milliseconds of a core, nvidia-smi tens: more often would disturb the measurement. */
const probeEveryMs = 3_000
/** Over shorter intervals clock ticks dominate a rate. */
const minIntervalMs = 500

/**
 * Samples CPU time and memory of a group from now on, and its device through probes. Where two
 * probes report the same figure, the later one counts.
 * @param launchSeconds part of the result
 */
export const sampleUsage = (
  members: () => readonly ProcessStat[],
  probes: readonly DeviceProbe[],
  launchSeconds: number,
): UsageSampler => {
  const processes = sampleProcesses(members)
  const readings: DeviceReading[] = []
  const probe = async () => {
    const results = await Promise.allSettled(probes.map((one) => one()))
    // A failed probe is one reading less; figures without a reading stay undefined.
    const figures = results.flatMap((result) =>
      result.status === 'fulfilled' ? Object.entries(result.value) : [],
    )
    readings.push(Object.fromEntries(figures.filter(([, value]) => value !== undefined)))
  }
  const timers = [
    setInterval(processes.sample, sampleEveryMs),
    ...(probes.length > 0 ? [setInterval(probe, probeEveryMs)] : []),
  ]
  for (const timer of timers) timer.unref()
  if (probes.length > 0) void probe()

  return {
    read: async () => {
      await probe()
      const utilization = filterNumbers(readings.map((reading) => reading.utilization))
      return {
        ...processes.read(),
        gpuMemoryMiB: findMaximum(filterNumbers(readings.map((reading) => reading.memoryMiB))),
        gpuUtilization:
          utilization.length === 0
            ? undefined
            : utilization.reduce((sum, value) => sum + value) / utilization.length,
        busiestGpuUtilization: findMaximum(utilization),
        gpuWatts: findMaximum(filterNumbers(readings.map((reading) => reading.gpuWatts))),
        cpuWatts: findMaximum(filterNumbers(readings.map((reading) => reading.cpuWatts))),
        realisedBatch: filterNumbers(readings.map((reading) => reading.realisedBatch)).at(-1),
        sequences: findMaximum(filterNumbers(readings.map((reading) => reading.sequences))),
        waiting: findMaximum(filterNumbers(readings.map((reading) => reading.waiting))),
        cacheUse: findMaximum(filterNumbers(readings.map((reading) => reading.cacheUse))),
        preemptions: filterNumbers(readings.map((reading) => reading.preemptions)).at(-1),
        acceptedTokens: filterNumbers(readings.map((reading) => reading.acceptedTokens)).at(-1),
        launchSeconds,
      }
    },
    stop: () => {
      for (const timer of timers) clearInterval(timer)
    },
  }
}

const sampleProcesses = (members: () => readonly ProcessStat[]) => {
  let current = members()
  const startedMs = performance.now()
  const firstTicks = new Map(current.map((member) => [formatProcessKey(member), member.cpuTicks]))
  /** Last known CPU ticks of every observed process: ended ones still count. */
  const lastTicks = new Map(firstTicks)
  let samples = 0
  let peakRssMiB = 0
  let busiest = 0
  let lastRate = { ms: startedMs, ticks: 0 }

  const sumUsedTicks = () =>
    [...lastTicks].reduce((sum, [key, ticks]) => sum + ticks - (firstTicks.get(key) ?? 0), 0)
  const sample = (findAll = false) => {
    current =
      findAll || samples++ % samplesPerSearch === 0 ? members() : current.flatMap(rereadProcess)
    for (const member of current) lastTicks.set(formatProcessKey(member), member.cpuTicks)
    peakRssMiB = Math.max(
      peakRssMiB,
      current.reduce((sum, member) => sum + readResidentMiB(member.pid), 0),
    )
    const now = { ms: performance.now(), ticks: sumUsedTicks() }
    if (now.ms - lastRate.ms < minIntervalMs) return
    busiest = Math.max(busiest, computeCores(now.ticks - lastRate.ticks, now.ms - lastRate.ms))
    lastRate = now
  }
  sample()
  return {
    sample: () => sample(),
    read: () => {
      sample(true)
      const cpuCores = computeCores(sumUsedTicks(), performance.now() - startedMs)
      return { cpuCores, busiestCpuCores: Math.max(busiest, cpuCores), peakRssMiB }
    },
  }
}

/** Cores' worth of CPU time. */
const computeCores = (ticks: number, ms: number): number =>
  ms > 0 ? ticks / ticksPerSecond / (ms / 1000) : 0

/** Reads the process again; [] if it has ended. */
const rereadProcess = (member: ProcessStat): ProcessStat[] => {
  const now = readProcessStat(member.pid)
  return now?.startTicks === member.startTicks ? [now] : []
}

const formatProcessKey = (process: ProcessStat) => `${process.pid}@${process.startTicks}`

const filterNumbers = (values: readonly (number | undefined)[]): number[] =>
  values.filter((value) => value !== undefined)

const findMaximum = (values: readonly number[]): number | undefined =>
  values.length === 0 ? undefined : Math.max(...values)
