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
  readonly complete: boolean
}

/** Candidates drawn from a space that is too large to enumerate. Assumed. */
const sampledCandidates = 4_096
/**
 * Points drawn for each sampled configuration, to make up for constraints and duplicates. Assumed.
 */
const maxPointsPerSample = 16

/**
 * Configurations that satisfy the constraints, are not known to be infeasible, and are not taken.
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
  const complete = countGridCells(problem.space) <= maxEnumeratedConfigurations
  const all = complete
    ? listConfigurations(problem.space)
    : sampleSpace(problem.space, sampledCandidates, rng.fork('candidates'))
  return { configurations: all.filter(isCandidate), complete }
}

const getKey = memoise(configurationKey)

/**
 * `enumerateConfigurations`, memoised for each space, so that equal configurations are one object.
 */
export const listConfigurations = memoise((space: SearchSpace): readonly Configuration[] =>
  enumerateConfigurations(space),
)

/** Up to `count` distinct configurations that satisfy the constraints, from a Halton sequence. */
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
 * Up to `maxRepresentatives` configurations, evenly spaced over the space; memoised for each space.
 */
export const sampleRepresentatives = memoise((space: SearchSpace): readonly Configuration[] => {
  const all =
    countGridCells(space) <= maxEnumeratedConfigurations
      ? listConfigurations(space)
      : sampleSpace(space, maxRepresentatives)
  const stride = Math.ceil(all.length / maxRepresentatives)
  return all.filter((_, i) => i % stride === 0)
})
