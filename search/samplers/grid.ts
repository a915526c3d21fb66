import { findCandidates } from '../space/candidates.ts'
import { countConfigurations } from '../space/space.ts'
import type { Sampler } from '../types.ts'

/**
 * Every configuration in order, the last parameter varying fastest. A space that is too large to
 * enumerate is sampled quasi-randomly, with a warning.
 */
export const gridSampler: Sampler = {
  name: 'grid',
  suggest(problem, observations, pending, rng) {
    const taken = [...observations.map((o) => o.configuration), ...pending]
    const { configurations, isComplete } = findCandidates(problem, taken, rng.fork('grid'))
    const configuration = configurations[0]
    if (!configuration) return undefined
    const size = countConfigurations(problem.space)
    if (isComplete) return { configuration, why: `grid ${taken.length + 1} of ${size}` }
    return {
      configuration,
      why: 'quasi-random grid',
      warning: `the space of ${size} configurations is too large for a grid; it is sampled`,
    }
  },
}
