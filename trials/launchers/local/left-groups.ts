/** Control groups that tuners left on this machine without a note, found by their names. */
import { randomUUID } from 'node:crypto'
import { readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { CgroupFacts } from '../../machine/cgroups.ts'
import { endControlGroup, parseTunerPid } from './control-group.ts'
import { endGroup } from './process-group.ts'
import { listPids, readBootId, readProcessStat } from './processes.ts'

export interface LeftGroup {
  /** Folders of that name, one for each hierarchy. */
  readonly folders: readonly string[]
  /** Processes inside, by ascending pid. */
  readonly pids: readonly number[]
}

/**
 * Control groups whose tuner has ended. Groups with a process of another PID namespace belong to a
 * container and are left out.
 */
export function findLeftGroups({ cpuParent, memoryParent, holdParent }: CgroupFacts): LeftGroup[] {
  const pathsByName = new Map<string, string[]>()
  for (const parent of new Set([cpuParent, memoryParent, holdParent])) {
    if (parent === undefined) continue
    for (const name of readdirSync(parent)) {
      const tuner = parseTunerPid(name)
      if (tuner === undefined || readProcessStat(tuner) !== undefined) continue
      pathsByName.set(name, [...(pathsByName.get(name) ?? []), join(parent, name)])
    }
  }
  return [...pathsByName.values()]
    .map((folders) => ({
      folders,
      pids: [...new Set(folders.flatMap(listPids))].sort((a, b) => a - b),
    }))
    .filter(({ pids }) => pids.every(isOfOurNamespace))
}

/**
 * Ends the processes of the groups by SIGTERM, then SIGKILL, and removes the groups.
 * @throws LaunchError for a process that outlives SIGKILL
 */
export async function endLeftGroups(groups: readonly LeftGroup[]): Promise<void> {
  for (const { folders } of groups) {
    await endGroup(
      {
        leader: -1,
        leaderStartTicks: 0,
        cookie: randomUUID(),
        bootId: readBootId(),
        controlGroups: folders,
      },
      graceMs,
      false,
    )
    for (const folder of folders) await endControlGroup(folder)
  }
}

/** Time from SIGTERM to SIGKILL. Assumed. */
const graceMs = 1_000

/** The kernel shows a process of another namespace as 0. */
const isOfOurNamespace = (pid: number): boolean => {
  if (pid === 0) return false
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`) === readlinkSync('/proc/self/ns/pid')
  } catch (error) {
    // It may have ended. Another user's process is not ours to end.
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}
