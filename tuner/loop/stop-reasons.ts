/** Reasons to end a search. Pure. */
import { interpolatePercentile } from '../../profiler/capacity/rederive/load-curve.ts'
import { computeCertaintyPercent, latency, percent, sloText } from '../../reports/format.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { StopAssessment } from '../../search/types.ts'
import type { FinishedTrial, InfeasibleReason } from '../../trials/types.ts'
import type { BudgetSpec } from '../config/types.ts'
import type { StopReason } from './events.ts'
import { isSearchTrial, isUnplaced, wasDisturbed } from './trial-status.ts'
import { explainNotWorthwhile, type RequiredGain } from './trial-value.ts'

export interface Ending {
  readonly reason: StopReason
  /** The evidence, in words. */
  readonly detail: string
}

export interface SearchState {
  /** All trials of the experiment. */
  readonly trials: readonly FinishedTrial[]
  /** Trials of this run, including those before its interruption. */
  readonly trialsOfRun: readonly FinishedTrial[]
  /** Trials that count towards the maximum, including those under way. */
  readonly countedTrials: number
  readonly spentUsd: number
  readonly elapsedS: number
  /** Absent before the first evaluation of the stop rule. */
  readonly assessment?: StopAssessment
  /** Absent while there is no best configuration to gain on. */
  readonly requiredGain?: RequiredGain
}

/** Failed trials in a row after which the experiment fails: more than the attempts at one. */
const maxFailuresInRow = 4
/**
 * Disturbed trials from the first one on after which the experiment fails: three configurations of
 * two attempts each (minAttemptsToDefer, retries.ts).
 */
const maxDisturbedAtStart = 6
/**
 * Minimum number of disturbed attempts that end a run. The bound is the maximum number of trials
 * where that is higher.
 */
const minDisturbedToStop = maxDisturbedAtStart

/**
 * Finds why the search ends; undefined if it continues. A failure is reported before a reached
 * goal, and a reached goal before an exhausted budget.
 */
export function findReasonToStop(state: SearchState, budget: BudgetSpec): Ending | undefined {
  const noneServed = findNoneServed(state)
  const goal =
    noneServed === undefined ? (findCertainty(state) ?? findNotWorthwhile(state)) : undefined
  const exhausted = findExhaustedBudget(state, budget)
  return (
    findFailure(state) ??
    goal ??
    findUnattainableSlo(state) ??
    findBusyMachine(state, budget) ??
    (exhausted && (noneServed ?? exhausted))
  )
}

/** Describes the ending of a search that has tried all configurations. */
export function reportSpaceExhausted({ trials }: Pick<SearchState, 'trials'>): Ending {
  const triedCount = new Set(
    trials.flatMap((trial) =>
      trial.state === 'failed' ? [] : configurationKey(trial.configuration),
    ),
  ).size
  const detail =
    triedCount === 1 ? 'the one configuration tried' : `all ${triedCount} configurations tried`
  return findNoneServed({ trials }) ?? { reason: 'space-exhausted', detail }
}

/** Adds to an ending the number of configurations that fitted on no node. */
export function addUnplacedCount(ending: Ending, trials: readonly FinishedTrial[]): Ending {
  const unplaced = trials.filter(isUnplaced).length
  if (unplaced === 0) return ending
  const note =
    unplaced === 1
      ? 'one configuration that fitted on no node is not measured: tune resume tries it again'
      : `${unplaced} configurations that fitted on no node are not measured: tune resume tries them again`
  return { ...ending, detail: `${ending.detail}; ${note}` }
}

const createFailure = (detail: string): Ending => ({ reason: 'failed', detail })

function findFailure({ trials, trialsOfRun }: SearchState): Ending | undefined {
  const final = trialsOfRun.find(
    (trial) => trial.state === 'failed' && trial.final === 'experiment',
  )
  if (final !== undefined)
    return createFailure(`every other trial would fail like trial ${final.number}`)
  if (trialsOfRun.length >= maxDisturbedAtStart && trialsOfRun.every(wasDisturbed))
    return createFailure(
      `the machine was too busy in each of ${trialsOfRun.length} trials; run tune resume once the machine is free of other work`,
    )
  if (trialsOfRun.length < maxFailuresInRow) return undefined
  // An unplaced trial says nothing about the other configurations.
  const last = trialsOfRun.filter((trial) => !isUnplaced(trial)).slice(-maxFailuresInRow)
  if (last.length === maxFailuresInRow && last.every((trial) => trial.state === 'failed'))
    return createFailure(
      `${maxFailuresInRow} trials failed in a row; the last: ${describeFailure(last.at(-1)!)}`,
    )
  return findNoneServed({ trials })
}

/**
 * Finds that no predictor started, or that all of them died. No configuration can be called the
 * best, so the experiment fails instead of ending.
 */
function findNoneServed({ trials }: Pick<SearchState, 'trials'>): Ending | undefined {
  const last = trials.at(-1)
  if (last === undefined || !trials.every(isBroken)) return undefined
  const subject =
    trials.length === 1 ? 'the only predictor never' : `none of ${trials.length} predictors ever`
  const verb = trials.some((trial) => trial.served) ? 'completed its trial' : 'served'
  return createFailure(
    `${subject} ${verb}; ${trials.length === 1 ? 'it' : 'the last'}: ${describeFailure(last)}`,
  )
}

const brokenReasons: readonly InfeasibleReason[] = ['crashed', 'never-ready', 'requests-fail']

/**
 * The predictor did not start or did not last: a sign of a wrong command rather than of an
 * unsuitable configuration.
 */
const isBroken = (trial: FinishedTrial): boolean =>
  trial.state === 'failed' || (trial.state === 'infeasible' && brokenReasons.includes(trial.reason))

const describeFailure = (trial: FinishedTrial): string =>
  trial.state === 'failed' ? trial.error : trial.state === 'infeasible' ? trial.detail : ''

function findCertainty({ assessment }: SearchState): Ending | undefined {
  if (!assessment?.stop) return undefined
  return { reason: 'certain', detail: describeCertainty(assessment) }
}

/** Finds that further trials are expected to gain too little, before the stop rule is certain. */
function findNotWorthwhile({ assessment, requiredGain }: SearchState): Ending | undefined {
  if (assessment === undefined || requiredGain === undefined) return undefined
  const explanation = explainNotWorthwhile(assessment.outlook, requiredGain)
  return explanation === undefined
    ? undefined
    : { reason: 'not-worthwhile', detail: `${explanation}; ${describeCertainty(assessment)}` }
}

function describeCertainty({ probabilityBetterExists, tolerance }: StopAssessment): string {
  const certainty = computeCertaintyPercent(1 - probabilityBetterExists)
  return `${certainty} % likely that no untried configuration is over ${percent(tolerance)} better (model estimate)`
}

/** Trials before an SLO is called unattainable. Assumed. */
const minTrialsToGiveUp = 4
/**
 * Below this predicted probability no untried configuration is expected to meet the SLO. Assumed.
 */
const minFeasibleProbability = 0.01

/**
 * Finds that every configuration violates the SLO with one request at a time. So will the others:
 * the last one was suggested as the likeliest to meet it.
 */
function findUnattainableSlo({ trials }: SearchState): Ending | undefined {
  const measured = trials.flatMap((trial) =>
    trial.state === 'complete' && !wasDisturbed(trial) ? [trial] : [],
  )
  const violating = measured.flatMap((trial) => {
    const { unloaded, slo, capacityRps } = trial.measurement
    const unloadedMs = interpolatePercentile(unloaded, slo.percentile)
    return !(capacityRps > 0) && unloadedMs > slo.limitMs ? [{ trial, unloadedMs, slo }] : []
  })
  const last = violating.at(-1)
  if (
    last === undefined ||
    violating.length < minTrialsToGiveUp ||
    violating.length < measured.length ||
    !((last.trial.predicted?.feasible ?? 1) < minFeasibleProbability)
  )
    return undefined
  const fastest = violating.reduce((a, b) => (b.unloadedMs < a.unloadedMs ? b : a))
  return {
    reason: 'slo-unattainable',
    detail: `${sloText(fastest.slo)} is below the unloaded latency: the lowest of ${violating.length} configurations is ${latency(fastest.unloadedMs)} (trial ${fastest.trial.number}), and no other is expected to be lower`,
  }
}

/** Finds that other work on the machine continues. Undisturbed measurements remain valid. */
function findBusyMachine(
  { trials, trialsOfRun }: SearchState,
  { maxTrials }: BudgetSpec,
): Ending | undefined {
  const disturbed = trialsOfRun.filter(
    (trial) => isSearchTrial(trial) && wasDisturbed(trial),
  ).length
  if (disturbed < Math.max(minDisturbedToStop, maxTrials)) return undefined
  const cause = `other work on this machine disturbed ${disturbed} attempts at a trial, which are inconclusive`
  return trials.every((trial) => trial.state === 'failed' || wasDisturbed(trial))
    ? createFailure(`${cause}; run tune resume once the machine is free of other work`)
    : {
        reason: 'machine-busy',
        detail: `${cause}; run tune resume --max-trials ${maxTrials} once the machine is free of other work`,
      }
}

/**
 * Finds a budget that is spent. Time and money come before the number of trials: once they are
 * spent, nothing may start, not even the baseline for which one trial is reserved.
 */
function findExhaustedBudget(
  { countedTrials, elapsedS, spentUsd }: SearchState,
  { maxTrials, timeLimitS, maxCost }: BudgetSpec,
): Ending | undefined {
  if (timeLimitS !== undefined && elapsedS >= timeLimitS)
    return { reason: 'time-limit', detail: `${Math.round(elapsedS)} s of ${timeLimitS} s` }
  if (maxCost !== undefined && spentUsd >= maxCost)
    return { reason: 'budget', detail: `$${spentUsd.toFixed(4)} of $${maxCost} spent on trials` }
  if (countedTrials >= maxTrials) return { reason: 'max-trials', detail: `${countedTrials} trials` }
  return undefined
}
