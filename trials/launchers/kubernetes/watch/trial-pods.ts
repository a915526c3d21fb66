/** Assigns pods of an experiment to trials, and finds those that will free room. */
import type { V1Pod } from '@kubernetes/client-node'
import { labelNames } from '../manifests/manifests.ts'
import type { PodWatch } from './pod-watch.ts'

const isLivePredictor = ({ metadata, status }: V1Pod): boolean =>
  metadata?.labels?.[labelNames.role] === 'predictor' &&
  !['Failed', 'Succeeded'].includes(status?.phase ?? '')

const isPlacedPredictor = (pod: V1Pod): boolean =>
  isLivePredictor(pod) && pod.spec?.nodeName !== undefined

const readTrialNumber = ({ metadata }: V1Pod): number =>
  Number(metadata?.labels?.[labelNames.trial])

/** Lists the scheduled predictors of a trial. */
export const listPlacedPredictors = (watch: PodWatch, trial: number): V1Pod[] =>
  watch.all().filter((pod) => isPlacedPredictor(pod) && readTrialNumber(pod) === trial)

/** Whether predictors of other trials are scheduled, which will end and free room for a trial. */
export const willOtherTrialsEnd = (watch: PodWatch, trial: number): boolean =>
  willOthersFree(watch, trial, isPlacedPredictor)

/** Whether predictors of other trials, scheduled or not, will end and free quota for a trial. */
export const willOtherTrialsFreeQuota = (watch: PodWatch, trial: number): boolean =>
  willOthersFree(watch, trial, isLivePredictor)

/**
 * Trials that have pods and wait for further ones would wait for each other forever: the latest of
 * them gives up.
 */
function willOthersFree(
  watch: PodWatch,
  trial: number,
  isCounted: (pod: V1Pod) => boolean,
): boolean {
  const trials = new Set(watch.all().filter(isCounted).map(readTrialNumber))
  const waiting = watch.trialsWaitingForPods
  const mayBlock = waiting.has(trial) && trials.has(trial)
  return [...trials].some(
    (other) => other !== trial && !(mayBlock && waiting.has(other) && other < trial),
  )
}
