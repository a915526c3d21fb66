/** Groups a growing list of trials by configuration. Pure. */
import { configurationKey } from '../../../search/space/space.ts'
import type { Configuration } from '../../../search/types.ts'
import type { FinishedTrial } from '../../../trials/types.ts'

export interface TrialGroup {
  readonly configuration: Configuration
  /** In their order. */
  readonly trials: FinishedTrial[]
}

/** Incremental: each trial is processed once. */
export class TrialGroups {
  readonly #byKey = new Map<string, TrialGroup>()
  readonly #groups: TrialGroup[] = []
  #grouped = 0

  /**
   * Groups in the order of their first trials.
   * @param trials may only grow between calls
   */
  groupTrials(trials: readonly FinishedTrial[]): readonly TrialGroup[] {
    for (; this.#grouped < trials.length; this.#grouped++) {
      const trial = trials[this.#grouped]!
      const key = configurationKey(trial.configuration)
      const group = this.#byKey.get(key)
      if (group) group.trials.push(trial)
      else {
        const group = { configuration: trial.configuration, trials: [trial] }
        this.#byKey.set(key, group)
        this.#groups.push(group)
      }
    }
    return this.#groups
  }
}
