import { untried } from '../space/candidates.ts'
import { spaceSize } from '../space/space.ts'
import type { Sampler } from '../types.ts'

/**
 * Every configuration in order, the last parameter varying fastest; a quasi-random sequence where
 * the space cannot be listed.
 */
export const gridSampler: Sampler = {
  name: 'grid',
  suggest(problem, observations, pending, rng) {
    const taken = [...observations.map((o) => o.configuration), ...pending]
    const { configurations, complete } = untried(problem, taken, rng.fork('grid'))
    const configuration = configurations[0]
    if (!configuration) return undefined
    const size = spaceSize(problem.space)
    if (complete) return { configuration, why: `grid ${taken.length + 1} of ${size}` }
    return {
      configuration,
      why: 'quasi-random grid',
      warning: `the space of ${size} configurations is too large for a grid; it is sampled`,
    }
  },
}
