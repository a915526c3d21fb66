import { configurationKey } from '../space/space.ts'
import type { Configuration } from '../types.ts'

/** Configurations with their scores. */
interface ScoredList {
  readonly candidates: readonly Configuration[]
  readonly scores: Float64Array
}

/** Selects the `count` candidates with the highest scores, best first; ties keep their order. */
export const selectTop = ({ candidates, scores }: ScoredList, count: number): Configuration[] =>
  Array.from(scores.keys())
    .sort((a, b) => scores[b]! - scores[a]!)
    .slice(0, count)
    .map((i) => candidates[i]!)

/**
 * Larger lists are first scored approximately, and this many of them exactly. No stop probability
 * changed by that in 280 assessments (docs/research/search.md, speed).
 */
const maxExactCandidates = 512

/** Selects all candidates, or those with the highest approximate scores of a longer list. */
export const preselect = (
  candidates: readonly Configuration[],
  scoreApproximately: (all: readonly Configuration[]) => ScoredList,
): readonly Configuration[] =>
  candidates.length > maxExactCandidates
    ? selectTop(scoreApproximately(candidates), maxExactCandidates)
    : candidates

/** Configurations whose neighbourhoods one step explores. Assumed. */
const beamWidth = 5
/** Steps of the local search. Assumed. */
const maxClimbSteps = 12

/**
 * Searches locally: from the best of a sample to the best of their neighbours, until the score no
 * longer rises.
 */
export function climb<S extends ScoredList>(
  sample: S,
  findNeighbours: (configuration: Configuration) => readonly Configuration[],
  score: (candidates: readonly Configuration[]) => S,
): S {
  let best = score(selectTop(sample, beamWidth))
  for (let step = 0; step < maxClimbSteps; step++) {
    const beam = selectTop(best, beamWidth)
    const candidates = new Map(
      [...beam, ...beam.flatMap(findNeighbours)].map((c) => [configurationKey(c), c]),
    )
    const next = score([...candidates.values()])
    if (Math.max(...next.scores) <= Math.max(...best.scores)) break
    best = next
  }
  return best
}
