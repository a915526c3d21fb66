import { CAP, type RunScore } from './score.ts'

/** Runs of one sampler on one family. */
export interface FamilyRuns {
  readonly sampler: string
  readonly family: string
  readonly runs: readonly RunScore[]
}

const mean = (values: readonly number[]): number =>
  values.reduce((a, b) => a + b, 0) / values.length
const meanLogTrials = (runs: readonly RunScore[]): number =>
  mean(runs.map((r) => Math.log(Math.min(CAP + 1, r.trialsToWithin))))

/**
 * Each family with the candidate that did best on all the others: least mean ln(trials), every
 * family counting the same. No family has a say in what is reported of it.
 */
export function leaveFamiliesOut(
  candidates: readonly string[],
  all: readonly FamilyRuns[],
): FamilyRuns[] {
  const families = [...new Set(all.map((f) => f.family))]
  return families.map((family) => {
    const elsewhere = (sampler: string) =>
      mean(
        all
          .filter((f) => f.sampler === sampler && f.family !== family)
          .map((f) => meanLogTrials(f.runs)),
      )
    const chosen = candidates.reduce((best, sampler) =>
      elsewhere(sampler) < elsewhere(best) ? sampler : best,
    )
    return all.find((f) => f.sampler === chosen && f.family === family)!
  })
}
