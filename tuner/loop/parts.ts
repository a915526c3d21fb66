/** The parts that the loop works with: `assemble.ts` makes them, tests replace them. */
import type { Recommendation, StopPosterior } from '../../reports/recommendation/types.ts'
import type {
  Configuration,
  Observation,
  Problem,
  Rng,
  Sampler,
  StopAssessment,
} from '../../search/types.ts'
import type { FinishedTrial, Provenance, RunProgress, TrialStore } from '../../trials/types.ts'
import type { Backend } from '../backends/backend.ts'

export interface LoopParts {
  readonly experimentId: string
  readonly provenance: Provenance
  readonly problem: Problem
  /**
   * The problem with what the trials tell of other configurations beside their capacities. Absent:
   * nothing.
   */
  readonly learnFromTrials?: (problem: Problem, trials: readonly FinishedTrial[]) => Problem
  /** Number of configurations in the space; Infinity for a continuous one. */
  readonly spaceSize: number
  /** Capacity by the device model, requests per second; undefined where it does not serve. */
  readonly estimateCapacityRps?: (configuration: Configuration) => number | undefined
  /** The baseline that the gain is compared with. Absent: the space has none. */
  readonly defaultConfiguration?: Configuration
  readonly sampler: Sampler
  /** @param problem without the configurations that trials have ruled out */
  readonly assessStop: (
    problem: Problem,
    observations: readonly Observation[],
    rng: Rng,
  ) => StopAssessment
  readonly rng: Rng
  readonly backend: Pick<Backend, 'launcher' | 'measure' | 'canLaunchAlongside' | 'close'>
  readonly store: TrialStore
  /** State of the interrupted run that this one continues. Absent: there is none. */
  readonly progress?: RunProgress
  readonly recommend: (
    trials: readonly FinishedTrial[],
    stop: StopPosterior | undefined,
  ) => Recommendation
  readonly label: (configuration: Configuration) => string
  /** Writes the result files and returns their paths. */
  readonly write: (
    recommendation: Recommendation,
    trials: readonly FinishedTrial[],
  ) => Promise<readonly string[]>
  readonly notices: readonly string[]
  /** Milliseconds since 1970 by a steady clock: see trials/clock.ts. */
  readonly now: () => number
}
