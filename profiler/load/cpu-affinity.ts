/** CPU affinity of processes, on systems that have it: Linux. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** Cores on which a process may run; none where the system does not tell, or it has ended. */
export function readAllowedCores(pid: number, root = '/proc'): number[] {
  const list = /^Cpus_allowed_list:\s*(\S+)/m.exec(readStatus(pid, root))?.[1]
  return (list?.split(',') ?? []).flatMap((range) => {
    const [from, to = from] = range.split('-').map(Number)
    return Array.from({ length: to! - from! + 1 }, (_, i) => from! + i)
  })
}

/** Cores on which any of these processes may run. */
export const findAllowedCores = (pids: readonly number[]): number[] => [
  ...new Set(pids.flatMap((pid) => readAllowedCores(pid))),
]

/** Keeps a process with all its threads to these cores; without `taskset` it stays where it is. */
export async function keepToCores(pid: number, cores: readonly number[]): Promise<void> {
  const argv = ['--all-tasks', '--pid', '--cpu-list', cores.join(','), String(pid)]
  await promisify(execFile)('taskset', argv).catch(() => undefined)
}

/** Empty for a process that has ended, and on other systems. */
function readStatus(pid: number, root: string): string {
  try {
    return readFileSync(join(root, String(pid), 'status'), 'utf8')
  } catch {
    return ''
  }
}
