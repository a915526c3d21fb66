/** Estimates the capacity from the windows of a pass by a queue model of the server. */
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
    private readonly loops: LoopFacts,
  ) {}

  /** Estimates the capacity to choose the next rate. Undefined without a valid window. */
  estimateToPlan(): CapacityEstimate | undefined {
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
    const others =
      likeliest === undefined || this.context.options.discipline?.queueLimit !== undefined
        ? []
        : (boundSystemCapacity(this.collectOpenRuns()) ?? []).filter((other) => other !== likeliest)
    return this.estimate([likeliest, ...others], this.context.effort.simulation)
  }

  /** Estimates the lower end of the interval for a given system capacity, requests per second. */
  estimateLowRps(systemCapacity: number): number {
    const { posterior } = this.estimate([systemCapacity], this.context.effort.simulation)
    return posterior.capacityCi90Rps[0]
  }

  /** Runs of open load, and the closed loop that was refused. */
  collectOpenRuns(): LoadRun[] {
    const runs = this.evidence.windows.map(({ run }) => run)
    const { refusedLoop } = this.loops
    return refusedLoop === undefined ? runs : [refusedLoop, ...runs]
  }

  /** System capacity of a server that refused requests by a full queue; undefined for others. */
  private resolveSystemCapacity(): number | undefined {
    const { discipline } = this.context.options
    const estimated = estimateSystemCapacity(this.collectOpenRuns())
    return estimated === undefined || discipline?.queueLimit === undefined
      ? estimated
      : discipline.queueLimit + discipline.workers * discipline.maxBatch
  }

  /** @param systemCapacities the likeliest first; undefined for a server that refuses nothing */
  private estimate(
    [likeliest, ...others]: readonly [number | undefined, ...number[]],
    budget: SimulationBudget,
  ): CapacityEstimate {
    const { evidence, unloadedMs } = this
    const { session, seed, estimators, options } = this.context
    const { windows } = evidence
    const { loops, slo, fastestLoop } = session
    const loopLogs = evidence.extractLoopLogs(loops)
    const { discipline, isMisfit } = estimators.chooseDiscipline({
      windows,
      loops,
      areLoopsDisturbed: this.loops.isDisturbed,
      declared: options.discipline,
      unloadedMs,
    })
    const estimateFor = (systemCapacity: number | undefined) =>
      estimators.estimatePosterior(windows, slo, budget, seed, systemCapacity, discipline, loopLogs)
    const { saturationRps, quotaWaitShare } = this.loops
    const posterior = adjustPosterior([estimateFor(likeliest), ...others.map(estimateFor)], {
      observedRps: Math.max(saturationRps, evidence.rates.servedRps),
      fastestLoop,
      quotaWaitShare,
      isMisfit,
    })
    return { posterior, discipline }
  }
}
