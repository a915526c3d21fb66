/**
 * The vocabulary of the search: parameters, configurations, problems, observations, samplers. Pure
 * data; no I/O.
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
   * The parameter exists only while `on(configuration)` holds for the parameters declared before
   * it; else it takes its first (or least) value.
   */
  readonly when?: Condition
  /**
   * Certain knowledge: raising the value never lowers the rate a configuration can serve (`up`), or
   * never raises it (`down`).
   */
  readonly monotone?: 'up' | 'down'
  /**
   * How many requests are served at once (a batch size, a number of processes): rate and latency
   * both rise with it, neither more than in proportion.
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
 * Names without an order. Known numeric features (a GPU: log bandwidth, log FLOP/s) place them in a
 * space; without, they are equally far apart.
 */
export interface CategoricalParameter extends ParameterBase {
  readonly kind: 'categorical'
  readonly values: readonly string[]
  /** value → features, every value with as many features. */
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
   * The only configurations there are, in the order of a grid, where they are known one by one, as
   * in a recorded table. Absent: every combination of values.
   */
  readonly listed?: readonly Configuration[]
}

export type Configuration = Readonly<Record<string, number | string>>

/** A measured quantity and how uncertain it is. */
export interface Estimate {
  readonly value: number
  /** Standard deviation of ln(value), where the profiler knows it. */
  readonly logSd?: number
}

/** Everything a sampler may know before the first trial. */
export interface Problem {
  readonly space: SearchSpace
  readonly objective: Objective
  /** Exact, never modelled. $ per hour of one replica. */
  readonly pricePerHour: Pricing<Configuration>
  /**
   * `Outcome.constraint` must not exceed this (an SLO in ms, a violation rate in %). Absent:
   * nothing constrains.
   */
  readonly constraintLimit?: number
  /**
   * The constrained metric is the latency at the very rate of the observation, which more requests
   * at once raise; else it is of a server without load.
   */
  readonly constraintAtRate?: boolean
  /** Physics: expected ln(rate) of a configuration, undefined where the model knows nothing. */
  readonly priorLogRate?: (configuration: Configuration) => number | undefined
  /**
   * Physics: what `priorLogRate` is unsure of, learned from the trials: a slow disk, a fast GPU, a
   * costly request.
   */
  readonly priorFactors?: PriorFactors
  /** Physics: expected ln(constraint metric). */
  readonly priorLogConstraint?: (configuration: Configuration) => number | undefined
  /** Physics: certainly cannot serve (does not fit the memory). Never suggested. */
  readonly cannotServe?: (configuration: Configuration) => boolean
  /**
   * Physics: P(its memory suffices), in (0, 1], before any launch. It errs of all alike: where one
   * suffices, so does that of all which are likelier to.
   */
  readonly fitsMemory?: (configuration: Configuration) => number
  /** Physics: P(it serves), in [0, 1], where launches have told of what it depends on. */
  readonly probablyServes?: (configuration: Configuration) => number
  /** What earlier experiments measured of the same model, at configurations of this space. */
  readonly earlier?: readonly Observation[]
}

/**
 * What a physics prior is unsure of, as factors of its inputs: the search learns them from the
 * trials, as far as they are from 1.
 */
export interface PriorFactors {
  /** Standard deviation of ln(factor) before any trial, one a factor (k). */
  readonly sd: readonly number[]
  /** The prior with its inputs multiplied by factors, given as ln(factor) (k). */
  readonly at: (logFactors: readonly number[]) => MovedPrior
}
export interface MovedPrior {
  /** Expected ln(rate); undefined where physics knows nothing. */
  readonly logRate: (configuration: Configuration) => number | undefined
  /** ∂ ln(rate) / ∂ ln(factor), one a factor (k). */
  readonly sensitivities: (configuration: Configuration) => readonly number[]
}

/**
 * What a finished trial taught. Failed trials are never observations: they teach nothing about the
 * configuration.
 */
export type Observation = { readonly configuration: Configuration } & (
  | {
      readonly state: 'complete'
      /**
       * Highest rate served within the constraint, or the throughput of a table, per second. 0: the
       * constraint cannot be met at any rate.
       */
      readonly rate?: Estimate
      /** The constrained metric: for a serving trial its idle SLO percentile in ms. */
      readonly constraint?: Estimate
      /** The trial was cut short: the true rate is at most `rate`. */
      readonly censored?: boolean
      /** What the search believed of the rate before it was measured. */
      readonly foretold?: Estimate
    }
  | { readonly state: 'infeasible'; readonly reason: string }
)

/** A configuration to try, and why. */
export interface Suggestion {
  readonly configuration: Configuration
  /** For people: 'start: space-filling', 'expected improvement 12 %', 'grid 3 of 40', ... */
  readonly why: string
  /**
   * Model's belief where the sampler has one: rate per second and its 90 % interval, P(feasible).
   */
  readonly predicted?: {
    readonly rate: number
    readonly low: number
    readonly high: number
    readonly feasible: number
  }
  /** A warning for the user: a fit that fell back, a space that had to be subsampled. */
  readonly warning?: string
}

/**
 * Pure: the same arguments give the same suggestion, so resume is reload and re-suggest. Returns
 * undefined when nothing is left to try.
 */
export interface Sampler {
  readonly name: string
  /** @param seconds that a trial of a configuration would take, where some take less than others; absent: all the same */
  suggest(
    problem: Problem,
    observations: readonly Observation[],
    pending: readonly Configuration[],
    rng: Rng,
    seconds?: (configuration: Configuration) => number,
  ): Suggestion | undefined
}

/** What the stop rule believes after some trials. */
export interface StopAssessment {
  /**
   * P(some untried feasible configuration is more than `tolerance` better than the best found). 1
   * while nothing feasible is known.
   */
  readonly probabilityBetterExists: number
  /** 0.05 = 5 %. */
  readonly tolerance: number
  readonly stop: boolean
  /** Absent while nothing feasible is known, or nothing is left. */
  readonly outlook?: Outlook
}

/** What there is to gain yet, in shares of the least cost, 0.01 = 1 %. */
export interface Outlook {
  /** Trials there are in any case: before them there is too little to go by. */
  readonly trialsAtLeast: number
  /** What the next trial is expected to save. */
  readonly gain: number
  /**
   * What the best of all that is untried is expected to save: no trials to come can gain more
   * together.
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
  /** An independent generator for a named purpose; the same name gives the same stream. */
  fork(name: string): Rng
}
