/** Estimates the capacity from the windows of a search by a queue model of the server. */
import type { LoadRun } from '../../model/load-run.ts'
import { adjustPosterior, type SearchFacts } from '../interval.ts'
import { identifyDiscipline } from '../queue-model/disciplines/identify-discipline.ts'
import type { identifyWorkers } from '../queue-model/disciplines/workers.ts'
import type {
  CapacityPosterior,
  estimatePosterior,
  SimulationBudget,
} from '../queue-model/posterior.ts'
import type { IdentifiedDiscipline } from '../queue-model/service-discipline.ts'
import { boundSystemCapacity, estimateSystemCapacity } from '../service-log/service-log.ts'
import type { Session } from '../session.ts'
import type { Evidence } from './evidence.ts'

/** Results of the closed loops, in addition to the windows. */
type LoopFacts = Pick<SearchFacts, 'quotaWaitShare'> & {
  /** Saturation of the closed loops, requests per second. */
  readonly saturationRps: number
}

interface CapacityEstimate {
  readonly posterior: CapacityPosterior
  /** The server's service discipline; undefined where none was identified. */
  readonly discipline: IdentifiedDiscipline | undefined
}

/** Reads the evidence without changing it: the same windows always give the same estimate. */
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
   */
  estimateToPlan(
    runs: readonly LoadRun[],
    budget: SimulationBudget,
    facts: LoopFacts,
  ): CapacityEstimate {
    const { posterior, discipline } = this.estimate(estimateSystemCapacity(runs), budget)
    return { posterior: adjustPosterior([posterior], this.collectFacts(facts)), discipline }
  }

  /**
   * Estimates the final capacity. Its interval covers the estimates for all system capacities that
   * are compatible with the refusals.
   */
  estimateFinal(
    runs: readonly LoadRun[],
    budget: SimulationBudget,
    facts: LoopFacts,
  ): CapacityEstimate {
    const systemCapacity = estimateSystemCapacity(runs)
    const others =
      systemCapacity === undefined
        ? []
        : (boundSystemCapacity(runs) ?? []).filter((other) => other !== systemCapacity)
    const { posterior, discipline } = this.estimate(systemCapacity, budget)
    const posteriors = others.map((other) => this.estimate(other, budget).posterior)
    return {
      posterior: adjustPosterior([posterior, ...posteriors], this.collectFacts(facts)),
      discipline,
    }
  }

  /** Estimates the lower end of the interval for a given system capacity, requests per second. */
  estimateLowRps(systemCapacity: number, budget: SimulationBudget, saturationRps: number): number {
    const { posterior } = this.estimate(systemCapacity, budget)
    const facts = this.collectFacts({ saturationRps, quotaWaitShare: 0 })
    return adjustPosterior([posterior], facts).capacityCi90Rps[0]
  }

  private collectFacts({ saturationRps, quotaWaitShare }: LoopFacts): SearchFacts {
    return {
      observedRps: Math.max(saturationRps, this.evidence.servedRps),
      fastestLoop: this.session.fastestLoop,
      quotaWaitShare,
    }
  }

  /** @param systemCapacity undefined for a server that refuses nothing */
  private estimate(systemCapacity: number | undefined, budget: SimulationBudget): CapacityEstimate {
    const { windows, coalescingMs } = this.evidence
    const { loops, slo } = this.session
    const loopLogs = this.evidence.extractLoopLogs(loops)
    const discipline = identifyDiscipline(
      windows,
      loops,
      { systemCapacity, loopLogs, unloadedMs: this.unloadedMs, coalescingMs },
      this.workerIdentifier,
    )
    const posterior = this.posteriorEstimator(
      windows,
      slo,
      budget,
      this.seed,
      systemCapacity,
      discipline,
      loopLogs,
    )
    return { posterior, discipline }
  }
}
