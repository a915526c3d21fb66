/** The recommendation: what a tuning run concludes. Plain data, JSON-safe. */
import type { Variation } from '../../profiler/model/measurement.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import type { Bundle } from '../../search/replica-price.ts'
import type { Configuration, Objective, StopAssessment } from '../../search/types.ts'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import type { FinishedTrial, Provenance, Usage } from '../../trials/types.ts'
import type { MetricValues } from './read-metrics.ts'
import type { Status } from './status.ts'
import type { TokenFigures } from './token-figures.ts'

/** A configuration's figures under the SLO, the prices and the demand. Derived, never stored. */
export interface Candidate {
  readonly trial: number
  readonly configuration: Configuration
  /** '2 cores, 1/4 T4 (4 GiB), batch 8' */
  readonly label: string
  /** How far the figures can be relied on. */
  readonly status: Status
  /**
   * Safe capacity, requests per second: the confirmed rate, or an estimate discounted as a
   * confirmation would. Costs, replicas and ranks are of this rate.
   */
  readonly capacityRps: number
  /** The estimate before its discount; absent if there is none. */
  readonly estimateRps?: number
  /** 90 % interval of the true capacity. */
  readonly capacityCi90Rps: readonly [number, number]
  /**
   * Highest rate at which a window proved the SLO by itself, below all rates that violated it;
   * absent if none did.
   */
  readonly provenRps?: number
  /**
   * 90 % interval of the capacity that the search predicted before the trial; absent without a
   * prediction, or under another SLO.
   */
  readonly predictedRps?: readonly [number, number]
  /** SLO percentile at the safe capacity, ms. */
  readonly sloMsAtCapacity: number
  /**
   * `measured`: in a window at that rate. `model`: read off the load curve. `unloaded`: of one
   * request at a time, because there is no capacity.
   */
  readonly sloMsFrom: 'measured' | 'model' | 'unloaded'
  /**
   * SLO percentile of one request at a time, ms; at most the lowest that was measured under load.
   * Absent when never measured.
   */
  readonly unloadedMs?: number
  /** 95 % interval of that latency, where it was measured at that rate, ms. */
  readonly sloCi95Ms?: readonly [number, number]
  /** The figures were read off the load curve for an SLO other than the measured one. */
  readonly derived?: boolean
  /** The true capacity is at least the estimate ('lower'), or at most the stated one ('upper'). */
  readonly bound?: 'lower' | 'upper'
  /**
   * For a refuted one: the rate at which its confirmation violated the SLO, and the latency there.
   */
  readonly missed?: {
    readonly rateRps: number
    readonly sloMs: number
    /** The server's own metrics as they were read last, at a rate that violated the SLO. */
    readonly metrics?: MetricValues
  }
  /** Resources that its trial used; some objectives count them. */
  readonly usage?: Usage
  /** The server's own metrics by name, read at this capacity. */
  readonly metrics?: MetricValues
  /** Quality of the model variant, as the experiment states it; absent without variants. */
  readonly quality?: number
  /** Of one replica. */
  readonly pricePerHour: number
  /** Whole instances that replicas must be rented in; absent: replicas are rented singly. */
  readonly bundles?: readonly Bundle[]
  readonly pricePerMillionRequests: number
  /** Figures of streamed answers; absent if none were streamed under load. */
  readonly tokens?: TokenFigures
  /** With a demand: ceil(demand / (capacity × (1 − headroom))). */
  readonly replicas?: number
  readonly totalPricePerHour?: number
  /** What the objective minimises (a maximised quantity is negated). */
  readonly cost: number
  readonly feasible: boolean
  /** Why it is infeasible. */
  readonly reason?: string
}

/** Outcomes of a run or a re-evaluation; the exit codes follow them. */
export const conclusions = {
  confirmed: 'a second load test of the best met the SLO',
  unconfirmed: 'no second load test confirmed the best found',
  'not asked': 'the best found was measured once, as requested',
  simulated: 'simulated: nothing was measured',
  imported: 'another tool measured it, not tune',
  none: 'no configuration is known to meet the SLO',
  unknown: 'no trial gave a result',
} as const
export type Conclusion = keyof typeof conclusions

/** Last result of the stop rule. */
export type StopPosterior = Omit<StopAssessment, 'stop'>

/**
 * What limits a configuration, in words. kv-memory to bandwidth apply to language model servers.
 */
export const bindings = {
  gpu: 'the GPU',
  cpu: 'the CPU cores',
  instances: 'the instances of a model',
  memory: 'memory',
  'kv-memory': 'the KV cache memory',
  scheduler: 'the limit on concurrent sequences',
  compute: "the GPU's arithmetic",
  bandwidth: "the GPU's memory bandwidth",
  slo: 'the SLO itself',
  generator: 'the load generator',
  unknown: 'not known',
} as const
export type Binding = keyof typeof bindings

/** One stage of a pipeline. Absent figures were not measured. */
export interface StageReport {
  readonly stage: string
  readonly replicas: number
  /** Configuration of one replica. */
  readonly label: string
  /** Share of the price of the pipeline, all replicas included, 0-1; absent: it shares a server. */
  readonly priceShare?: number
  /** Mean visits of a request. */
  readonly visits?: number
  /** Mean time of a visit without its calls, ms. */
  readonly meanMs?: number
  /** Share of the time that a request spends in all stages, 0-1. */
  readonly timeShare?: number
  /** Mean busy share of its busier resource during the load test, 0-1. */
  readonly busyShare?: number
}

/** How far the predictions of the search were from the measured capacities, as shares of these. */
export interface PredictionError {
  /** Trials that were predicted. */
  readonly trials: number
  readonly median: number
  readonly p90: number
  /** Of the best (or nearest), if it was predicted. */
  readonly subject?: { readonly predictedRps: number; readonly measuredRps: number }
}

/** A looser SLO. */
export interface RelaxedSlo {
  readonly limitMs: number
  /** Share of the cost that it would save, 0-1. */
  readonly saving: number
}

export interface Recommendation {
  readonly schema: 'tune.recommendation/v1'
  readonly experimentId: string
  readonly provenance: Provenance
  readonly slo: Slo
  readonly objective: Objective
  readonly conclusion: Conclusion
  /** One sentence. */
  readonly verdict: string
  /** Absent when nothing meets the SLO. */
  readonly best?: Candidate
  /** When nothing meets the SLO: the candidate that comes nearest. */
  readonly nearest?: Candidate
  /**
   * How the best (or nearest) was measured: server, engine, weights, requests. Absent if nothing
   * served.
   */
  readonly measuredWith?: MeasuredWith
  /** What limits the best (or keeps the nearest from the SLO), and the evidence. */
  readonly binding: { readonly what: Binding; readonly evidence: string }
  /** Of a pipeline: the stages of the best (or nearest), callers first. */
  readonly stages?: readonly StageReport[]
  /** Of a pipeline: what a limit that is 10 % looser would save. */
  readonly relaxedSlo?: RelaxedSlo
  /** Of a pipeline: how far predictions were off; absent if no trial was predicted. */
  readonly predictionError?: PredictionError
  /**
   * The Pareto front of SLO-percentile latency against throughput per dollar, as operating points
   * by rising latency: each is the configuration that would win under a tighter limit, at its safe
   * capacity there. A configuration may appear at several limits.
   */
  readonly front: readonly Candidate[]
  /**
   * With model variants of several qualities, best first: the front among those of at least that
   * quality. The last one is `front`.
   */
  readonly qualityFronts?: readonly {
    readonly minQuality: number
    readonly front: readonly Candidate[]
  }[]
  /** Every other feasible candidate, best first, then infeasible ones with their reason. */
  readonly alternatives: readonly (Candidate & { readonly whyNot: string })[]
  /** One whole GPU, batch 1 (or the space's nearest to it): measured as a trial. */
  readonly defaultCandidate?: Candidate
  /** 2.3 = the default costs 2.3 times as much. */
  readonly gainOverDefault?: number
  readonly confirmation?: {
    readonly trial: FinishedTrial
    /** The SLO was met at `rateRps`; else it was violated there and at every rate tried. */
    readonly met: boolean
    /** The measurement proves it at 95 % by itself. */
    readonly proven: boolean
    readonly rateRps: number
    readonly sloMs: number
    readonly sloCi95Ms: readonly [number, number]
    /** Confidence that the SLO is met, 0 to 1, and the seconds of load behind it. */
    readonly confidence?: number
    readonly seconds?: number
    /** Lowest rate above it at which a window's 95 % interval lies above the limit. */
    readonly violatedRps?: number
    /** How measurements of the configuration disagree, or its speed changed. */
    readonly variation?: Variation
  }
  readonly confidence: {
    /** Absent if it was not assessed, or could not be. */
    readonly probabilityWithinTolerance?: number
    /** The stop rule had too few trials to assess. */
    readonly tooFewTrials?: true
    readonly tolerance: number
    readonly statement: string
  }
  readonly caveats: readonly string[]
  readonly seed: number
  readonly trials: number
  /** Limit of the run; confirmations and trials without a result do not count towards it. */
  readonly maxTrials?: number
}
