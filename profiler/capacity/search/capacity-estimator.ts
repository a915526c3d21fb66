/** Estimates the capacity from the windows of a search, by the queue model of the server. */
import type { LoadRun } from '../../model/load-run.ts'
import { identifyDiscipline } from '../queue-model/disciplines/identify-discipline.ts'
import type { identifyWorkers } from '../queue-model/disciplines/workers.ts'
import type {
  CapacityPosterior,
  estimatePosterior,
  SimulationBudget,
} from '../queue-model/posterior.ts'
import { boundSystemCapacity, estimateSystemCapacity } from '../service-log/service-log.ts'
import type { Session } from '../session.ts'
import type { Evidence } from './evidence.ts'
import { capToObservedRates, widenByShareOfLoops } from './reported-interval.ts'

export class CapacityEstimator {
  constructor(
    private readonly session: Session,
    private readonly evidence: Evidence,
    private readonly unloadedMs: number,
    private readonly seed: number,
    private readonly posteriorEstimator: typeof estimatePosterior,
    private readonly workerIdentifier: typeof identifyWorkers,
  ) {}

  /**
   * Estimates the capacity to choose the next rate.
   * @param runs runs of open load, and refused closed loops
   * @param saturationRps saturation of the closed loops
   */
  estimateToPlan(
    runs: readonly LoadRun[],
    budget: SimulationBudget,
    saturationRps: number,
  ): CapacityPosterior {
    return this.estimateWithCapacity(estimateSystemCapacity(runs), budget, saturationRps)
  }

  /**
   * Estimates the final capacity. Where the system capacity is uncertain, the interval covers its
   * bounds.
   */
  estimateFinal(
    runs: readonly LoadRun[],
    budget: SimulationBudget,
    saturationRps: number,
  ): CapacityPosterior {
    const systemCapacity = estimateSystemCapacity(runs)
    const found = this.estimateWithCapacity(systemCapacity, budget, saturationRps)
    if (systemCapacity === undefined) return found
    const others = (boundSystemCapacity(runs) ?? [])
      .filter((other) => other !== systemCapacity)
      .map((other) => this.estimateWithCapacity(other, budget, saturationRps))
    const ends = [found, ...others].map(({ capacityCi90Rps }) => capacityCi90Rps)
    return {
      ...found,
      capacityCi90Rps: [
        Math.min(...ends.map(([low]) => low)),
        Math.max(...ends.map(([, high]) => high)),
      ],
    }
  }

  /**
   * Estimates the capacity for a given system capacity; undefined for a server that refuses
   * nothing.
   */
  estimateWithCapacity(
    systemCapacity: number | undefined,
    budget: SimulationBudget,
    saturationRps: number,
  ): CapacityPosterior {
    const { windows, servedRps, coalescingMs } = this.evidence
    const { loops, slo } = this.session
    const loopLogs = this.evidence.extractLoopLogs(loops)
    const discipline = identifyDiscipline(
      windows,
      loops,
      { systemCapacity, loopLogs, unloadedMs: this.unloadedMs, coalescingMs },
      this.workerIdentifier,
    )
    this.evidence.batching =
      discipline?.batching?.cores === undefined ? discipline?.batching : undefined
    if (discipline !== undefined && discipline.batching === undefined)
      this.evidence.recordWorkers(discipline.sharesCores ? undefined : discipline)
    const found = this.posteriorEstimator(
      windows,
      slo,
      budget,
      this.seed,
      systemCapacity,
      discipline,
      loopLogs,
    )
    const within = capToObservedRates(found, Math.max(saturationRps, servedRps))
    return widenByShareOfLoops(within, this.session.fastestLoop)
  }
}
