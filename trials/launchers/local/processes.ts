/** Processes in Linux's /proc: members of a group, their start, and their usage. */
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

/** USER_HZ, the clock tick of /proc (proc(5)): part of the kernel's interface, unlike CONFIG_HZ. */
export const ticksPerSecond = 100

/**
 * Identifies a group of processes reliably, even after their tuner died and their pids were reused.
 */
export interface GroupIdentity {
  /** Pid of the leader, and so of the group and the session. */
  readonly leader: number
  readonly leaderStartTicks: number
  /** Value of the environment variable `cookieVariable` that every member inherited. */
  readonly cookie: string
  /**
   * Folders of its control groups. They also hold processes that members started without the
   * cookie.
   */
  readonly controlGroups?: readonly string[]
  /** Sockets of its output, as in /proc/PID/fd: processes that write there were started by it. */
  readonly outputs?: readonly string[]
  /** /proc/sys/kernel/random/boot_id: start ticks of another boot are meaningless. */
  readonly bootId: string
}

/** Inherited by every process of a predictor, whatever session or group it moves itself to. */
export const cookieVariable = 'TUNE_PREDICTOR'

/** Undefined if there is no such process. */
export const readProcessStat = (pid: number): ProcessStat | undefined => {
  const text = readProc(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  // The name in parentheses may contain spaces and parentheses: fields count from the last one
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
export const readResidentMiB = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+) kB/m.exec(readProc(`/proc/${pid}/status`) ?? '')?.[1] ?? 0) / 1024

export const readBootId = (): string => readProc('/proc/sys/kernel/random/boot_id')?.trim() ?? ''

/** Is this very process, not another with its pid, alive? */
export const isAlive = (pid: number, startTicks: number): boolean => {
  const stat = readProcessStat(pid)
  return stat !== undefined && stat.startTicks === startTicks && !isDead(stat)
}

/** Identifies a process of this machine for ever. */
export interface ProcessIdentity {
  readonly pid: number
  readonly startTicks: number
  readonly bootId: string
}

export const getOwnIdentity = (): ProcessIdentity => ({
  pid: process.pid,
  startTicks: readProcessStat(process.pid)?.startTicks ?? 0,
  bootId: readBootId(),
})

export const isRunning = (identity: ProcessIdentity): boolean =>
  identity.bootId === readBootId() && isAlive(identity.pid, identity.startTicks)

/**
 * Living members of a group: the leader's process group and session, and processes with its cookie.
 * @param isHeld the caller has followed the group since its start, so it is the same group even
 * without its leader (Linux reuses an id only when no process, group or session has it). Otherwise
 * only the cookie identifies a group without its leader.
 */
export const listMembers = (group: GroupIdentity, isHeld: boolean): ProcessStat[] => {
  if (group.bootId !== readBootId()) return []
  const trusted = isHeld || isAlive(group.leader, group.leaderStartTicks)
  const inside = new Set(group.controlGroups?.flatMap(listPids))
  return listProcesses().filter((process) => {
    if (isDead(process) || process.startTicks < group.leaderStartTicks) return false
    const related = process.processGroup === group.leader || process.session === group.leader
    return (trusted && related) || inside.has(process.pid) || hasCookie(process.pid, group.cookie)
  })
}

/** Processes in a control group; empty if it is removed. */
export const listPids = (controlGroup: string): number[] =>
  readProc(`${controlGroup}/cgroup.procs`)?.split('\n').filter(Boolean).map(Number) ?? []

/** Output sockets that were given to this process alone. */
export const listOutputs = (pid: number): string[] =>
  [1, 2].flatMap((descriptor) => {
    const link = readLink(`/proc/${pid}/fd/${descriptor}`)
    return link?.startsWith('socket:') ? [link] : []
  })

/** Living processes that a group started and that left it: they still write to its output. */
export const listStrays = ({
  outputs = [],
  bootId: boot,
  leaderStartTicks,
}: GroupIdentity): ProcessStat[] =>
  outputs.length === 0 || boot !== readBootId()
    ? []
    : listProcesses().filter(
        (one) =>
          !isDead(one) &&
          one.startTicks >= leaderStartTicks &&
          listSockets(one.pid).some((socket) => outputs.includes(socket)),
      )

/**
 * Number of visible sockets that listen on a TCP port of this machine, and how many of them
 * `candidates` hold; undefined if /proc is not readable.
 * @param candidates pids
 */
export const countListeningSockets = (
  port: number,
  candidates: readonly number[],
): { total: number; byCandidates: number } | undefined => {
  const sockets = listListeningSockets()?.filter((socket) => socket.port === port)
  if (sockets === undefined) return undefined
  const candidateSockets = new Set(candidates.flatMap(listSockets))
  return {
    total: sockets.length,
    byCandidates: sockets.filter(({ name }) => candidateSockets.has(name)).length,
  }
}

/** They listen for containers and units that they start. */
const listensForOthers: ReadonlySet<string> = new Set(['dockerd', 'systemd'])

/**
 * Whether the visible listeners on a TCP port certainly do not belong to a group: they are older,
 * or belong to another predictor. Processes that the group starts through a daemon, as `docker run`
 * does, are not foreign.
 */
export const areListenersForeign = (port: number, group: GroupIdentity): boolean => {
  const listening = findListeners(port)
  const isStranger = ({ pid, startTicks }: ProcessStat) => {
    const cookie = readCookie(pid)
    if (cookie !== undefined) return cookie !== group.cookie
    return (
      startTicks < group.leaderStartTicks &&
      !listensForOthers.has(readProc(`/proc/${pid}/comm`)?.trim() ?? '')
    )
  }
  return listening.length > 0 && listening.every(isStranger)
}

/** TCP ports on which processes listen, ascending. */
export const listPorts = (pids: readonly number[]): number[] => {
  const ownSockets = new Set(pids.flatMap(listSockets))
  const ports = (listListeningSockets() ?? [])
    .filter(({ name }) => ownSockets.has(name))
    .map(({ port }) => port)
  return [...new Set(ports)].sort((a, b) => a - b)
}

/**
 * Finds the process that listens on a TCP port of this machine; for a server with workers, its
 * first process. Undefined if not visible.
 */
export const findServer = (
  port: number,
):
  | { readonly pid: number; readonly words: readonly string[]; readonly cwd: string }
  | undefined => {
  const [first] = findListeners(port).sort((a, b) => a.startTicks - b.startTicks || a.pid - b.pid)
  if (first === undefined) return undefined
  const words = (readProc(`/proc/${first.pid}/cmdline`) ?? '')
    .split('\0')
    .filter((word) => word !== '')
  return { pid: first.pid, words, cwd: readLink(`/proc/${first.pid}/cwd`) ?? '/' }
}

/** Visible processes that listen on a TCP port. */
function findListeners(port: number): ProcessStat[] {
  const names = new Set(
    (listListeningSockets() ?? []).filter((socket) => socket.port === port).map(({ name }) => name),
  )
  if (names.size === 0) return []
  return listProcesses().filter(({ pid }) => listSockets(pid).some((socket) => names.has(socket)))
}

/** TCP_LISTEN in the kernel's tables of sockets: state 10 in hexadecimal (proc(5)). */
const listenState = '0A'

/** Lists every listening socket, as in /proc/PID/fd; undefined if /proc is not readable. */
const listListeningSockets = (): { readonly port: number; readonly name: string }[] | undefined => {
  const tables = ['/proc/net/tcp', '/proc/net/tcp6']
    .map(readProc)
    .filter((text) => text !== undefined)
  if (tables.length === 0) return undefined
  return tables
    .flatMap((text) => text.split('\n').slice(1))
    .map((line) => line.trim().split(/\s+/))
    .filter((columns) => columns[3] === listenState)
    .map((columns) => ({
      port: Number.parseInt(columns[1]!.split(':')[1]!, 16),
      name: `socket:[${columns[9]}]`,
    }))
}

/** Lists the sockets that a process has open, as in /proc/PID/fd. */
const listSockets = (pid: number): string[] => {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      const link = readLink(`/proc/${pid}/fd/${fd}`)
      return link?.startsWith('socket:') ? [link] : []
    })
  } catch (error) {
    return ignoreGoneProcess(error, [])
  }
}

const listProcesses = (): ProcessStat[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readProcessStat(Number(name)) ?? [])

/**
 * A zombie uses no memory, port or core; its parent may never reap it (a container without an
 * init).
 */
const isDead = (process: ProcessStat): boolean => process.state === 'Z' || process.state === 'X'

const hasCookie = (pid: number, cookie: string): boolean => readCookie(pid) === cookie

const readCookie = (pid: number): string | undefined =>
  readProc(`/proc/${pid}/environ`)
    ?.split('\0')
    .find((variable) => variable.startsWith(`${cookieVariable}=`))
    ?.slice(cookieVariable.length + 1)

const readProc = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    return ignoreGoneProcess(error, undefined)
  }
}

const readLink = (path: string): string | undefined => {
  try {
    return readlinkSync(path)
  } catch (error) {
    return ignoreGoneProcess(error, undefined)
  }
}

/**
 * Processes may end while they are read, and other users' processes are not readable: neither is an
 * error.
 */
const ignoreGoneProcess = <T>(error: unknown, instead: T): T => {
  if (
    ['ENOENT', 'ENODEV', 'ESRCH', 'EACCES', 'EPERM'].includes(
      (error as NodeJS.ErrnoException).code ?? '',
    )
  )
    return instead
  throw error
}
