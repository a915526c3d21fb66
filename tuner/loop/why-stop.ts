/** Whether a search has come to its end, and why. Pure. */
import { certaintyPercent } from '../../reports/format.ts'
import type { StopAssessment } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { BudgetSpec } from '../experiment/types.ts'
import type { StopReason } from './events.ts'

/** Why a run ended, in words too. */
export interface Ending {
  readonly reason: StopReason
  readonly detail: string
}

export interface SearchState {
  /** All of the experiment. */
  readonly trials: readonly FinishedTrial[]
  /** Those of this run. */
  readonly fresh: readonly FinishedTrial[]
  /** Trials that count, those under way among them. */
  readonly counted: number
  /** $ */
  readonly spent: number
  readonly elapsedS: number
  /** What the stop rule believes, once it was asked. */
  readonly assessment?: StopAssessment
}

/** Failed trials in a row before the experiment is given up. */
const maxFailuresInRow = 4

/** Undefined: go on. What is wrong comes before what is reached, and a reached goal before a spent budget. */
export const whyStop = (state: SearchState, budget: BudgetSpec): Ending | undefined =>
  hopeless(state) ?? certain(state) ?? exhausted(state, budget)

function hopeless({ trials, fresh }: SearchState): Ending | undefined {
  const failed = (detail: string): Ending => ({ reason: 'failed', detail })
  const final = fresh.find((trial) => trial.state === 'failed' && trial.final === 'experiment')
  if (final !== undefined) return failed(`every other trial would fail like trial ${final.number}`)
  const last = fresh.slice(-maxFailuresInRow)
  if (last.length < maxFailuresInRow) return undefined
  if (last.every((trial) => trial.state === 'failed'))
    return failed(`${maxFailuresInRow} trials failed in a row; the last: ${whatWentWrong(last.at(-1)!)}`)
  if (trials.every(neverServed)) return failed(`none of ${trials.length} predictors ever served; the last: ${whatWentWrong(last.at(-1)!)}`)
  return undefined
}

function certain({ assessment }: SearchState): Ending | undefined {
  if (!assessment?.stop) return undefined
  const certainty = certaintyPercent(1 - assessment.probabilityBetterExists)
  const tolerance = Math.round(assessment.tolerance * 100)
  return { reason: 'certain', detail: `with ${certainty} % probability nothing untried is more than ${tolerance} % better` }
}

function exhausted({ counted, elapsedS, spent }: SearchState, { maxTrials, timeLimitS, maxCost }: BudgetSpec): Ending | undefined {
  if (counted >= maxTrials) return { reason: 'max-trials', detail: `${counted} trials` }
  if (timeLimitS !== undefined && elapsedS >= timeLimitS)
    return { reason: 'time-limit', detail: `${Math.round(elapsedS)} s of ${timeLimitS} s` }
  if (maxCost !== undefined && spent >= maxCost) return { reason: 'budget', detail: `$${spent.toFixed(4)} of $${maxCost} spent on trials` }
  return undefined
}

/** A predictor that does not even start says more of the template than of the configuration. */
const neverServed = (trial: FinishedTrial): boolean =>
  trial.state === 'failed' || (trial.state === 'infeasible' && (trial.reason === 'crashed' || trial.reason === 'never-ready'))

const whatWentWrong = (trial: FinishedTrial): string =>
  trial.state === 'failed' ? trial.error : trial.state === 'infeasible' ? trial.detail : ''
