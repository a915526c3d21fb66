/** What the loop works with. */
import type { LoadPoint, Measurement } from '../../profiler/types.ts'
import type { Recommendation } from '../../reports/recommendation/types.ts'
import type { Configuration, Observation, Problem, Rng, Sampler, StopAssessment } from '../../search/types.ts'
import type { FinishedTrial, Launcher, Predictor, Provenance, TrialStore } from '../../trials/types.ts'

export interface TrialLoadOptions {
  readonly number: number
  /** Below this capacity the trial cannot win and may be cut short. */
  readonly capacityToBeatRps?: number
  readonly onStep: (point: LoadPoint, phase: string) => void
}

/** Measures whether the SLO holds at `rateRps`, and at lower rates if it does not: the measurement's capacity is the highest rate that held. */
export type ConfirmLoad = (
  predictor: Predictor,
  options: { readonly rateRps: number; readonly number: number; readonly onStep: (point: LoadPoint, phase: string) => void },
  signal: AbortSignal,
) => Promise<Measurement>

/** Everything the loop works with, made by assemble.ts and replaced in tests. */
export interface LoopParts {
  readonly experimentId: string
  readonly provenance: Provenance
  readonly problem: Problem
  /** Configurations in the space, Infinity for a continuous one. */
  readonly spaceSize: number
  /** Measured before anything else: the yardstick of the gain. */
  readonly defaultConfiguration?: Configuration
  readonly sampler: Sampler
  readonly assessStop: (observations: readonly Observation[], rng: Rng) => StopAssessment
  readonly rng: Rng
  readonly launcher: Launcher
  readonly load: (predictor: Predictor, options: TrialLoadOptions, signal: AbortSignal) => Promise<Measurement>
  readonly confirm: ConfirmLoad
  readonly store: TrialStore
  /** The highest number that a trial of the experiment has in the store, also a damaged one that is left out of the earlier trials. */
  readonly lastNumber?: number
  readonly recommend: (trials: readonly FinishedTrial[], stop: StopAssessment | undefined) => Recommendation
  readonly label: (configuration: Configuration) => string
  /** Writes the result files, returns their paths. */
  readonly write: (recommendation: Recommendation, trials: readonly FinishedTrial[]) => Promise<readonly string[]>
  readonly notices: readonly string[]
  /** Milliseconds since 1970. */
  readonly now: () => number
}
