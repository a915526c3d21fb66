/**
 * The core types of the search: parameters, configurations, problems, observations, samplers. Data
 * alone; no I/O.
 */
import type { Category } from './categories.ts'
import type { Objective } from './objective.ts'
import type { Pricing } from './replica-price.ts'

export type { Category } from './categories.ts'
export type { Objective } from './objective.ts'

export type Scale = 'linear' | 'log'

interface ParameterBase {
  readonly name: string
  readonly category: Category
  /**
   * The parameter is active only while the condition holds for the parameters declared before it.
   * An inactive parameter has its default: the first value, or the minimum.
   */
  readonly when?: Condition
  /**
   * Known monotonicity: a larger value never lowers the rate that a configuration can serve
   * (`up`), or never raises it (`down`).
   */
  readonly monotone?: 'up' | 'down'
  /**
   * The parameter is the number of requests served concurrently, such as a batch size or a number
   * of processes. Rate and latency rise with it, at most in proportion.
   */
  readonly concurrency?: boolean
}
/** An ordered list of numbers, e.g. batch sizes 1, 2, 4, 8. */
export interface OrdinalParameter extends ParameterBase {
  readonly kind: 'ordinal'
  readonly values: readonly number[]
  readonly scale: Scale
}
/** A whole or real number in [min, max]; with `step`, min + k × step. */
export interface RangeParameter extends ParameterBase {
  readonly kind: 'int' | 'float'
  readonly min: number
  readonly max: number
  readonly step?: number
  readonly scale: Scale
}
/**
 * Names without an order. Numeric features (of a GPU: ln bandwidth, ln FLOP/s) give distances
 * between them; without features all names are equally distant.
 */
export interface CategoricalParameter extends ParameterBase {
  readonly kind: 'categorical'
  readonly values: readonly string[]
  /** Features of each value; all values have the same number of features. */
  readonly features?: Readonly<Record<string, readonly number[]>>
}
export type Parameter = OrdinalParameter | RangeParameter | CategoricalParameter

/** A predicate over configurations, with the text the user wrote, e.g. `batchSize <= queueSize`. */
export interface Condition {
  readonly text: string
  readonly holds: (configuration: Configuration) => boolean
}

export interface SearchSpace {
  readonly parameters: readonly Parameter[]
  /** Configurations that break any of these are never suggested. */
  readonly constraints: readonly Condition[]
  /**
   * The complete list of configurations in grid order, for example those of a recorded table.
   * Absent: every combination of values.
   */
  readonly listed?: readonly Configuration[]
}

export type Configuration = Readonly<Record<string, number | string>>

/** A measured or predicted quantity with its uncertainty. */
export interface Estimate {
  readonly value: number
  /** Standard deviation of ln(value); absent where unknown. */
  readonly logSd?: number
}

/** Everything a sampler may know before the first trial. */
export interface Problem {
  readonly space: SearchSpace
  readonly objective: Objective
  /** $ per hour of one replica. Exact, never modelled. */
  readonly pricePerHour: Pricing<Configuration>
  /**
   * Upper bound of `Observation.constraint`, for example an SLO in ms. Absent: no constraint.
   */
  readonly constraintLimit?: number
  /**
   * The constrained metric is the latency at the observed rate, which rises with concurrency.
   * Otherwise it is the unloaded latency.
   */
  readonly constraintAtRate?: boolean
  /** Device-model prior: expected ln(rate); undefined where the device model does not apply. */
  readonly priorLogRate?: (configuration: Configuration) => number | undefined
  /** Uncertain inputs of `priorLogRate`, calibrated on the trials, such as the GPU's speed. */
  readonly priorFactors?: PriorFactors
  /** Device-model prior: expected ln(constrained metric). */
  readonly priorLogConstraint?: (configuration: Configuration) => number | undefined
  /** Known infeasible before any launch (memory too small). Never suggested. */
  readonly cannotServe?: (configuration: Configuration) => boolean
  /**
   * Device model: P(memory suffices), in (0, 1], before any launch. Its error is common to all
   * configurations: if one fits, so does every configuration with a higher probability.
   */
  readonly memoryFitProbability?: (configuration: Configuration) => number
  /** P(a configuration serves), in [0, 1], learned from launches. Absent: no such launches. */
  readonly servesProbability?: (configuration: Configuration) => number
  /** Observations of the same served model in earlier experiments, in this space. */
  readonly earlier?: readonly Observation[]
}

/**
 * Uncertain inputs of a device-model prior, as k multiplicative factors. The search calibrates
 * them on the trials.
 */
export interface PriorFactors {
  /** Prior standard deviation of ln(factor), k. The prior mean is 0. */
  readonly sd: readonly number[]
  /** The device-model prior with its inputs multiplied by factors, given as ln(factor), k. */
  readonly applyFactors: (logFactors: readonly number[]) => ShiftedPrior
}
/** A device-model prior at given factors. */
export interface ShiftedPrior {
  /** Expected ln(rate); undefined where the device model does not apply. */
  readonly predictLogRate: (configuration: Configuration) => number | undefined
  /** ∂ ln(rate) / ∂ ln(factor), k. */
  readonly computeSensitivities: (configuration: Configuration) => readonly number[]
}

/**
 * The result of a finished trial. A failed trial is no observation, because its failure does not
 * depend on the configuration.
 */
export type Observation = { readonly configuration: Configuration } & (
  | {
      readonly state: 'complete'
      /**
       * Highest rate that meets the constraint, per second. 0: no rate meets it.
       */
      readonly rate?: Estimate
      /** The constrained metric; for a serving trial the unloaded SLO percentile in ms. */
      readonly constraint?: Estimate
      /** The trial was pruned: the true rate is at most `rate`. */
      readonly censored?: boolean
    }
  | { readonly state: 'infeasible'; readonly reason: string }
)

/** The configuration to try next. */
export interface Suggestion {
  readonly configuration: Configuration
  /** Reason for display: 'start: space-filling', 'expected improvement 12 %', 'grid 3 of 40'. */
  readonly why: string
  /**
   * Prediction of a model-based sampler: rate per second with its 90 % interval, and P(feasible).
   */
  readonly predicted?: {
    readonly rate: number
    readonly low: number
    readonly high: number
    readonly feasible: number
  }
  /** Warning for the user, for example about a failed fit or a sampled space. */
  readonly warning?: string
}

/**
 * A sampler is pure: equal arguments give equal suggestions, so that a search resumes from its
 * observations alone.
 */
export interface Sampler {
  readonly name: string
  /**
   * Suggests the next configuration, or undefined when none is left.
   * @param pending configurations under trial
   * @param trialSeconds expected duration of a trial; absent: equal for all configurations
   */
  suggest(
    problem: Problem,
    observations: readonly Observation[],
    pending: readonly Configuration[],
    rng: Rng,
    trialSeconds?: (configuration: Configuration) => number,
  ): Suggestion | undefined
}

/** Assessment of the stop rule after some trials. */
export interface StopAssessment {
  /**
   * P(an untried feasible configuration is more than `tolerance` better than the incumbent). 1
   * without an incumbent.
   */
  readonly probabilityBetterExists: number
  /** 0.05 = 5 %. */
  readonly tolerance: number
  readonly stop: boolean
  /** Absent without an incumbent, or without untried configurations. */
  readonly outlook?: Outlook
}

/** Expected savings of further trials, as shares of the incumbent's cost, 0.01 = 1 %. */
export interface Outlook {
  /** Further trials that the stop rule requires before it may stop. */
  readonly minTrials: number
  /** Expected saving of the next trial. */
  readonly gain: number
  /**
   * Expected saving of the best untried configuration (expected simple regret). It bounds the gain
   * of all further trials together.
   */
  readonly regret: number
}

/** A seeded generator of random numbers. */
export interface Rng {
  /** Uniform in [0, 1). */
  next(): number
  /** Standard normal. */
  normal(): number
  /** Whole number in [0, n). */
  int(n: number): number
  /** An independent generator; the same name always gives the same stream. */
  fork(name: string): Rng
}
