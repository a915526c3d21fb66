import type { Recommendation } from '../../reports/recommendation/types.ts'
import type { StopAssessment } from '../../search/types.ts'
import type { ExperimentRecord } from '../../trials/types.ts'

/** The stop rule's last word, from the recommendation that ended the experiment; undefined where it said nothing. */
export function stopOf({ result }: ExperimentRecord): StopAssessment | undefined {
  const confidence = (result as Partial<Recommendation> | undefined)?.confidence
  if (confidence?.probabilityWithinTolerance === undefined) return undefined
  return { probabilityBetterExists: 1 - confidence.probabilityWithinTolerance, tolerance: confidence.tolerance, stop: true }
}
