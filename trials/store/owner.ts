/** Identifies the process that runs an experiment, even if its pid is reused. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'

export interface Owner {
  readonly pid: number
  /** When the process started, in the system's own notation; compared, never computed with. */
  readonly startedAt: string
  readonly host: string
}

/** This process. */
export function getThisProcess(): Owner {
  return { pid: process.pid, startedAt: readStart(process.pid) ?? '', host: hostname() }
}

export type OwnerState = 'this-process' | 'alive' | 'dead' | 'unknown'

/** Whether the process still runs; 'unknown' for another host. */
export function findOwnerState(owner: Owner): OwnerState {
  if (owner.host !== hostname()) return 'unknown'
  const startedAt = readStart(owner.pid)
  if (startedAt === undefined || startedAt !== owner.startedAt) return 'dead'
  return owner.pid === process.pid ? 'this-process' : 'alive'
}

/** Start time of a process; undefined if there is none with that pid, or only a zombie. */
export function readStart(pid: number): string | undefined {
  return process.platform === 'linux' ? startOnLinux(pid) : startByPs(pid)
}

/**
 * Boot and start tick: proc_pid_stat(5), field 22; fields count after the command name, which may
 * contain spaces and brackets.
 */
function startOnLinux(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const [state, startTick] = [fields[0], fields[19]]
    if (state === 'Z' || state === 'X') return undefined
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}/${startTick}`
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code === 'ENOENT' || code === 'ESRCH') return undefined
    throw error
  }
}

function startByPs(pid: number): string | undefined {
  try {
    return (
      execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }).trim() || undefined
    )
  } catch {
    return undefined // ps exits 1 when there is no such process
  }
}
