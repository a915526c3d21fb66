/** Checks that fail a build: the SLO is not met, it was not confirmed, or the cost has risen. */
import { percent, rate, sloText } from '../format.ts'
import { conclusions } from '../recommendation/types.ts'
import type { RecommendationDocument } from '../report/recommendation-json.ts'
import {
  changeText,
  computeChange,
  decideChange,
  formatBestCost,
  listDifferentConditions,
} from './comparison.ts'

export interface Check {
  readonly name: 'slo' | 'confirmed' | 'regression' | 'alike'
  /** `undecided` does not fail the build; it is reported as skipped. */
  readonly state: 'passed' | 'failed' | 'undecided'
  readonly message: string
}

/** @param maxWorse share by which the cost may exceed the baseline's, 0.05 = 5 % */
export function runChecks(
  baseline: RecommendationDocument,
  now: RecommendationDocument,
  maxWorse: number,
): Check[] {
  const { best, conclusion, slo } = now
  if (!best) return [{ name: 'slo', state: 'failed', message: now.verdict }]
  const differences = listDifferentConditions(baseline, now)
  return [
    {
      name: 'slo',
      state: 'passed',
      message: `${best.label} meets ${sloText(slo)} at ${rate(best.capacityRps)}`,
    },
    {
      name: 'confirmed',
      state:
        conclusion === 'confirmed'
          ? 'passed'
          : conclusion === 'unconfirmed'
            ? 'failed'
            : 'undecided',
      message: conclusions[conclusion],
    },
    checkRegression(baseline, now, maxWorse),
    ...(differences.length > 0
      ? [
          {
            name: 'alike',
            state: 'undecided',
            message: `measured under other conditions than the baseline: ${differences.join('; ')}`,
          } as const,
        ]
      : []),
  ]
}

function checkRegression(
  baseline: RecommendationDocument,
  now: RecommendationDocument,
  maxWorse: number,
): Check {
  const change = computeChange(baseline, now, 'promised')
  if (!change) {
    const message = baseline.best
      ? 'the costs have no ratio to compare'
      : 'the baseline recommends nothing'
    return { name: 'regression', state: 'undecided', message }
  }
  const decision = decideChange(change, maxWorse)
  const state = (
    { regressed: 'failed', 'within-limit': 'passed', undecided: 'undecided' } as const
  )[decision]
  const open =
    decision === 'undecided'
      ? `; too uncertain to tell whether the change exceeds ${percent(maxWorse)}: run longer trials`
      : ''
  return {
    name: 'regression',
    state,
    message: `${formatBestCost(now)}, ${changeText(change, now)} than the baseline (${formatBestCost(baseline)})${open}`,
  }
}
