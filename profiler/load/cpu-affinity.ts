/** CPU affinity of processes, on systems that have it: Linux. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** Reads the cores on which a process may run; none for an ended process, and on other systems. */
export function readAllowedCores(pid: number, root = '/proc'): number[] {
  const list = /^Cpus_allowed_list:\s*(\S+)/m.exec(readStatus(pid, root))?.[1]
  return parseCoreList(list ?? '')
}

/** Finds the cores on which any of these processes may run. */
export const findAllowedCores = (pids: readonly number[]): number[] => [
  ...new Set(pids.flatMap((pid) => readAllowedCores(pid))),
]

/**
 * Pins a running process with all its threads to cores; later children inherit it. Rejects where it
 * has ended, or `taskset` is not there.
 */
export async function pinProcess(pid: number, coreList: string, taskset: string): Promise<void> {
  const argv = ['--all-tasks', '--pid', '--cpu-list', coreList, String(pid)]
  await promisify(execFile)(taskset, argv)
}

/** Pins a process like `pinProcess`; without `taskset` it stays where it is. */
export const pinIfPossible = (pid: number, cores: readonly number[]): Promise<void> =>
  pinProcess(pid, formatCoreList(cores), 'taskset').catch(() => undefined)

/** Parses the kernel's list format: '0-2,5' → [0, 1, 2, 5]. */
export const parseCoreList = (list: string): number[] =>
  list
    .trim()
    .split(',')
    .filter((part) => part !== '')
    .flatMap((part) => {
      const [first, last] = part.split('-').map(Number)
      return Array.from({ length: (last ?? first!) - first! + 1 }, (_, k) => first! + k)
    })

/** Formats cores as the kernel lists them: [0, 1, 2, 5] → '0-2,5'. */
export const formatCoreList = (cores: readonly number[]): string => {
  const runs: [number, number][] = []
  for (const core of cores) {
    const last = runs.at(-1)
    if (last && core === last[1] + 1) last[1] = core
    else runs.push([core, core])
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(',')
}

/** Reads the status of a process; empty if it has ended, and on other systems. */
function readStatus(pid: number, root: string): string {
  try {
    return readFileSync(join(root, String(pid), 'status'), 'utf8')
  } catch {
    return ''
  }
}
