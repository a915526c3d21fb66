/** Which pods of an experiment belong to which trial, and which of them will free their room. */
import type { V1Pod } from '@kubernetes/client-node'
import { labelNames } from './manifests.ts'
import type { PodWatch } from './pod-watch.ts'

const isPlacedPredictor = ({ metadata, spec, status }: V1Pod): boolean =>
  metadata?.labels?.[labelNames.role] === 'predictor' &&
  spec?.nodeName !== undefined &&
  !['Failed', 'Succeeded'].includes(status?.phase ?? '')

const trialOf = ({ metadata }: V1Pod): number => Number(metadata?.labels?.[labelNames.trial])

/** The predictor of a trial, where it is on a node. */
export const placedPredictors = (watch: PodWatch, trial: number): V1Pod[] =>
  watch.all().filter((pod) => isPlacedPredictor(pod) && trialOf(pod) === trial)

/** Whether predictors of other trials run, which will end and free room. */
export const otherTrialsEnd = (watch: PodWatch, trial: number): boolean =>
  watch.all().some((pod) => isPlacedPredictor(pod) && trialOf(pod) !== trial)

/**
 * The same for a load generator. Trials whose load generators wait for each other would never end:
 * the latest of them gives up.
 */
export const otherTrialsEndBeforeLoad = (watch: PodWatch, trial: number): boolean =>
  watch.all().some((pod) => {
    const other = trialOf(pod)
    return (
      isPlacedPredictor(pod) &&
      other !== trial &&
      !(watch.trialsWaitingForLoad.has(other) && other < trial)
    )
  })
