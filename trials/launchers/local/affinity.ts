/** The cores that a predictor keeps to, by taskset. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { MachineFacts } from '../../machine/machine-facts.ts'
import type { Holding } from './holdings.ts'

/** What a command is started through, and how that is said. */
export const affinityOf = (
  { taskset }: MachineFacts,
  { coreList }: Pick<Holding, 'coreList'>,
): { readonly prefix: readonly string[]; readonly words: string } =>
  taskset === undefined
    ? { prefix: [], words: 'not enforced: taskset is not installed' }
    : { prefix: [taskset, '--cpu-list', coreList], words: 'by affinity' }

/**
 * Moves processes that run, with all their threads; what these start goes with them. Rejects where
 * one has ended.
 */
export const moveTo = async (
  { taskset }: MachineFacts,
  { coreList }: Pick<Holding, 'coreList'>,
  pids: readonly number[],
): Promise<void> => {
  if (taskset === undefined) return
  for (const pid of pids)
    await promisify(execFile)(taskset, [
      '--all-tasks',
      '--pid',
      '--cpu-list',
      coreList,
      String(pid),
    ])
}
