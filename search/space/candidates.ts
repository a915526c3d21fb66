import { memoise } from '../memoise.ts'
import { createRng } from '../rng.ts'
import type { Configuration, Problem, Rng, SearchSpace } from '../types.ts'
import { createHalton } from './halton.ts'
import {
  configurationKey,
  countGridCells,
  decodeConfiguration,
  enumerateConfigurations,
  maxEnumeratedConfigurations,
  satisfiesConstraints,
} from './space.ts'

/** Configurations that may be tried next. */
export interface Candidates {
  readonly configurations: readonly Configuration[]
  /** True for the complete list, false for a quasi-random sample of a larger space. */
  readonly isComplete: boolean
}

/** Size of the sample from a space that is too large to enumerate. Assumed. */
const sampleSize = 4_096
/**
 * Maximum points per sampled configuration, to make up for constraints and duplicates. Assumed.
 */
const maxPointsPerSample = 16

/**
 * Finds configurations that satisfy the constraints, are not known to be infeasible, and are not
 * taken.
 * @param taken configurations that were tried or are pending
 */
export function findCandidates(
  problem: Problem,
  taken: readonly Configuration[],
  rng: Rng,
): Candidates {
  const takenKeys = new Set(taken.map(configurationKey))
  const isCandidate = (configuration: Configuration) =>
    !takenKeys.has(getKey(configuration)) && !problem.cannotServe?.(configuration)
  const isComplete = countGridCells(problem.space) <= maxEnumeratedConfigurations
  const all = isComplete
    ? listConfigurations(problem.space)
    : sampleSpace(problem.space, sampleSize, rng.fork('candidates'))
  return { configurations: all.filter(isCandidate), isComplete }
}

const getKey = memoise(configurationKey)

/**
 * `enumerateConfigurations`, memoised by space, so that equal configurations are one object.
 */
export const listConfigurations = memoise((space: SearchSpace): readonly Configuration[] =>
  enumerateConfigurations(space),
)

/** Samples up to `count` distinct configurations within the constraints, from a Halton sequence. */
export function sampleSpace(
  space: SearchSpace,
  count: number,
  rng: Rng = createRng('space'),
): Configuration[] {
  const getPoint = createHalton(space.parameters.length, rng)
  const sampled = new Map<string, Configuration>()
  for (let i = 0; i < count * maxPointsPerSample && sampled.size < count; i++) {
    const configuration = decodeConfiguration(space, getPoint(i))
    if (satisfiesConstraints(space, configuration))
      sampled.set(configurationKey(configuration), configuration)
  }
  return [...sampled.values()]
}

/** Assumed: enough for means and ranges over a space. */
const maxRepresentatives = 512

/**
 * Selects up to `maxRepresentatives` configurations, evenly spaced over the space. Memoised by space.
 */
export const sampleRepresentatives = memoise((space: SearchSpace): readonly Configuration[] => {
  const all =
    countGridCells(space) <= maxEnumeratedConfigurations
      ? listConfigurations(space)
      : sampleSpace(space, maxRepresentatives)
  const stride = Math.ceil(all.length / maxRepresentatives)
  return all.filter((_, i) => i % stride === 0)
})
