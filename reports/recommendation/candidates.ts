import type { Candidate, Recommendation } from './types.ts'

/** Every candidate of a recommendation, best first. */
export const listCandidates = (r: Recommendation): readonly Candidate[] =>
  r.best ? [r.best, ...r.alternatives] : r.nearest ? [r.nearest, ...r.alternatives] : r.alternatives
