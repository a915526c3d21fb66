import { findCandidates } from '../space/candidates.ts'
import type { Sampler } from '../types.ts'

/** Samples uniformly from the candidates. */
export const randomSampler: Sampler = {
  name: 'random',
  suggest(problem, observations, pending, rng) {
    const taken = [...observations.map((o) => o.configuration), ...pending]
    const trialRng = rng.fork(`random ${taken.length}`)
    const { configurations } = findCandidates(problem, taken, trialRng)
    if (configurations.length === 0) return undefined
    return { configuration: configurations[trialRng.int(configurations.length)]!, why: 'random' }
  },
}
