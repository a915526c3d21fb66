import { VirtualLoadGenerator } from '../load/virtual-generator.ts'
import type { Load } from '../model/load.ts'
import type { LoadGenerator } from '../model/load-generator.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Target } from '../model/target.ts'
import type { VirtualServer } from '../model/virtual-server.ts'

/** Whether the machine keeps the server waiting in a load. @param before loads before it */
export type IsBusy = (load: Load, before: readonly Load[]) => boolean

/**
 * Plays a virtual server as if it were a real one, on a machine that keeps it waiting in some
 * loads. @param serverOf what it is like then, and when it is left alone
 */
export function busyMachine(
  serverOf: (busy: boolean) => VirtualServer,
  isBusy: IsBusy,
): LoadGenerator {
  const before: Load[] = []
  const virtual = new VirtualLoadGenerator()
  return {
    name: 'busy',
    async play(_target: Target, load: Load, signal: AbortSignal): Promise<LoadRun> {
      const busy = isBusy(load, before)
      before.push(load)
      const run = await virtual.play({ kind: 'virtual', server: serverOf(busy) }, load, signal)
      return busy ? { ...run, machineWait: { server: 0.3 } } : run
    },
    run: () => Promise.reject(new Error('not used')),
    close: async () => {},
  }
}
