/** Processes as Linux shows them in /proc: who is in a group, since when, and what it uses. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

export interface ProcessStat {
  readonly pid: number
  /** One letter: R, S, D, Z (zombie), ... */
  readonly state: string
  readonly processGroup: number
  readonly session: number
  /** Clock ticks since boot; with the pid it names a process for ever. */
  readonly startTicks: number
  /** Clock ticks on a CPU, its reaped children's left out. */
  readonly cpuTicks: number
}

/**
 * USER_HZ: what /proc counts in on every Linux this runs on (proc(5); it is part of the kernel's
 * interface, not CONFIG_HZ).
 */
export const ticksPerSecond = 100

/**
 * What names a group of processes beyond doubt, even after their tuner died and their pids went to
 * others.
 */
export interface GroupIdentity {
  /** Pid of the leader, and so of the group and the session. */
  readonly leader: number
  readonly leaderStartTicks: number
  /** Value of the environment variable `cookieVariable` that every member inherited. */
  readonly cookie: string
  /**
   * Folders of its control groups, with whatever its members have started, though it inherited
   * nothing.
   */
  readonly controlGroups?: readonly string[]
  /**
   * Sockets that its output goes to, as /proc/PID/fd names them: whoever writes there was started
   * by it.
   */
  readonly outputs?: readonly string[]
  /** /proc/sys/kernel/random/boot_id: start ticks of another boot say nothing. */
  readonly bootId: string
}

/** Inherited by every process of a predictor, whatever session or group it moves itself to. */
export const cookieVariable = 'TUNE_PREDICTOR'

/** Undefined when there is no such process. */
export const processStat = (pid: number): ProcessStat | undefined => {
  const text = readProc(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  // The name in parentheses may hold spaces and parentheses itself: fields count from the last one
  // (proc(5)).
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const number = (field: number) => Number(fields[field - 3])
  return {
    pid,
    state: fields[0]!,
    processGroup: number(5),
    session: number(6),
    cpuTicks: number(14) + number(15),
    startTicks: number(22),
  }
}

/** Resident memory, MiB; 0 for a process that has just ended. */
export const residentMiB = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+) kB/m.exec(readProc(`/proc/${pid}/status`) ?? '')?.[1] ?? 0) / 1024

export const bootId = (): string => readProc('/proc/sys/kernel/random/boot_id')?.trim() ?? ''

/** Is this very process, not another with its pid, alive? */
export const isAlive = (pid: number, startTicks: number): boolean => {
  const stat = processStat(pid)
  return stat !== undefined && stat.startTicks === startTicks && !isDead(stat)
}

/** Identifies a process of this machine for ever. */
export interface ProcessIdentity {
  readonly pid: number
  readonly startTicks: number
  readonly bootId: string
}

export const ownIdentity = (): ProcessIdentity => ({
  pid: process.pid,
  startTicks: processStat(process.pid)?.startTicks ?? 0,
  bootId: bootId(),
})

export const isRunning = (identity: ProcessIdentity): boolean =>
  identity.bootId === bootId() && isAlive(identity.pid, identity.startTicks)

/**
 * Living members of a group: the leader's group and session, and whoever carries its cookie.
 * `held`: the caller has had the group since its start, so a group without a leader is still the
 * same one (Linux gives a number away only when no process, group or session has it). Otherwise a
 * group whose leader is gone is known by cookie alone.
 */
export const membersOf = (group: GroupIdentity, held: boolean): ProcessStat[] => {
  if (group.bootId !== bootId()) return []
  const trusted = held || isAlive(group.leader, group.leaderStartTicks)
  const inside = new Set(group.controlGroups?.flatMap(pidsIn))
  return allProcesses().filter((process) => {
    if (isDead(process) || process.startTicks < group.leaderStartTicks) return false
    const related = process.processGroup === group.leader || process.session === group.leader
    return (trusted && related) || inside.has(process.pid) || hasCookie(process.pid, group.cookie)
  })
}

/** Processes in a control group; none where it is gone. */
export const pidsIn = (controlGroup: string): number[] =>
  readProc(`${controlGroup}/cgroup.procs`)?.split('\n').filter(Boolean).map(Number) ?? []

/** Where a process writes to that nobody else was given. */
export const outputsOf = (pid: number): string[] =>
  [1, 2].flatMap((descriptor) => {
    const link = readlinkOrGone(`/proc/${pid}/fd/${descriptor}`)
    return link?.startsWith('socket:') ? [link] : []
  })

/**
 * Living processes that were started by a group and left it without a trace: they write where it
 * writes.
 */
export const straysOf = ({
  outputs = [],
  bootId: boot,
  leaderStartTicks,
}: GroupIdentity): ProcessStat[] =>
  outputs.length === 0 || boot !== bootId()
    ? []
    : allProcesses().filter(
        (one) =>
          !isDead(one) &&
          one.startTicks >= leaderStartTicks &&
          openSockets(one.pid).some((socket) => outputs.includes(socket)),
      )

/**
 * Processes that listen on a TCP port of this machine, as far as they may be seen; undefined where
 * /proc does not tell.
 */
export const listenersOn = (
  port: number,
  candidates: readonly number[],
): { total: number; byCandidates: number } | undefined => {
  const sockets = listeningSockets()?.filter((socket) => socket.port === port)
  if (sockets === undefined) return undefined
  const own = new Set(candidates.flatMap(openSockets))
  return { total: sockets.length, byCandidates: sockets.filter(({ name }) => own.has(name)).length }
}

/** They listen for containers and units that they start. */
const listensForOthers: ReadonlySet<string> = new Set(['dockerd', 'systemd'])

/**
 * Whether those who listen on a TCP port of this machine, as far as they may be seen, are none of a
 * group's for certain: they were there before it, or are of another predictor. What the group has
 * others start, as `docker run` does, is no stranger.
 */
export const strangersOn = (port: number, group: GroupIdentity): boolean => {
  const listening = findListeners(port)
  const isStranger = ({ pid, startTicks }: ProcessStat) => {
    const cookie = cookieOf(pid)
    if (cookie !== undefined) return cookie !== group.cookie
    return (
      startTicks < group.leaderStartTicks &&
      !listensForOthers.has(readProc(`/proc/${pid}/comm`)?.trim() ?? '')
    )
  }
  return listening.length > 0 && listening.every(isStranger)
}

/** TCP ports on which processes listen, least first. */
export const portsOf = (pids: readonly number[]): number[] => {
  const own = new Set(pids.flatMap(openSockets))
  const ports = (listeningSockets() ?? [])
    .filter(({ name }) => own.has(name))
    .map(({ port }) => port)
  return [...new Set(ports)].sort((a, b) => a - b)
}

/**
 * Who listens on a TCP port of this machine: of a server with workers its first process. Undefined
 * where it may not be seen.
 */
export const serverOn = (
  port: number,
):
  | { readonly pid: number; readonly words: readonly string[]; readonly cwd: string }
  | undefined => {
  const [first] = findListeners(port).sort((a, b) => a.startTicks - b.startTicks || a.pid - b.pid)
  if (first === undefined) return undefined
  const words = (readProc(`/proc/${first.pid}/cmdline`) ?? '')
    .split('\0')
    .filter((word) => word !== '')
  return { pid: first.pid, words, cwd: readlinkOrGone(`/proc/${first.pid}/cwd`) ?? '/' }
}

/** Processes that listen on a TCP port, as far as they may be seen. */
function findListeners(port: number): ProcessStat[] {
  const names = new Set(
    (listeningSockets() ?? []).filter((socket) => socket.port === port).map(({ name }) => name),
  )
  if (names.size === 0) return []
  return allProcesses().filter(({ pid }) => openSockets(pid).some((socket) => names.has(socket)))
}

/** Every socket that listens, as /proc/PID/fd names it; undefined where /proc does not tell. */
const listeningSockets = (): { readonly port: number; readonly name: string }[] | undefined => {
  const tables = ['/proc/net/tcp', '/proc/net/tcp6']
    .map(readProc)
    .filter((text) => text !== undefined)
  if (tables.length === 0) return undefined
  return tables
    .flatMap((text) => text.split('\n').slice(1))
    .map((line) => line.trim().split(/\s+/))
    .filter((columns) => columns[3] === '0A')
    .map((columns) => ({
      port: Number.parseInt(columns[1]!.split(':')[1]!, 16),
      name: `socket:[${columns[9]}]`,
    }))
}

const openSockets = (pid: number): string[] => {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      const link = readlinkOrGone(`/proc/${pid}/fd/${fd}`)
      return link?.startsWith('socket:') ? [link] : []
    })
  } catch (error) {
    return gone(error, [])
  }
}

const allProcesses = (): ProcessStat[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => processStat(Number(name)) ?? [])

/**
 * A zombie holds no memory, port or core; it waits for a parent that may never reap it (a container
 * without an init).
 */
const isDead = (process: ProcessStat): boolean => process.state === 'Z' || process.state === 'X'

const hasCookie = (pid: number, cookie: string): boolean => cookieOf(pid) === cookie

const cookieOf = (pid: number): string | undefined =>
  readProc(`/proc/${pid}/environ`)
    ?.split('\0')
    .find((variable) => variable.startsWith(`${cookieVariable}=`))
    ?.slice(cookieVariable.length + 1)

const readProc = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    return gone(error, undefined)
  }
}

const readlinkOrGone = (path: string): string | undefined => {
  try {
    return readlinkSync(path)
  } catch (error) {
    return gone(error, undefined)
  }
}

/**
 * Processes end while they are looked at, and other users' are closed to us: neither is an error
 * here.
 */
const gone = <T>(error: unknown, instead: T): T => {
  if (
    ['ENOENT', 'ENODEV', 'ESRCH', 'EACCES', 'EPERM'].includes(
      (error as NodeJS.ErrnoException).code ?? '',
    )
  )
    return instead
  throw error
}
