import { untried } from '../candidates.ts'
import { createHalton } from '../halton.ts'
import { configurationAt, configurationKey } from '../space.ts'
import type { Sampler } from '../types.ts'

const TRIES = 10_000

/** A scrambled Halton sequence, skipping what was tried or is not allowed; once it only repeats, what is left in order. */
export const haltonSampler: Sampler = {
  name: 'halton',
  suggest(problem, observations, pending, rng) {
    const taken = [...observations.map((o) => o.configuration), ...pending]
    const { configurations, complete } = untried(problem, taken, rng.fork('halton rest'))
    if (configurations.length === 0) return undefined
    const free = new Set(configurations.map(configurationKey))
    const point = createHalton(problem.space.parameters.length, rng.fork('halton'))
    const known = new Set(taken.map(configurationKey))
    for (let i = 0; i < TRIES; i++) {
      const configuration = configurationAt(problem.space, point(i))
      const key = configurationKey(configuration)
      if (
        complete
          ? free.has(key)
          : !known.has(key) && problem.space.constraints.every((c) => c.holds(configuration)) && !problem.cannotServe?.(configuration)
      )
        return { configuration, why: `halton point ${i + 1}` }
    }
    return { configuration: configurations[0]!, why: 'left over by the halton sequence' }
  },
}
