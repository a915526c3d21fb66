/**
 * What a build is failed by: whether the SLO is kept, whether that was confirmed, and whether it
 * costs more than it did.
 */
import { percent, rate, sloText } from '../format.ts'
import { conclusions } from '../recommendation/types.ts'
import type { RecommendationDocument } from '../report/recommendation-json.ts'
import { bestCostText, changeOf, changeText, decisionOf, otherCircumstances } from './comparison.ts'

export interface Check {
  readonly name: 'slo' | 'confirmed' | 'regression' | 'alike'
  /** `undecided` fails no build, and is no pass. */
  readonly state: 'passed' | 'failed' | 'undecided'
  readonly message: string
}

/** @param mostWorse share by which the cost may be worse than the baseline's, 0.05 = 5 % */
export function checksOf(
  baseline: RecommendationDocument,
  now: RecommendationDocument,
  mostWorse: number,
): Check[] {
  const { best, conclusion, slo } = now
  if (!best) return [{ name: 'slo', state: 'failed', message: now.verdict }]
  const unlike = otherCircumstances(baseline, now)
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
    regression(baseline, now, mostWorse),
    ...(unlike.length > 0
      ? [
          {
            name: 'alike',
            state: 'undecided',
            message: `measured under other conditions than the baseline: ${unlike.join('; ')}`,
          } as const,
        ]
      : []),
  ]
}

function regression(
  baseline: RecommendationDocument,
  now: RecommendationDocument,
  mostWorse: number,
): Check {
  const change = changeOf(baseline, now, 'promised')
  if (!change) {
    const message = baseline.best
      ? 'the costs have no ratio to compare'
      : 'the baseline recommends nothing'
    return { name: 'regression', state: 'undecided', message }
  }
  const decision = decisionOf(change, mostWorse)
  const state = (
    { regressed: 'failed', 'within-limit': 'passed', undecided: 'undecided' } as const
  )[decision]
  const open =
    decision === 'undecided'
      ? `; too uncertain to tell whether the change exceeds ${percent(mostWorse)}: run longer trials`
      : ''
  return {
    name: 'regression',
    state,
    message: `${bestCostText(now)}, ${changeText(change, now)} than the baseline (${bestCostText(baseline)})${open}`,
  }
}
