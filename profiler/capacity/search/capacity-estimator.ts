/** Estimates the capacity from the windows of a pass by a queue model of the server. */
import type { LoadRun } from '../../model/load-run.ts'
import { adjustPosterior } from '../interval.ts'
import { identifyDiscipline } from '../queue-model/disciplines/identify-discipline.ts'
import type { CapacityPosterior, SimulationBudget } from '../queue-model/posterior.ts'
import type { IdentifiedDiscipline } from '../queue-model/service-discipline.ts'
import { boundSystemCapacity, estimateSystemCapacity } from '../service-log/service-log.ts'
import type { Evidence } from './evidence.ts'
import type { LoopFacts } from './measure-saturation.ts'
import type { SearchContext } from './search-context.ts'

/** Simulations for the estimates that choose the next rate. */
const planningBudget = { requests: 6000, maxRequests: 30_000, replicates: 4 }

interface CapacityEstimate {
  readonly posterior: CapacityPosterior
  /** The server's service discipline; undefined where none was identified. */
  readonly discipline: IdentifiedDiscipline | undefined
}

/** Reads the evidence without changing it: the same windows always give the same estimate. */
export class CapacityEstimator {
  constructor(
    private readonly context: Pick<SearchContext, 'session' | 'effort' | 'seed' | 'estimators'>,
    private readonly evidence: Evidence,
    private readonly unloadedMs: number,
    private readonly loops: LoopFacts,
  ) {}

  /** Estimates the capacity to choose the next rate. Undefined without a window that counts. */
  estimateToPlan(): CapacityEstimate | undefined {
    if (this.evidence.windows.length === 0) return undefined
    const systemCapacity = estimateSystemCapacity(this.collectOpenRuns())
    const { posterior, discipline } = this.estimate(systemCapacity, planningBudget)
    return { posterior: this.adjust(posterior), discipline }
  }

  /**
   * Estimates the final capacity. Its interval covers the estimates for all system capacities that
   * are compatible with the refusals. Undefined without a window that counts.
   */
  estimateFinal(): CapacityEstimate | undefined {
    if (this.evidence.windows.length === 0) return undefined
    const { simulation } = this.context.effort
    const runs = this.collectOpenRuns()
    const systemCapacity = estimateSystemCapacity(runs)
    const others =
      systemCapacity === undefined
        ? []
        : (boundSystemCapacity(runs) ?? []).filter((other) => other !== systemCapacity)
    const { posterior, discipline } = this.estimate(systemCapacity, simulation)
    const posteriors = others.map((other) => this.estimate(other, simulation).posterior)
    return { posterior: this.adjust(posterior, ...posteriors), discipline }
  }

  /** Estimates the lower end of the interval for a given system capacity, requests per second. */
  estimateLowRps(systemCapacity: number): number {
    const { posterior } = this.estimate(systemCapacity, this.context.effort.simulation)
    return this.adjust(posterior).capacityCi90Rps[0]
  }

  /** Runs of open load, and the closed loop that was refused. */
  collectOpenRuns(): LoadRun[] {
    const runs = this.evidence.windows.map(({ run }) => run)
    const { refusedLoop } = this.loops
    return refusedLoop === undefined ? runs : [refusedLoop, ...runs]
  }

  private adjust(likeliest: CapacityPosterior, ...others: CapacityPosterior[]): CapacityPosterior {
    const { saturationRps, quotaWaitShare } = this.loops
    return adjustPosterior([likeliest, ...others], {
      observedRps: Math.max(saturationRps, this.evidence.rates.servedRps),
      fastestLoop: this.context.session.fastestLoop,
      quotaWaitShare,
    })
  }

  /** @param systemCapacity undefined for a server that refuses nothing */
  private estimate(systemCapacity: number | undefined, budget: SimulationBudget): CapacityEstimate {
    const { windows, coalescingMs } = this.evidence
    const { session, seed, estimators } = this.context
    const loopLogs = this.evidence.extractLoopLogs(session.loops)
    const discipline = identifyDiscipline(
      windows,
      session.loops,
      { systemCapacity, loopLogs, unloadedMs: this.unloadedMs, coalescingMs },
      estimators.identifyWorkers,
    )
    const posterior = estimators.estimatePosterior(
      windows,
      session.slo,
      budget,
      seed,
      systemCapacity,
      discipline,
      loopLogs,
    )
    return { posterior, discipline }
  }
}
