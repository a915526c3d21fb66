import { type RunScore, trialCap } from './score.ts'

/** Runs of one sampler on one family. */
export interface FamilyRuns {
  readonly sampler: string
  readonly family: string
  readonly runs: readonly RunScore[]
}

const mean = (values: readonly number[]): number =>
  values.reduce((a, b) => a + b, 0) / values.length
const meanLogTrials = (runs: readonly RunScore[]): number =>
  mean(runs.map((r) => Math.log(Math.min(trialCap + 1, r.trialsToWithin))))

/**
 * For each family the runs of the candidate that did best on all other families: lowest mean
 * ln(trials), each family with equal weight. No family influences its own result.
 */
export function leaveFamiliesOut(
  candidates: readonly string[],
  all: readonly FamilyRuns[],
): FamilyRuns[] {
  const families = [...new Set(all.map((f) => f.family))]
  return families.map((family) => {
    const scoreElsewhere = (sampler: string) =>
      mean(
        all
          .filter((f) => f.sampler === sampler && f.family !== family)
          .map((f) => meanLogTrials(f.runs)),
      )
    const chosen = candidates.reduce((best, sampler) =>
      scoreElsewhere(sampler) < scoreElsewhere(best) ? sampler : best,
    )
    return all.find((f) => f.sampler === chosen && f.family === family)!
  })
}
