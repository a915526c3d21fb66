/** Costs that were measured in several rounds, and how surely one of them is near the least. */
import { median } from 'simple-statistics'
import { createUniform } from '../../profiler/seeded-random.ts'

const resamples = 2000

/**
 * By how much a cost is above the best, 0.04 for 4 %. Costs below zero are gains: the larger is the
 * better.
 */
export const regretOf = (cost: number, best: number): number => Math.abs(cost / best - 1)

/**
 * How sure it is, 0-1, that the median cost of one is at most `allowed` above the least median of
 * all: rounds of each drawn with replacement (Efron and Tibshirani 1993, chapter 6). Of three
 * rounds it is somewhat too sure: what they have in common is not seen.
 * @param costs of each, those of its rounds
 */
export function sureWithin(
  costs: readonly (readonly number[])[],
  which: number,
  allowed: number,
): number {
  const uniform = createUniform(1)
  let within = 0
  for (let i = 0; i < resamples; i++) {
    const medians = costs.map((rounds) =>
      median(rounds.map(() => rounds[Math.floor(uniform() * rounds.length)]!)),
    )
    if (regretOf(medians[which]!, Math.min(...medians)) <= allowed) within++
  }
  return within / resamples
}
