/** Assigns pods of an experiment to trials, and finds those that will free room. */
import type { V1Pod } from '@kubernetes/client-node'
import { labelNames } from '../manifests/manifests.ts'
import type { PodWatch } from './pod-watch.ts'

const isPlacedPredictor = ({ metadata, spec, status }: V1Pod): boolean =>
  metadata?.labels?.[labelNames.role] === 'predictor' &&
  spec?.nodeName !== undefined &&
  !['Failed', 'Succeeded'].includes(status?.phase ?? '')

const readTrialNumber = ({ metadata }: V1Pod): number =>
  Number(metadata?.labels?.[labelNames.trial])

/** Lists the scheduled predictors of a trial. */
export const listPlacedPredictors = (watch: PodWatch, trial: number): V1Pod[] =>
  watch.all().filter((pod) => isPlacedPredictor(pod) && readTrialNumber(pod) === trial)

/** Whether predictors of other trials are scheduled, which will end and free room. */
export const willOtherTrialsEnd = (watch: PodWatch, trial: number): boolean =>
  watch.all().some((pod) => isPlacedPredictor(pod) && readTrialNumber(pod) !== trial)

/**
 * Whether predictors of other trials end and free room for a load generator. Trials whose load
 * generators wait for each other would deadlock: the latest of them gives up.
 */
export const willOtherTrialsEndBeforeLoad = (watch: PodWatch, trial: number): boolean =>
  watch.all().some((pod) => {
    const other = readTrialNumber(pod)
    return (
      isPlacedPredictor(pod) &&
      other !== trial &&
      !(watch.trialsWaitingForLoad.has(other) && other < trial)
    )
  })
