/** Pins a predictor to its cores with taskset. */
import { pinProcess } from '../../../profiler/load/cpu-affinity.ts'
import type { MachineFacts } from '../../machine/machine-facts.ts'
import type { ResourceReservation } from './resource-pool.ts'

/** Creates the command prefix that pins a predictor, and a description for reports. */
export const createAffinityCommand = (
  { taskset }: MachineFacts,
  { coreList }: Pick<ResourceReservation, 'coreList'>,
): { readonly prefix: readonly string[]; readonly text: string } =>
  taskset === undefined
    ? { prefix: [], text: 'not enforced: taskset is not installed' }
    : { prefix: [taskset, '--cpu-list', coreList], text: 'by affinity' }

/**
 * Pins running processes to other cores, with all their threads; later children inherit the cores.
 * @throws if a process has ended
 */
export const pinProcesses = async (
  { taskset }: MachineFacts,
  { coreList }: Pick<ResourceReservation, 'coreList'>,
  pids: readonly number[],
): Promise<void> => {
  if (taskset === undefined) return
  for (const pid of pids) await pinProcess(pid, coreList, taskset)
}
