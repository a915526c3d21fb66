import { configurationKey } from '../space/space.ts'
import type { Configuration } from '../types.ts'

/** Candidates and how much each is worth trying. */
interface Scored {
  readonly candidates: readonly Configuration[]
  readonly scores: Float64Array
}

/** The `count` candidates that score best, best first; of equals the earlier. */
export const bestOf = ({ candidates, scores }: Scored, count: number): Configuration[] =>
  Array.from(scores.keys())
    .sort((a, b) => scores[b]! - scores[a]!)
    .slice(0, count)
    .map((i) => candidates[i]!)

/** More candidates than this are first scored roughly, and the best of them again. */
const SHORTLIST = 512

/** All candidates, or of too many those that score best at a rough look. */
export const shortlisted = (
  candidates: readonly Configuration[],
  roughly: (all: readonly Configuration[]) => Scored,
): readonly Configuration[] =>
  candidates.length > SHORTLIST ? bestOf(roughly(candidates), SHORTLIST) : candidates

const CLIMBERS = 5
const CLIMBS = 12

/** From the best of a sample to the best of what is around them, until nothing is better. */
export function climb<S extends Scored>(
  sample: S,
  around: (configuration: Configuration) => readonly Configuration[],
  score: (candidates: readonly Configuration[]) => S,
): S {
  let best = score(bestOf(sample, CLIMBERS))
  for (let step = 0; step < CLIMBS; step++) {
    const here = bestOf(best, CLIMBERS)
    const reached = new Map([...here, ...here.flatMap(around)].map((c) => [configurationKey(c), c]))
    const next = score([...reached.values()])
    if (Math.max(...next.scores) <= Math.max(...best.scores)) break
    best = next
  }
  return best
}
