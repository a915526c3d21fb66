/**
 * Control groups: they contain all processes that a predictor starts, and limit its memory and its
 * share of a core.
 */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CgroupFacts } from '../../machine/cgroups.ts'
import { LaunchError } from '../../types.ts'

export interface ControlGroup {
  /**
   * One folder with version 2, one for each controller with version 1. Empty: there is no limit,
   * and this machine does not let us create a group.
   */
  readonly folders: readonly string[]
  /** The command that runs `argv` inside. */
  wrap(argv: readonly string[]): readonly string[]
  /** 'CPU time of 0.5 cores, 2048 MiB memory by cgroup v2'; undefined: no limits. */
  readonly limitsText?: string
  /** Processes of the group that the kernel ended because memory ran out; undefined: no limit. */
  memoryKills(): number | undefined
  end(): Promise<void>
}

interface Limits {
  /** Create a group even without limits, so that stopping the trial finds every process. */
  readonly trackProcesses?: boolean
  /** Cores' worth of CPU time. */
  readonly cpuCores?: number
  readonly memoryMiB?: number
}

/** The kernel's default period of CPU quotas, µs. */
const periodUs = 100_000
const shell = '/bin/sh'

/** Name of a trial's group; it identifies the tuner. */
export const nameGroup = (trialNumber: number): string =>
  `tune-${process.pid}-${trialNumber}-${Math.floor(performance.now())}`

/** Pid of the tuner that created a group of that name; undefined: not a trial's group. */
export const parseTunerPid = (name: string): number | undefined => {
  const pid = /^tune-(\d+)-\d+-\d+$/.exec(name)?.[1]
  return pid === undefined ? undefined : Number(pid)
}

/** @throws LaunchError if this machine does not permit a required limit */
export const createControlGroup = async (
  facts: CgroupFacts,
  name: string,
  limits: Limits,
): Promise<ControlGroup> => {
  const folders = new Set<string>()
  const makeGroupFolder = (parent: string | undefined, what: string): string => {
    if (parent === undefined) {
      throw new LaunchError(
        `${what} cannot be limited: tune has no permission to change control groups`,
        'run tune as root or in a delegated cgroup, or leave the parameter out',
      )
    }
    const folder = join(parent, name)
    mkdirSync(folder, { recursive: true })
    folders.add(folder)
    return folder
  }
  let memory: string | undefined
  let trackingFolder: string | undefined
  const end = async () => {
    for (const folder of trackingFolder === undefined ? folders : [trackingFolder])
      await endControlGroup(folder)
  }
  try {
    if (limits.cpuCores !== undefined) {
      const folder = makeGroupFolder(facts.cpuParent, `CPU time (cpuCores ${limits.cpuCores})`)
      const quota = Math.round(limits.cpuCores * periodUs)
      if (facts.version === 2) writeFileSync(join(folder, 'cpu.max'), `${quota} ${periodUs}`)
      else {
        writeFileSync(join(folder, 'cpu.cfs_period_us'), String(periodUs))
        writeFileSync(join(folder, 'cpu.cfs_quota_us'), String(quota))
      }
    }
    if (limits.memoryMiB !== undefined) {
      memory = makeGroupFolder(facts.memoryParent, `memory (memoryMiB ${limits.memoryMiB})`)
      const bytes = String(Math.round(limits.memoryMiB * 2 ** 20))
      writeFileSync(
        join(memory, facts.version === 2 ? 'memory.max' : 'memory.limit_in_bytes'),
        bytes,
      )
      // With swap, exceeding the limit would slow the server instead of ending it.
      const swap = join(
        memory,
        facts.version === 2 ? 'memory.swap.max' : 'memory.memsw.limit_in_bytes',
      )
      if (existsSync(swap)) writeFileSync(swap, facts.version === 2 ? '0' : bytes)
    }
  } catch (error) {
    await end()
    if (error instanceof LaunchError) throw error
    throw new LaunchError(
      `control group ${name}: ${(error as Error).message}`,
      'leave fractions of cores and memoryMiB out of the search',
    )
  }
  if (folders.size === 0 && limits.trackProcesses === true)
    trackingFolder = createUnlimitedGroup(facts.holdParent, name)
  const parts = [
    ...(limits.cpuCores === undefined ? [] : [`CPU time of ${limits.cpuCores} cores`]),
    ...(limits.memoryMiB === undefined ? [] : [`${limits.memoryMiB} MiB memory`]),
  ]
  return {
    folders: trackingFolder === undefined ? [...folders] : [trackingFolder],
    // The shell enters the group and then becomes the command, so that no process runs outside.
    wrap: (argv) =>
      trackingFolder !== undefined
        ? // This group only tracks processes: if entering fails, start the command anyway.
          [
            shell,
            '-c',
            'echo $$ 2>/dev/null >"$1"; shift && exec "$@"',
            'sh',
            join(trackingFolder, 'cgroup.procs'),
            ...argv,
          ]
        : folders.size === 0
          ? argv
          : [
              shell,
              '-c',
              `${[...folders].map((_, k) => `echo $$ >"\${${k + 1}}"`).join(' && ')} && shift ${folders.size} && exec "$@"`,
              'sh',
              ...[...folders].map((folder) => join(folder, 'cgroup.procs')),
              ...argv,
            ],
    limitsText: parts.length === 0 ? undefined : `${parts.join(', ')} by cgroup v${facts.version}`,
    memoryKills: () => (memory === undefined ? undefined : countOomKills(memory, facts.version)),
    end,
  }
}

/** Creates a group without limits; undefined if this machine does not allow it. */
function createUnlimitedGroup(parent: string | undefined, name: string): string | undefined {
  if (parent === undefined || !existsSync(shell)) return undefined
  const folder = join(parent, name)
  try {
    mkdirSync(folder)
    return folder
  } catch {
    return undefined
  }
}

/** Removes a group whose processes have ended; waits until the kernel has released them. */
export const endControlGroup = async (folder: string): Promise<void> => {
  for (let waitedMs = 0; ; waitedMs += 20) {
    try {
      rmdirSync(folder)
      return
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'ENOENT') return
      if (code !== 'EBUSY' || waitedMs > 2_000) throw error
    }
    await sleep(20)
  }
}

const countOomKills = (folder: string, version: CgroupFacts['version']): number => {
  const text = readFileSync(
    join(folder, version === 2 ? 'memory.events' : 'memory.oom_control'),
    'utf8',
  )
  return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? 0)
}
