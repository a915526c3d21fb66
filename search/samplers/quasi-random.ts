import { untried } from '../space/candidates.ts'
import { createHalton } from '../space/halton.ts'
import { createSobol } from '../space/sobol.ts'
import { configurationAt, configurationKey } from '../space/space.ts'
import type { Rng, Sampler } from '../types.ts'

const TRIES = 10_000

/**
 * A randomised sequence that fills the space evenly, skipping what was tried or is not allowed;
 * once it only repeats, what is left in order.
 */
const quasiRandomSampler = (
  name: string,
  create: (dimensions: number, rng: Rng) => (index: number) => Float64Array,
): Sampler => ({
  name,
  suggest(problem, observations, pending, rng) {
    const taken = [...observations.map((o) => o.configuration), ...pending]
    const { configurations, complete } = untried(problem, taken, rng.fork(`${name} rest`))
    if (configurations.length === 0) return undefined
    const free = new Set(configurations.map(configurationKey))
    const point = create(problem.space.parameters.length, rng.fork(name))
    const known = new Set(taken.map(configurationKey))
    for (let i = 0; i < TRIES; i++) {
      const configuration = configurationAt(problem.space, point(i))
      const key = configurationKey(configuration)
      if (
        complete
          ? free.has(key)
          : !known.has(key) &&
            problem.space.constraints.every((c) => c.holds(configuration)) &&
            !problem.cannotServe?.(configuration)
      )
        return { configuration, why: `${name} point ${i + 1}` }
    }
    return { configuration: configurations[0]!, why: `left over by the ${name} sequence` }
  },
})

export const haltonSampler = quasiRandomSampler('halton', createHalton)
export const sobolSampler = quasiRandomSampler('sobol', createSobol)
