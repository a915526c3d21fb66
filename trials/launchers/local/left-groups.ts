/**
 * Control groups of this machine that tuners made and left, found by their names: no note tells of
 * them, or the note's store is gone.
 */
import { randomUUID } from 'node:crypto'
import { readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { CgroupFacts } from '../../machine/cgroups.ts'
import { endControlGroup, tunerOf } from './control-group.ts'
import { endGroup } from './process-group.ts'
import { bootId, pidsIn, processStat } from './processes.ts'

export interface LeftGroup {
  /** Folders of that name, one a hierarchy. */
  readonly folders: readonly string[]
  /** Processes inside, least pid first. */
  readonly pids: readonly number[]
}

/**
 * Groups whose tuner's process is gone. A group with a process of another PID namespace is a
 * container's business, and left out.
 */
export function leftGroups({ cpuParent, memoryParent, holdParent }: CgroupFacts): LeftGroup[] {
  const found = new Map<string, string[]>()
  for (const parent of new Set([cpuParent, memoryParent, holdParent])) {
    if (parent === undefined) continue
    for (const name of readdirSync(parent)) {
      const tuner = tunerOf(name)
      if (tuner === undefined || processStat(tuner) !== undefined) continue
      found.set(name, [...(found.get(name) ?? []), join(parent, name)])
    }
  }
  return [...found.values()]
    .map((folders) => ({
      folders,
      pids: [...new Set(folders.flatMap(pidsIn))].sort((a, b) => a - b),
    }))
    .filter(({ pids }) => pids.every(isOfOurNamespace))
}

/**
 * SIGTERM, and SIGKILL after a moment; then the groups go. Throws LaunchError for a process that
 * outlives SIGKILL.
 */
export async function endLeftGroups(groups: readonly LeftGroup[]): Promise<void> {
  for (const { folders } of groups) {
    await endGroup(
      {
        leader: -1,
        leaderStartTicks: 0,
        cookie: randomUUID(),
        bootId: bootId(),
        controlGroups: folders,
      },
      graceMs,
      false,
    )
    for (const folder of folders) await endControlGroup(folder)
  }
}

const graceMs = 1_000

/** The kernel shows a process that our namespace does not have as 0. */
const isOfOurNamespace = (pid: number): boolean => {
  if (pid === 0) return false
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`) === readlinkSync('/proc/self/ns/pid')
  } catch (error) {
    // Ended meanwhile: nobody's any more. Another user's: not ours to end.
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}
