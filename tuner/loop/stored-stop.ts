import type { Recommendation, StopBelief } from '../../reports/recommendation/types.ts'
import type { ExperimentRecord } from '../../trials/types.ts'

/**
 * The stop rule's last word, from the recommendation that ended the experiment; undefined where it
 * said nothing.
 */
export function stopOf({ result }: ExperimentRecord): StopBelief | undefined {
  const confidence = (result as Partial<Recommendation> | undefined)?.confidence
  if (confidence === undefined) return undefined
  const { probabilityWithinTolerance: within, tooFewTrials, tolerance } = confidence
  if (tooFewTrials) return { probabilityBetterExists: 1, tolerance }
  return within === undefined ? undefined : { probabilityBetterExists: 1 - within, tolerance }
}
