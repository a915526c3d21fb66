/** What the loop works with. */
import type { Recommendation, StopBelief } from '../../reports/recommendation/types.ts'
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

/** Everything the loop works with, made by assemble.ts and replaced in tests. */
export interface LoopParts {
  readonly experimentId: string
  readonly provenance: Provenance
  readonly problem: Problem
  /** Configurations in the space, Infinity for a continuous one. */
  readonly spaceSize: number
  /** Capacity that the device model expects, requests per second, where it knows one. */
  readonly expectation?: (configuration: Configuration) => number | undefined
  /** Measured before anything else: the yardstick of the gain. */
  readonly defaultConfiguration?: Configuration
  readonly sampler: Sampler
  /** @param problem without what trials have shown to be impossible */
  readonly assessStop: (
    problem: Problem,
    observations: readonly Observation[],
    rng: Rng,
  ) => StopAssessment
  readonly rng: Rng
  readonly backend: Pick<Backend, 'launcher' | 'measure' | 'launchesBeside' | 'close'>
  readonly store: TrialStore
  /** Where the run stands that this one takes up. Absent: it takes up none. */
  readonly progress?: RunProgress
  readonly recommend: (
    trials: readonly FinishedTrial[],
    stop: StopBelief | undefined,
  ) => Recommendation
  readonly label: (configuration: Configuration) => string
  /** Writes the result files, returns their paths. */
  readonly write: (
    recommendation: Recommendation,
    trials: readonly FinishedTrial[],
  ) => Promise<readonly string[]>
  readonly notices: readonly string[]
  /** Milliseconds since 1970, steady: see trials/clock.ts. */
  readonly now: () => number
}
