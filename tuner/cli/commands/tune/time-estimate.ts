/**
 * Estimates the duration of a run before it starts, from stored trials of the same server if there
 * are any.
 */
import { isDeepStrictEqual } from 'node:util'
import type { ExperimentRecord, FinishedTrial } from '../../../../trials/types.ts'
import { metricsWindowS } from '../../../backends/server-metrics.ts'
import type { Experiment } from '../../../config/types.ts'
import { maxConfirmationRounds } from '../../../loop/confirmation.ts'
import { formatCount, formatDuration } from '../../render/columns.ts'

interface TimeEstimate {
  /** If all trials run. */
  readonly expectedSeconds: number
  readonly maxSeconds: number
  readonly parts: Readonly<Record<'start' | 'trial' | 'confirmation', DurationRange>>
  /** Basis of the estimate, and what it does not include. */
  readonly basis: string
}

/** Seconds. */
interface DurationRange {
  readonly about: number
  readonly atMost: number
}

const noTime: DurationRange = { about: 0, atMost: 0 }
/**
 * Time of a trial besides its open load: warm-up, saturation, unloaded latency and stop, measured
 * with the built-in predictor.
 */
const closedLoops: DurationRange = { about: 4.5, atMost: 9 }
/**
 * Start time of a server: that of the built-in predictor, assumed for others until they were
 * started once.
 */
const defaultStart: DurationRange = { about: 2, atMost: 4 }
/** A trial in virtual time, with the suggestion of the next. */
const simulatedTrial: DurationRange = { about: 0.6, atMost: 2.5 }
/**
 * Confirmation time as a share of `confirmTime`: all confirmations of a run on average (`npm run
 * bench:main-job`), and one that tries several rates.
 */
const meanConfirmationShare = 1
const maxConfirmationShare = 3
/**
 * Time before the first window of a confirmation: unloaded latency, and warm-up at its rate as a
 * share of `confirmTime` (profiler/capacity/confirmation/confirm.ts).
 */
const confirmationSetup: DurationRange = { about: 2, atMost: 3 }
const warmUpShare: DurationRange = { about: 1 / 30, atMost: 1 / 3 }

const scaleRange = (factor: number, { about, atMost }: DurationRange): DurationRange => ({
  about: factor * about,
  atMost: factor * atMost,
})
const addRanges = (...spans: readonly DurationRange[]): DurationRange => ({
  about: spans.reduce((sum, { about }) => sum + about, 0),
  atMost: spans.reduce((sum, { atMost }) => sum + atMost, 0),
})

/**
 * What a stored experiment is evidence for, most first: confirmations and trials of the same
 * length, only trials of the same length, or only the start of the same server.
 */
export const evidenceLevels = ['confirmations', 'trials', 'start'] as const

/** Trials of one stored experiment with the same server. */
interface EarlierTrials {
  readonly trials: readonly FinishedTrial[]
  readonly level: (typeof evidenceLevels)[number]
}
export const noEarlierTrials: EarlierTrials = { trials: [], level: 'start' }

/** @param spaceSize configurations */
export function estimateRunTime(
  experiment: Experiment,
  spaceSize: number,
  earlier: EarlierTrials,
): TimeEstimate {
  const { budget, parallel, backend, confirm } = experiment
  const trials = Math.min(budget.maxTrials, spaceSize)
  const simulated = backend === 'simulated'
  const listSeconds = (confirmations: boolean): readonly number[] =>
    earlier.trials
      .filter(
        ({ state, purpose }) =>
          state === 'complete' && (purpose === 'confirmation') === confirmations,
      )
      .map(({ seconds }) => seconds)
  const earlierSeconds = earlier.level === 'start' ? [] : listSeconds(false)
  const confirmed =
    earlier.level === 'confirmations' ? listSeconds(true).reduce((sum, each) => sum + each, 0) : 0
  const start = simulated ? noTime : estimateStart(experiment, earlier.trials)
  const trial = simulated
    ? simulatedTrial
    : earlierSeconds.length > 0
      ? toRange(earlierSeconds)
      : addRanges(start, estimateTrialTime(experiment))
  const one = simulated ? simulatedTrial : addRanges(start, estimateConfirmationTime(experiment))
  const confirmation: DurationRange = {
    about: simulated || confirmed === 0 ? one.about : confirmed,
    atMost: Math.max(confirmed, maxConfirmationRounds * one.atMost),
  }
  // The time limit ends the search, but neither running trials nor the confirmation.

  const limit = budget.timeLimitS ?? Number.POSITIVE_INFINITY
  const search = (which: keyof DurationRange) =>
    Math.min(Math.ceil(trials / parallel) * trial[which], limit + trial[which])
  const total = (which: keyof DurationRange) => search(which) + (confirm ? confirmation[which] : 0)
  return {
    expectedSeconds: total('about'),
    maxSeconds: total('atMost'),
    parts: { start, trial, confirmation: confirm ? confirmation : noTime },
    basis: simulated
      ? 'time is simulated, only the search takes time'
      : describeBasis(experiment, trials, { start, trial, known: earlierSeconds }),
  }
}

function describeBasis(
  experiment: Experiment,
  trials: number,
  { start, trial, known }: { start: DurationRange; trial: DurationRange; known: readonly number[] },
): string {
  const each = `${formatDuration(trial.about)} each`
  if (known.length > 0) return `as its last ${formatCount(known.length, 'trial')} took, ${each}`
  if (start === noTime) return `trials of ${each}; the server is already running`
  if (start !== defaultStart)
    return `trials of ${each}, including ${formatDuration(start.about)} to start the server, as last time`
  const { predictor, load, confirm } = experiment
  const unknown = [
    ...(predictor.kind === 'command' && predictor.prepare ? ['its prepare step'] : []),
    ...(load.warmUp ? ['its warm-up requests'] : []),
  ]
  const more = unknown.length > 0 ? `, and so does the time of ${unknown.join(' and ')}` : ''
  return `if the server starts in ${formatDuration(start.about)}; every further second counts for each of up to ${trials + (confirm ? maxConfirmationRounds : 0)} starts${more}`
}

/** Start time from earlier trials; a running server has none. */
function estimateStart(
  { predictor }: Experiment,
  earlier: readonly FinishedTrial[],
): DurationRange {
  if (predictor.kind === 'url') return noTime
  const seconds = earlier.flatMap((trial) =>
    trial.state === 'complete' ? (trial.usage?.launchSeconds ?? []) : [],
  )
  return seconds.length > 0 ? toRange(seconds) : defaultStart
}

/** Time of a trial once its server is ready. */
function estimateTrialTime({ load: { trialSeconds }, metrics }: Experiment): DurationRange {
  return addRanges(
    { about: trialSeconds, atMost: 2 * trialSeconds },
    closedLoops,
    estimateMetricsTime(metrics),
  )
}

function estimateConfirmationTime({
  load: { confirmSeconds },
  metrics,
}: Experiment): DurationRange {
  const atRates = {
    about: meanConfirmationShare * confirmSeconds,
    atMost: maxConfirmationShare * confirmSeconds,
  }
  return addRanges(
    atRates,
    confirmationSetup,
    scaleRange(confirmSeconds, warmUpShare),
    estimateMetricsTime(metrics),
  )
}

const estimateMetricsTime = ({ length }: Experiment['metrics']): DurationRange =>
  length === 0 ? noTime : { about: metricsWindowS, atMost: metricsWindowS + 1 }

const toRange = (seconds: readonly number[]): DurationRange => ({
  about: seconds.reduce((sum, each) => sum + each, 0) / seconds.length,
  atMost: Math.max(...seconds),
})

/**
 * Compares a stored experiment with this one: how far its durations apply; undefined if its server
 * differs.
 */
export function compareExperiments(
  { spec }: Pick<ExperimentRecord, 'spec'>,
  experiment: Experiment,
): EarlierTrials['level'] | undefined {
  type Document = Record<string, Record<string, unknown> | undefined>
  const [stored, now] = [spec, experiment.document].map(
    (document) => JSON.parse(JSON.stringify(document ?? {})) as Document,
  )
  const server = ({ predictor, model, backend, load }: Document) => [
    predictor,
    model,
    backend,
    load?.warmUp,
  ]
  const trial = ({ load, metrics }: Document) => [load?.trialTime, metrics !== undefined]
  if (!isDeepStrictEqual(server(stored!), server(now!))) return undefined
  if (!isDeepStrictEqual(trial(stored!), trial(now!))) return 'start'
  return stored!.load?.confirmTime === now!.load?.confirmTime ? 'confirmations' : 'trials'
}
