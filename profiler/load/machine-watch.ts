/**
 * Measures host interference in a window: how long server and generator waited for a core that
 * other processes used. Linux reports the runnable time of each thread
 * (/proc/PID/task/TID/schedstat), the use of the cores, and steal time (/proc/stat).
 *
 * Threads of a busy server also wait for one another, which limits its own speed and is no
 * interference. So a wait counts in proportion to the CPU time of other processes on the same
 * cores, and at most for that CPU time. The wait of a server that fills all its cores is divided by
 * their number, as it loses a share of all of them.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CpuWait } from '../model/load-run.ts'
import { readAllowedCores } from './cpu-affinity.ts'

/** Clock tick of /proc/stat: USER_HZ, 100 on every architecture that Node supports. */
const tickMs = 10

/** CPU and waiting time of threads so far, ms. */
interface ThreadTimes {
  readonly runMs: ReadonlyMap<string, number>
  readonly waitMs: ReadonlyMap<string, number>
  /** Number of times each thread was scheduled on a core. */
  readonly timeslices: ReadonlyMap<string, number>
  /** CPU time of each process, by id. */
  readonly processMs: ReadonlyMap<number, number>
  /** CPU time of ended child processes, as their parents report it. */
  readonly reapedMs: number
}

/** CPU time of all threads on a core so far, without interrupts, and its steal time, ms. */
interface CoreTimes {
  readonly busyMs: number
  readonly stolenMs: number
}

/** Times of a group of processes in the window, and the cores on which they may run. */
interface Usage {
  readonly cores: readonly number[]
  /** CPU time, children that ended included. */
  readonly runMs: number
  /** Time in which threads were runnable and waited for a core. */
  readonly waitMs: number
  /** Number of times the threads were scheduled on a core. */
  readonly timeslices: number
}

/**
 * Watches from now until the returned function is called. Undefined where the system does not
 * report these times.
 * @param serverPids called at both ends, as the server may start processes meanwhile
 * @param root root of the process file system
 */
export function watchMachine(
  serverPids: () => readonly number[],
  generatorPids: readonly number[],
  root = '/proc',
): (() => CpuWait) | undefined {
  const coresBefore = readCores(root)
  const watchGenerator = watchProcesses(() => generatorPids, root)
  if (coresBefore === undefined || watchGenerator === undefined) return undefined
  const watchServer = watchProcesses(serverPids, root)
  const startMs = performance.now()
  return () => {
    const wallMs = performance.now() - startMs
    const coresAfter = readCores(root) ?? coresBefore
    const [server, generator] = [watchServer?.(), watchGenerator()]
    const usages = server === undefined ? [generator] : [server, generator]
    const sumCores = (cores: readonly number[], time: keyof CoreTimes) =>
      cores.reduce(
        (sum, core) =>
          sum + (coresAfter.get(core)?.[time] ?? 0) - (coresBefore.get(core)?.[time] ?? 0),
        0,
      )
    const computeShare = (usage: Usage) =>
      computeWaitShare(usage, usages, sumCores(usage.cores, 'busyMs'), wallMs)
    const allCores = [...coresAfter.keys()]
    const generatorShare = computeShare(generator)
    const generatorInterferenceMs = generatorShare * wallMs
    return {
      ...(server && { server: computeShare(server) / countFilledCores(server, wallMs) }),
      generator: generatorShare,
      behindServerMs: Math.max(0, generator.waitMs - generatorInterferenceMs),
      generatorMs: generatorInterferenceMs / Math.max(1, generator.timeslices),
      stolen: Math.min(1, sumCores(allCores, 'stolenMs') / (wallMs * allCores.length)),
    }
  }
}

/** Counts the cores of a server whose threads could use more than all of them; else 1. */
const countFilledCores = ({ cores, runMs, waitMs }: Usage, wallMs: number): number =>
  runMs + waitMs > cores.length * wallMs ? cores.length : 1

/**
 * Computes the share of the window for which a group waited for cores that processes outside of all
 * groups used. A tick per core is subtracted from their CPU time, which is the error of the clock.
 * @param busyMs CPU time of all processes on the cores of the group
 */
function computeWaitShare(
  { cores, waitMs }: Usage,
  groups: readonly Usage[],
  busyMs: number,
  wallMs: number,
): number {
  const ownMs = estimateCpuOnCores(cores, groups)
  const foreignMs = Math.max(0, busyMs - ownMs - tickMs * cores.length)
  if (foreignMs === 0) return 0
  return Math.min(1, Math.min((waitMs * foreignMs) / (foreignMs + ownMs), foreignMs) / wallMs)
}

/** Estimates the CPU time of the groups on these cores, if each uses all its cores equally. */
const estimateCpuOnCores = (cores: readonly number[], groups: readonly Usage[]): number =>
  groups.reduce((sum, group) => {
    const common = group.cores.filter((core) => cores.includes(core)).length
    return sum + (group.runMs * common) / group.cores.length
  }, 0)

/**
 * Watches the living processes of these ids from now until the returned function is called.
 * Undefined without any, or without schedstat.
 */
function watchProcesses(pids: () => readonly number[], root: string): (() => Usage) | undefined {
  const cores = new Set<number>()
  const livingPids = pids().filter((pid) => {
    const allowedCores = readAllowedCores(pid, root)
    for (const core of allowedCores) cores.add(core)
    return allowedCores.length > 0 && tryRead(join(root, String(pid), 'schedstat')) !== undefined
  })
  if (livingPids.length === 0) return undefined
  const before = readThreads(livingPids, root)
  return () => ({
    cores: [...cores],
    ...subtractTimes(before, readThreads([...new Set([...livingPids, ...pids()])], root)),
  })
}

function readThreads(pids: readonly number[], root: string): ThreadTimes {
  const runMs = new Map<string, number>()
  const waitMs = new Map<string, number>()
  const timeslices = new Map<string, number>()
  const processMs = new Map<number, number>()
  let reapedMs = 0
  for (const pid of pids) {
    const folder = join(root, String(pid), 'task')
    for (const thread of tryList(folder)) {
      const [runNs, waitNs, slices = 0] = (tryRead(join(folder, thread, 'schedstat')) ?? '')
        .split(' ')
        .map(Number)
      if (runNs === undefined || waitNs === undefined) continue
      runMs.set(thread, runNs / 1e6)
      processMs.set(pid, (processMs.get(pid) ?? 0) + runNs / 1e6)
      waitMs.set(thread, waitNs / 1e6)
      timeslices.set(thread, slices)
    }
    reapedMs += tickMs * parseReapedTicks(tryRead(join(root, String(pid), 'stat')) ?? '')
  }
  return { runMs, waitMs, timeslices, processMs, reapedMs }
}

/**
 * Parses the sum of cutime and cstime, in clock ticks
 * (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html). The fields are counted from the end
 * of the process name, which may hold spaces.
 */
function parseReapedTicks(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[13]) || 0) + (Number(fields[14]) || 0)
}

/** Computes the times between two readings. The whole time of a new thread lies between them. */
function subtractTimes(before: ThreadTimes, after: ThreadTimes): Omit<Usage, 'cores'> {
  const sum = (time: 'runMs' | 'waitMs' | 'timeslices') =>
    [...after[time]].reduce((total, [thread, n]) => total + n - (before[time].get(thread) ?? 0), 0)
  // Parents now report the whole time of ended processes, of which a part is before this window.
  const endedMs = [...before.processMs].reduce(
    (total, [pid, ms]) => (after.processMs.has(pid) ? total : total + ms),
    0,
  )
  const reapedMs = Math.max(0, after.reapedMs - before.reapedMs - endedMs)
  return { runMs: sum('runMs') + reapedMs, waitMs: sum('waitMs'), timeslices: sum('timeslices') }
}

/**
 * https://man7.org/linux/man-pages/man5/proc_stat.5.html: user, nice, system, idle, iowait, irq,
 * softirq, steal.
 */
function readCores(root: string): ReadonlyMap<number, CoreTimes> | undefined {
  const text = tryRead(join(root, 'stat'))
  if (text === undefined) return undefined
  const cores = new Map<number, CoreTimes>()
  for (const [, core, times] of text.matchAll(/^cpu(\d+) (.*)$/gm)) {
    const [user = 0, nice = 0, system = 0, , , , , steal = 0] = times!
      .trim()
      .split(/\s+/)
      .map(Number)
    cores.set(Number(core), { busyMs: tickMs * (user + nice + system), stolenMs: tickMs * steal })
  }
  return cores.size === 0 ? undefined : cores
}

/** Reads a file; undefined for a missing one. */
function tryRead(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

function tryList(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return [] // The process has ended.
  }
}
