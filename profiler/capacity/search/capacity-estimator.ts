/** Estimates the capacity by a queue model, from the windows of one pass of the search. */
import type { LoadRun } from '../../model/load-run.ts'
import { adjustPosterior } from '../interval.ts'
import type { ChosenDiscipline } from '../queue-model/choose-discipline.ts'
import type { CapacityPosterior, SimulationBudget } from '../queue-model/posterior.ts'
import { boundSystemCapacity, estimateSystemCapacity } from '../service-log/service-log.ts'
import type { Evidence } from './evidence.ts'
import type { LoopFacts } from './measure-saturation.ts'
import type { SearchContext } from './search-context.ts'

/** Simulations for the estimates that choose the next rate. */
const planningBudget = { requests: 6000, maxRequests: 30_000, replicates: 4 }

interface CapacityEstimate extends Pick<ChosenDiscipline, 'discipline'> {
  readonly posterior: CapacityPosterior
}

/** Reads the evidence without changing it: the same windows always give the same estimate. */
export class CapacityEstimator {
  constructor(
    private readonly context: Pick<
      SearchContext,
      'session' | 'effort' | 'options' | 'seed' | 'estimators'
    >,
    private readonly evidence: Evidence,
    private readonly unloadedMs: number,
    private readonly loopFacts: LoopFacts,
  ) {}

  /** Estimates the capacity to choose the next rate. Undefined without a valid window. */
  estimateForNextRate(): CapacityEstimate | undefined {
    if (this.evidence.windows.length === 0) return undefined
    return this.estimate([this.resolveSystemCapacity()], planningBudget)
  }

  /**
   * Estimates the final capacity. Its interval covers the estimates for all system capacities that
   * are compatible with the refusals. Undefined without a valid window.
   */
  estimateFinal(): CapacityEstimate | undefined {
    if (this.evidence.windows.length === 0) return undefined
    const likeliest = this.resolveSystemCapacity()
    // The 10 % and 90 % quantiles of the requests present at refusals. A declared limit is certain.
    const others =
      likeliest === undefined || this.context.options.discipline?.queueLimit !== undefined
        ? []
        : (boundSystemCapacity(this.collectRunsWithRefusals()) ?? []).filter(
            (other) => other !== likeliest,
          )
    return this.estimate([likeliest, ...others], this.context.effort.simulation)
  }

  /** Estimates the lower end of the interval for a given system capacity, requests per second. */
  estimateLowerEndRps(systemCapacity: number): number {
    const { posterior } = this.estimate([systemCapacity], this.context.effort.simulation)
    return posterior.capacityCi90Rps[0]
  }

  /** Collects the runs that may show refusals: the open windows, and the refused closed loop. */
  collectRunsWithRefusals(): LoadRun[] {
    const runs = this.evidence.windows.map(({ run }) => run)
    const { refusedLoop } = this.loopFacts
    return refusedLoop === undefined ? runs : [refusedLoop, ...runs]
  }

  /**
   * Resolves the system capacity K of a server that refused requests by a full queue: the declared
   * one (queue limit + workers × batch), else the estimate. Undefined for other servers.
   */
  private resolveSystemCapacity(): number | undefined {
    const { discipline } = this.context.options
    const estimated = estimateSystemCapacity(this.collectRunsWithRefusals())
    return estimated === undefined || discipline?.queueLimit === undefined
      ? estimated
      : discipline.queueLimit + discipline.workers * discipline.maxBatch
  }

  /** @param systemCapacities the likeliest first; undefined for a server that refuses nothing */
  private estimate(
    systemCapacities: readonly [number | undefined, ...number[]],
    budget: SimulationBudget,
  ): CapacityEstimate {
    const [likeliest, ...others] = systemCapacities
    const { evidence, unloadedMs } = this
    const { session, seed, estimators, options } = this.context
    const { windows } = evidence
    const { loops, slo, fastestLoop } = session
    const loopLogs = evidence.extractLoopLogs(loops)
    const { discipline, isMisfit } = estimators.chooseDiscipline({
      windows,
      loops,
      areLoopsDisturbed: this.loopFacts.isDisturbed,
      declared: options.discipline,
      unloadedMs,
    })
    const estimateFor = (systemCapacity: number | undefined) =>
      estimators.estimatePosterior(windows, slo, budget, seed, systemCapacity, discipline, loopLogs)
    const { saturationRps, quotaWaitShare } = this.loopFacts
    const posterior = adjustPosterior([estimateFor(likeliest), ...others.map(estimateFor)], {
      observedRps: Math.max(saturationRps, evidence.rates.servedRps),
      fastestLoop,
      quotaWaitShare,
      isMisfit,
    })
    return { posterior, discipline }
  }
}
