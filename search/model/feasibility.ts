import { logCdf } from '../gp/normal.ts'
import type { Marginals } from '../gp/types.ts'
import type { Problem } from '../types.ts'
import type { BentNormal } from './saturating-predictive.ts'

/**
 * Beliefs about m configurations: ln rate, transformed constraint (≤ 0 is met), and whether they
 * serve at all.
 */
export interface Beliefs {
  readonly rate?: BentNormal
  readonly constraint?: Marginals
  /** ln P(serves: not out of memory, does get ready), m. */
  readonly logServes: Float64Array
}

/** ln P(serves and meets the constraint), m. */
export function logFeasible(problem: Problem, { constraint, logServes }: Beliefs): Float64Array {
  if (problem.constraintLimit === undefined || !constraint) return logServes
  return logServes.map(
    (serves, i) => serves + logCdf(-constraint.mean[i]! / Math.sqrt(constraint.variance[i]!)),
  )
}
