import type { DeclaredDiscipline } from '../../model/declared-discipline.ts'
import { doesContradict } from '../queue-model/goodness-of-fit.ts'
import { isBatchServer } from '../queue-model/queue-model.ts'
import type { ServiceDiscipline } from '../queue-model/service-discipline.ts'
import { extractServiceTimes } from '../queue-model/service-times.ts'
import {
  computeCoalescingMs,
  joinServiceLogs,
  type ObservedRun,
  type ServiceLog,
} from '../service-log/service-log.ts'

/**
 * Service discipline that successive estimates agree on; at first the declared one. With it, runs
 * become logs of durations that do not depend on the load: services, or batches.
 */
export class AgreedDiscipline {
  private agreed: ServiceDiscipline | undefined
  private lastWorkers: number | undefined

  /** @param unloadedMs median unloaded latency */
  constructor(
    private readonly unloadedMs: number,
    declared?: DeclaredDiscipline,
  ) {
    this.agreed = declared && { ...declared, overheadMs: 0 }
  }

  /** Departures within this time of each other, ms, count as one batch. */
  get coalescingMs(): number {
    return computeCoalescingMs(this.unloadedMs)
  }

  /**
   * Records the discipline of the latest estimate. It is discarded where its number of workers
   * differs from the estimate before: the service times then depend on the load, which contradicts
   * both.
   */
  record(discipline: ServiceDiscipline | undefined): void {
    if (discipline === undefined) return
    const { lastWorkers = discipline.workers } = this
    this.agreed = discipline.workers === lastWorkers ? discipline : undefined
    this.lastWorkers = discipline.workers
  }

  /**
   * Extracts durations that are comparable between rates: service times by the agreed discipline,
   * where the windows do not contradict it; else the logs themselves, where the server takes all
   * requests present as a batch. Undefined for other servers, for example with shared cores.
   */
  extractServices(windows: readonly ObservedRun[]): readonly ServiceLog[] | undefined {
    const { agreed, unloadedMs } = this
    const services =
      agreed && windows.map((window) => extractServiceTimes(window, agreed, unloadedMs))
    if (services !== undefined && !doesContradict(services)) return services.map(({ log }) => log)
    const logs = windows.map(({ log }) => log)
    return isBatchServer(joinServiceLogs(logs)) ? logs : undefined
  }
}
