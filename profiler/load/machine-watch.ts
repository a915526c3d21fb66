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
import type { MachineWait } from '../model/load-run.ts'
import { readAllowedCores } from './cpu-affinity.ts'

/** Clock tick of /proc/stat: USER_HZ, 100 on every architecture that Node supports. */
const tickMs = 10

/** CPU and waiting time of threads so far, ms. */
interface Threads {
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
interface Core {
  readonly busyMs: number
  readonly stolenMs: number
}

interface Processes {
  readonly pids: readonly number[]
  /** Cores on which they may run. */
  readonly cores: readonly number[]
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
): (() => MachineWait) | undefined {
  const coresBefore = coresAt(root)
  const generator = findProcesses(generatorPids, root)
  if (coresBefore === undefined || generator === undefined) return undefined
  const server = findProcesses(serverPids(), root)
  const threadsBefore = [server, generator].map((one) => one && readThreads(one.pids, root))
  const startMs = performance.now()
  return () => {
    const wallMs = performance.now() - startMs
    const coresAfter = coresAt(root) ?? coresBefore
    const serverNow = server && [...new Set([...server.pids, ...serverPids()])]
    const [ofServer, ofGenerator] = [serverNow, generator.pids].map(
      (pids, i) => pids && since(threadsBefore[i]!, readThreads(pids, root)),
    )
    const spent = { wallMs, coresBefore, coresAfter }
    const parts = [
      { processes: server, did: ofServer },
      { processes: generator, did: ofGenerator },
    ]
    const share = (of: Processes | undefined, did: typeof ofServer) =>
      of && did && waitShare(of, did.waitMs, othersMs(of, parts, spent), parts, spent)
    const all = [...coresAfter.keys()]
    const stolenMs = all.reduce(
      (sum, core) => sum + coresAfter.get(core)!.stolenMs - (coresBefore.get(core)?.stolenMs ?? 0),
      0,
    )
    const serverShare = share(server, ofServer)
    const generatorShare = share(generator, ofGenerator)!
    return {
      ...(serverShare !== undefined && {
        server: serverShare / coresFilled(server!, ofServer!, wallMs),
      }),
      generator: generatorShare,
      behindServerMs: Math.max(0, ofGenerator!.waitMs - generatorShare * wallMs),
      generatorMs: (generatorShare * wallMs) / Math.max(1, ofGenerator!.timeslices),
      stolen: Math.min(1, stolenMs / (wallMs * all.length)),
    }
  }
}

/** Number of cores of a server whose threads could use more than all of them; else 1. */
const coresFilled = (
  { cores }: Processes,
  { runMs, waitMs }: { readonly runMs: number; readonly waitMs: number },
  wallMs: number,
): number => (runMs + waitMs > cores.length * wallMs ? cores.length : 1)

type Parts = readonly {
  readonly processes: Processes | undefined
  readonly did: { readonly runMs: number; readonly waitMs: number } | undefined
}[]
interface Spent {
  readonly wallMs: number
  readonly coresBefore: ReadonlyMap<number, Core>
  readonly coresAfter: ReadonlyMap<number, Core>
}

/**
 * CPU time of other processes on these cores. A tick per core is subtracted, which is the error of
 * the clock.
 */
function othersMs({ cores }: Processes, parts: Parts, { coresBefore, coresAfter }: Spent): number {
  const busyMs = cores.reduce(
    (sum, core) => sum + (coresAfter.get(core)?.busyMs ?? 0) - (coresBefore.get(core)?.busyMs ?? 0),
    0,
  )
  return Math.max(0, busyMs - oursMs(cores, parts) - tickMs * cores.length)
}

/**
 * CPU time of server and generator on these cores. Time on other cores counts by the share of cores
 * that they may use here.
 */
const oursMs = (cores: readonly number[], parts: Parts): number =>
  parts.reduce((sum, { processes, did }) => {
    if (processes === undefined || did === undefined) return sum
    const here = processes.cores.filter((core) => cores.includes(core)).length
    return sum + (did.runMs * here) / processes.cores.length
  }, 0)

/** Share of the window for which these processes waited for cores that others used. */
function waitShare(
  of: Processes,
  waitMs: number,
  others: number,
  parts: Parts,
  { wallMs }: Spent,
): number {
  if (others === 0) return 0
  return Math.min(
    1,
    Math.min((waitMs * others) / (others + oursMs(of.cores, parts)), others) / wallMs,
  )
}

/**
 * The living processes of these ids and their cores. Undefined without any, or without schedstat.
 */
function findProcesses(pids: readonly number[], root: string): Processes | undefined {
  const cores = new Set<number>()
  const living = pids.filter((pid) => {
    const allowed = readAllowedCores(pid, root)
    for (const core of allowed) cores.add(core)
    return allowed.length > 0 && read(join(root, String(pid), 'schedstat')) !== undefined
  })
  return living.length === 0 ? undefined : { pids: living, cores: [...cores] }
}

function readThreads(pids: readonly number[], root: string): Threads {
  const runMs = new Map<string, number>()
  const waitMs = new Map<string, number>()
  const timeslices = new Map<string, number>()
  const processMs = new Map<number, number>()
  let reapedMs = 0
  for (const pid of pids) {
    const folder = join(root, String(pid), 'task')
    for (const thread of list(folder)) {
      const [ran, waited, slices = 0] = (read(join(folder, thread, 'schedstat')) ?? '')
        .split(' ')
        .map(Number)
      if (ran === undefined || waited === undefined) continue
      runMs.set(thread, ran / 1e6)
      processMs.set(pid, (processMs.get(pid) ?? 0) + ran / 1e6)
      waitMs.set(thread, waited / 1e6)
      timeslices.set(thread, slices)
    }
    reapedMs += tickMs * reapedTicks(read(join(root, String(pid), 'stat')) ?? '')
  }
  return { runMs, waitMs, timeslices, processMs, reapedMs }
}

/**
 * cutime and cstime, https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: the name, in
 * parentheses, may hold spaces.
 */
function reapedTicks(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[13]) || 0) + (Number(fields[14]) || 0)
}

/** CPU and waiting time between two readings. The whole time of a new thread lies between them. */
function since(
  before: Threads,
  after: Threads,
): { runMs: number; waitMs: number; timeslices: number } {
  const sum = (of: 'runMs' | 'waitMs' | 'timeslices') =>
    [...after[of]].reduce((total, [thread, n]) => total + n - (before[of].get(thread) ?? 0), 0)
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
function coresAt(root: string): ReadonlyMap<number, Core> | undefined {
  const text = read(join(root, 'stat'))
  if (text === undefined) return undefined
  const cores = new Map<number, Core>()
  for (const [, core, times] of text.matchAll(/^cpu(\d+) (.*)$/gm)) {
    const [user = 0, nice = 0, system = 0, , , , , steal = 0] = times!
      .trim()
      .split(/\s+/)
      .map(Number)
    cores.set(Number(core), { busyMs: tickMs * (user + nice + system), stolenMs: tickMs * steal })
  }
  return cores.size === 0 ? undefined : cores
}

/** Undefined for a missing file. */
function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return [] // The process has ended.
  }
}
