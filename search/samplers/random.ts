import { untried } from '../space/candidates.ts'
import type { Sampler } from '../types.ts'

/** Uniform over what is untried. */
export const randomSampler: Sampler = {
  name: 'random',
  suggest(problem, observations, pending, rng) {
    const taken = [...observations.map((o) => o.configuration), ...pending]
    const trial = rng.fork(`random ${taken.length}`)
    const { configurations } = untried(problem, taken, trial)
    if (configurations.length === 0) return undefined
    return { configuration: configurations[trial.int(configurations.length)]!, why: 'random' }
  },
}
