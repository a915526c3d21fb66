/** A predictor's processes: started as one group of their own, ended whole. */
import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { LaunchError } from '../../types.ts'
import type { Exit } from '../diagnosis.ts'
import type { PredictorLog } from '../predictor-log.ts'
import {
  cookieVariable,
  type GroupIdentity,
  listMembers,
  listOutputs,
  listStrays,
  type ProcessStat,
  readBootId,
  readProcessStat,
} from './processes.ts'

interface CommandLine {
  /** Program and arguments. */
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /**
   * Gives it a standard input that closes when the tuner ends, however that ends. Otherwise it has
   * no standard input.
   */
  readonly endsWithTuner?: boolean
}

export interface ProcessGroup {
  readonly identity: GroupIdentity
  /** Resolves when the leader has ended and its output was read. Never rejects. */
  readonly exited: Promise<Exit>
  /** Living members, the leader among them. */
  members(): readonly ProcessStat[]
  /** SIGTERM, `graceMs`, SIGKILL; resolves when no member is left. Idempotent. */
  stop(graceMs: number): Promise<void>
}

/** Groups this process has running: ended without grace if it exits before it stopped them. */
const running = new Set<GroupIdentity>()
process.on('exit', () => {
  for (const group of running)
    for (const member of listMembers(group, true)) kill(member.pid, 'SIGKILL')
})

/**
 * Starts a command as leader of a new session and group. Every line of output goes to `log`.
 * @param cookie unique; every process of the group inherits it
 * @param controlGroups folders of its control groups
 * @throws LaunchError when the program cannot be executed
 */
export const startGroup = async (
  command: CommandLine,
  cookie: string,
  log: PredictorLog,
  controlGroups?: readonly string[],
): Promise<ProcessGroup> => {
  const [program, ...args] = command.argv
  const child = spawn(program!, args, {
    cwd: command.cwd,
    env: { ...command.env, [cookieVariable]: cookie },
    detached: true,
    stdio: [command.endsWithTuner ? 'pipe' : 'ignore', 'pipe', 'pipe'],
  }) as ChildProcessByStdio<Writable | null, Readable, Readable>
  const exited = waitForLeaderExit(child)
  child.stdout.on('data', (chunk: Buffer) => log.write(chunk, 'stdout'))
  child.stderr.on('data', (chunk: Buffer) => log.write(chunk, 'stderr'))
  try {
    await once(child, 'spawn')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // A missing working directory also causes ENOENT.
    throw new LaunchError(
      `cannot start ${JSON.stringify(program)} in ${command.cwd}: ${code === 'ENOENT' ? 'no such program or folder' : (error as Error).message}`,
      'check that it is installed, on the PATH and executable; tune runs `command` without a shell',
      log.path,
    )
  }
  const identity = createIdentity(child.pid!, cookie, controlGroups)
  running.add(identity)

  let stopping: Promise<void> | undefined
  return {
    identity,
    exited,
    members: () => listMembers(identity, true),
    stop: (graceMs) => {
      stopping ??= endGroup(identity, graceMs, true).then(async () => {
        running.delete(identity)
        // Processes that left the group keep no pipe of ours open.
        child.stdin?.destroy()
        child.stdout.destroy()
        child.stderr.destroy()
        await exited
      })
      return stopping
    },
  }
}

const createIdentity = (
  leader: number,
  cookie: string,
  controlGroups: readonly string[] | undefined,
): GroupIdentity => ({
  leader,
  leaderStartTicks: readProcessStat(leader)?.startTicks ?? 0,
  cookie,
  bootId: readBootId(),
  controlGroups,
  outputs: listOutputs(leader),
})

const waitForLeaderExit = async (child: ChildProcess): Promise<Exit> => {
  // It may come in the same turn as the end.
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()))
  try {
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
    // The last lines contain the reason. Children of the leader may keep the pipes open, so wait a
    // limited time.
    await Promise.race([closed, sleep(200)])
    return { code, signal }
  } catch {
    // 'error' came first: it never started, which startGroup reports.
    return { code: null, signal: null }
  }
}

/**
 * Ends every member: SIGTERM, grace, SIGKILL until none is left.
 * @throws LaunchError for a process that outlives SIGKILL
 */
export const endGroup = async (
  group: GroupIdentity,
  graceMs: number,
  isHeld: boolean,
): Promise<void> => {
  const startedMs = performance.now()
  const signalled = new Set<number>()
  const listRemaining = () => {
    const members = listMembers(group, isHeld)
    return members.length > 0 ? members : listStrays(group)
  }
  for (let members = listRemaining(); members.length > 0; members = listRemaining()) {
    const waited = performance.now() - startedMs
    if (waited > graceMs + unkillableAfterMs) {
      throw new LaunchError(
        `predictor processes ${members.map((m) => m.pid).join(', ')} survive SIGKILL`,
        'a driver or a network disk blocks them; end them by hand before the next run',
      )
    }
    for (const { pid } of members) {
      if (waited >= graceMs) kill(pid, 'SIGKILL')
      else if (!signalled.has(pid)) kill(pid, 'SIGTERM')
      signalled.add(pid)
    }
    await sleep(Math.min(50, 2 + waited / 10))
  }
}

/** Time after the grace in which SIGKILL must have ended a process. Assumed. */
const unkillableAfterMs = 10_000

const kill = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal)
  } catch (error) {
    // It ended between the look and the signal.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
