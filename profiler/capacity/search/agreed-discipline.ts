import type { Batching } from '../queue-model/batching.ts'
import { extractBatchServices } from '../queue-model/disciplines/identify-batching.ts'
import { extractFcfsServices } from '../queue-model/disciplines/workers.ts'
import { isBatchServer } from '../queue-model/queue-model.ts'
import type { IdentifiedDiscipline } from '../queue-model/service-discipline.ts'
import { joinServiceLogs, type ObservedRun, type ServiceLog } from '../service-log/service-log.ts'

type Workers = Pick<IdentifiedDiscipline, 'workers' | 'overheadMs'>

/**
 * Service discipline that successive estimates agree on. With it, steps of the service log become
 * durations that do not depend on the load: services, or batches.
 */
export class AgreedDiscipline {
  /** Workers that serve requests in arrival order; defined once two estimates in a row agree. */
  workers: Workers | undefined
  /** Batching parameters of a server with dynamic batching. */
  batching: Batching | undefined
  private lastWorkers: number | undefined

  constructor(readonly coalescingMs: number) {}

  /** Records the discipline that was identified after a window; undefined: none was. */
  record(discipline: IdentifiedDiscipline | undefined): void {
    const batching = discipline?.batching
    this.batching = batching?.cores === undefined ? batching : undefined
    if (discipline !== undefined && batching === undefined)
      this.recordWorkers(discipline.sharesCores ? undefined : discipline)
  }

  /**
   * Records the number of workers of the latest estimate. It is discarded where it differs from the
   * estimate before: the service times then depend on the load, which contradicts both.
   */
  recordWorkers(identified: Workers | undefined): void {
    const { lastWorkers = identified?.workers } = this
    this.workers = identified?.workers === lastWorkers ? identified : undefined
    this.lastWorkers = identified?.workers
  }

  /**
   * Extracts the service or batch durations of the windows, which are comparable between rates.
   * Undefined for other servers, for example with shared cores.
   */
  extractServices(windows: ObservedRun[]): readonly ServiceLog[] | undefined {
    const { batching, workers, coalescingMs } = this
    const logs = windows.map(({ log }) => log)
    const batches = batching && extractBatchServices(windows, batching, coalescingMs)
    if (batches !== undefined) return batches
    if (isBatchServer(joinServiceLogs(logs))) return logs
    return workers && extractFcfsServices(windows, workers)
  }
}
