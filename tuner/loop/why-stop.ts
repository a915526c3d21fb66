/** Whether a search has come to its end, and why. Pure. */
import { hasNoResult } from '../../profiler/capacity/capacity-bounds.ts'
import { interpolatePercentile } from '../../profiler/capacity/rederive/load-curve.ts'
import { certaintyPercent, latency, percent, sloText } from '../../reports/format.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { StopAssessment } from '../../search/types.ts'
import type { FinishedTrial, InfeasibleReason } from '../../trials/types.ts'
import type { BudgetSpec } from '../experiment/types.ts'
import type { StopReason } from './events.ts'
import { withoutPlace } from './observations.ts'
import { notWorth, type Worth } from './trial-worth.ts'

/** Why a run ended, in words too. */
export interface Ending {
  readonly reason: StopReason
  readonly detail: string
}

export interface SearchState {
  /** All of the experiment. */
  readonly trials: readonly FinishedTrial[]
  /** Those of this run, also of before its interruption. */
  readonly ofRun: readonly FinishedTrial[]
  /** Trials that count, those under way among them. */
  readonly counted: number
  /** $ */
  readonly spent: number
  readonly elapsedS: number
  /** What the stop rule believes, once it was asked. */
  readonly assessment?: StopAssessment
  /** What another trial would have to gain, once there is something to compare it with. */
  readonly worth?: Worth
}

/** Failed trials in a row before the experiment is given up. */
const maxFailuresInRow = 4
/**
 * Trials from the first on that the machine disturbed, one and all: two configurations of three
 * attempts each.
 */
const mostDisturbedAtFirst = 6

/**
 * Attempts that the machine may disturb, of a run that measures something between them: as many as
 * trials may run, and no fewer than this.
 */
const minDisturbedAttempts = mostDisturbedAtFirst

/**
 * Undefined: go on. What is wrong comes before what is reached, and a reached goal before a spent
 * budget.
 */
export function whyStop(state: SearchState, budget: BudgetSpec): Ending | undefined {
  const reached =
    nothingLasted(state) === undefined ? (certain(state) ?? notWorthwhile(state)) : undefined
  const spent = () => {
    const ending = exhausted(state, budget)
    return ending && (nothingLasted(state) ?? ending)
  }
  return (
    hopeless(state) ?? reached ?? sloUnattainable(state) ?? machineBusy(state, budget) ?? spent()
  )
}

/** An end that says how much was left out for want of a place. */
export function withUnplaced(ending: Ending, fresh: readonly FinishedTrial[]): Ending {
  const unplaced = fresh.filter(withoutPlace).length
  if (unplaced === 0) return ending
  const what =
    unplaced === 1
      ? 'one configuration that fitted on no node'
      : `${unplaced} configurations that fitted on no node`
  return {
    ...ending,
    detail: `${ending.detail}; ${what} ${unplaced === 1 ? 'is' : 'are'} not measured: tune resume tries ${unplaced === 1 ? 'it' : 'them'} again`,
  }
}

/** Nothing is left to try. */
export function spaceExhausted({ trials }: Pick<SearchState, 'trials'>): Ending {
  const tried = new Set(
    trials.flatMap((trial) =>
      trial.state === 'failed' ? [] : configurationKey(trial.configuration),
    ),
  ).size
  const detail = tried === 1 ? 'the one configuration tried' : `all ${tried} configurations tried`
  return nothingLasted({ trials }) ?? { reason: 'space-exhausted', detail }
}

function hopeless({ trials, ofRun }: SearchState): Ending | undefined {
  const failed = (detail: string): Ending => ({ reason: 'failed', detail })
  const final = ofRun.find((trial) => trial.state === 'failed' && trial.final === 'experiment')
  if (final !== undefined) return failed(`every other trial would fail like trial ${final.number}`)
  if (ofRun.length >= mostDisturbedAtFirst && ofRun.every(wasDisturbed))
    return failed(
      `the machine was too busy in each of ${ofRun.length} trials; run tune resume once the machine is free of other work`,
    )
  if (ofRun.length < maxFailuresInRow) return undefined
  // What has no place now says nothing of the rest.
  const last = ofRun.filter((trial) => !withoutPlace(trial)).slice(-maxFailuresInRow)
  if (last.length === maxFailuresInRow && last.every((trial) => trial.state === 'failed'))
    return failed(
      `${maxFailuresInRow} trials failed in a row; the last: ${whatWentWrong(last.at(-1)!)}`,
    )
  return nothingLasted({ trials })
}

/**
 * Of predictors that never start, or all die, there is no telling which is best: that is no
 * search's end, but a failure.
 */
function nothingLasted({ trials }: Pick<SearchState, 'trials'>): Ending | undefined {
  const last = trials.at(-1)
  if (last === undefined || !trials.every(broke)) return undefined
  const none =
    trials.length === 1 ? 'the only predictor never' : `none of ${trials.length} predictors ever`
  const served = trials.some((trial) => trial.served) ? 'completed its trial' : 'served'
  return {
    reason: 'failed',
    detail: `${none} ${served}; ${trials.length === 1 ? 'it' : 'the last'}: ${whatWentWrong(last)}`,
  }
}

/** Trials before an SLO is called unattainable. */
const minTrialsToGiveUp = 4
/** Below this predicted probability no untried configuration is expected to meet the SLO. */
const minFeasibleProbability = 0.01

/**
 * Every configuration violates the SLO with one request at a time, and so will the others: the last
 * one was suggested as the likeliest to meet it.
 */
function sloUnattainable({ trials }: SearchState): Ending | undefined {
  const measured = trials.flatMap((trial) =>
    trial.state === 'complete' && !wasDisturbed(trial) ? [trial] : [],
  )
  const unloaded = measured.flatMap((trial) => {
    const { unloaded, slo, capacityRps } = trial.measurement
    const ms = interpolatePercentile(unloaded, slo.percentile)
    return !(capacityRps > 0) && ms > slo.limitMs ? [{ trial, ms, slo }] : []
  })
  const last = unloaded.at(-1)
  if (
    last === undefined ||
    unloaded.length < minTrialsToGiveUp ||
    unloaded.length < measured.length ||
    !((last.trial.predicted?.feasible ?? 1) < minFeasibleProbability)
  )
    return undefined
  const floor = unloaded.reduce((a, b) => (b.ms < a.ms ? b : a))
  return {
    reason: 'slo-unattainable',
    detail: `${sloText(floor.slo)} is below the unloaded latency: the lowest of ${unloaded.length} configurations is ${latency(floor.ms)} (trial ${floor.trial.number}), and no other is expected to be lower`,
  }
}

/** Other work on the machine goes on: what was measured in spite of it stands. */
function machineBusy(
  { trials, ofRun }: SearchState,
  { maxTrials }: BudgetSpec,
): Ending | undefined {
  const disturbed = ofRun.filter(
    (trial) => trial.purpose !== 'confirmation' && wasDisturbed(trial),
  ).length
  if (disturbed < Math.max(minDisturbedAttempts, maxTrials)) return undefined
  const what = `other work on this machine disturbed ${disturbed} attempts at a trial, which are inconclusive`
  return trials.every((trial) => trial.state === 'failed' || wasDisturbed(trial))
    ? {
        reason: 'failed',
        detail: `${what}; run tune resume once the machine is free of other work`,
      }
    : {
        reason: 'machine-busy',
        detail: `${what}; run tune resume --max-trials ${maxTrials} once the machine is free of other work`,
      }
}

function certain({ assessment }: SearchState): Ending | undefined {
  if (!assessment?.stop) return undefined
  return { reason: 'certain', detail: certaintyText(assessment) }
}

/** Not certain, but what is left to gain is less than finding it costs. */
function notWorthwhile({ assessment, worth }: SearchState): Ending | undefined {
  if (assessment === undefined || worth === undefined) return undefined
  const why = notWorth(assessment.outlook, worth)
  return why === undefined
    ? undefined
    : { reason: 'not-worthwhile', detail: `${why}; ${certaintyText(assessment)}` }
}

function certaintyText({ probabilityBetterExists, tolerance }: StopAssessment): string {
  const certainty = certaintyPercent(1 - probabilityBetterExists)
  return `${certainty} % likely that no untried configuration is over ${percent(tolerance)} better (model estimate)`
}

/**
 * Time and money before the count of trials: where those are spent, nothing is begun any more, not
 * even what stands beside the count.
 */
function exhausted(
  { counted, elapsedS, spent }: SearchState,
  { maxTrials, timeLimitS, maxCost }: BudgetSpec,
): Ending | undefined {
  if (timeLimitS !== undefined && elapsedS >= timeLimitS)
    return { reason: 'time-limit', detail: `${Math.round(elapsedS)} s of ${timeLimitS} s` }
  if (maxCost !== undefined && spent >= maxCost)
    return { reason: 'budget', detail: `$${spent.toFixed(4)} of $${maxCost} spent on trials` }
  if (counted >= maxTrials) return { reason: 'max-trials', detail: `${counted} trials` }
  return undefined
}

const breaks: readonly InfeasibleReason[] = ['crashed', 'never-ready', 'requests-fail']

/**
 * A predictor that does not even start, or does not last, says more of the template than of the
 * configuration.
 */
const broke = (trial: FinishedTrial): boolean =>
  trial.state === 'failed' || (trial.state === 'infeasible' && breaks.includes(trial.reason))

/** Other work kept the server or the load generator from the cores: it says nothing. */
export const wasDisturbed = (trial: FinishedTrial): boolean =>
  trial.state === 'complete' &&
  (trial.measurement.outcome === 'host-interference' ||
    (trial.measurement.outcome === 'generator-limit' && hasNoResult(trial.measurement)))

const whatWentWrong = (trial: FinishedTrial): string =>
  trial.state === 'failed' ? trial.error : trial.state === 'infeasible' ? trial.detail : ''
