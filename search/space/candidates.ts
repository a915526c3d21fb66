import { remembered } from '../memoise.ts'
import { createRng } from '../rng.ts'
import type { Configuration, Problem, Rng, SearchSpace } from '../types.ts'
import { createHalton } from './halton.ts'
import {
  configurationAt,
  configurationKey,
  enumerate,
  GRID_LIMIT,
  gridSize,
  satisfies,
} from './space.ts'

export interface Candidates {
  readonly configurations: readonly Configuration[]
  /** Every configuration there is, or a quasi-random sample of a space too large to list. */
  readonly complete: boolean
}

const SAMPLE = 4_096
const TRIES = 16

/**
 * What may be tried: satisfies the constraints, may serve by physics, and is neither tried nor
 * pending.
 */
export function untried(problem: Problem, taken: readonly Configuration[], rng: Rng): Candidates {
  const known = new Set(taken.map(configurationKey))
  const allowed = (configuration: Configuration) =>
    !known.has(keyOf(configuration)) && !problem.cannotServe?.(configuration)
  const complete = gridSize(problem.space) <= GRID_LIMIT
  const all = complete
    ? listed(problem.space)
    : sampleSpace(problem.space, SAMPLE, rng.fork('candidates'))
  return { configurations: all.filter(allowed), complete }
}

const keyOf = remembered(configurationKey)

/**
 * `enumerate`, remembered for each space object, so that a configuration is the same object each
 * time.
 */
export const listed = remembered((space: SearchSpace): readonly Configuration[] => enumerate(space))

/** Up to `count` distinct configurations of a space, quasi-random. */
export function sampleSpace(
  space: SearchSpace,
  count: number,
  rng: Rng = createRng('space'),
): Configuration[] {
  const point = createHalton(space.parameters.length, rng)
  const found = new Map<string, Configuration>()
  for (let i = 0; i < count * TRIES && found.size < count; i++) {
    const configuration = configurationAt(space, point(i))
    if (satisfies(space, configuration)) found.set(configurationKey(configuration), configuration)
  }
  return [...found.values()]
}
