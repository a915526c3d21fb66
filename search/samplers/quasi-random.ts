import { findCandidates } from '../space/candidates.ts'
import { createHalton } from '../space/halton.ts'
import { createSobol } from '../space/sobol.ts'
import { configurationKey, decodeConfiguration } from '../space/space.ts'
import type { Rng, Sampler } from '../types.ts'

/**
 * Maximum points skipped as already tried or excluded, before the remaining candidates are used in
 * order. Assumed.
 */
const maxSkippedPoints = 10_000

/**
 * Creates a sampler of a randomised low-discrepancy sequence without tried and excluded points.
 * When it only repeats itself, the remaining candidates follow in order.
 */
const createQuasiRandomSampler = (
  name: string,
  create: (dimensions: number, rng: Rng) => (index: number) => Float64Array,
): Sampler => ({
  name,
  suggest(problem, observations, pending, rng) {
    const taken = [...observations.map((o) => o.configuration), ...pending]
    const { configurations, isComplete } = findCandidates(problem, taken, rng.fork(`${name} rest`))
    if (configurations.length === 0) return undefined
    const candidateKeys = new Set(configurations.map(configurationKey))
    const getPoint = create(problem.space.parameters.length, rng.fork(name))
    const takenKeys = new Set(taken.map(configurationKey))
    for (let i = 0; i < maxSkippedPoints; i++) {
      const configuration = decodeConfiguration(problem.space, getPoint(i))
      const key = configurationKey(configuration)
      if (
        isComplete
          ? candidateKeys.has(key)
          : !takenKeys.has(key) &&
            problem.space.constraints.every((c) => c.holds(configuration)) &&
            !problem.cannotServe?.(configuration)
      )
        return { configuration, why: `${name} point ${i + 1}` }
    }
    return { configuration: configurations[0]!, why: `not reached by the ${name} sequence` }
  },
})

export const haltonSampler = createQuasiRandomSampler('halton', createHalton)
export const sobolSampler = createQuasiRandomSampler('sobol', createSobol)
