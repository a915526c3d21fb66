/**
 * How long a run takes, before it is started: from what the same server's trials took, where the
 * store has some.
 */
import { isDeepStrictEqual } from 'node:util'
import type { ExperimentRecord, FinishedTrial } from '../../../trials/types.ts'
import { metricsWindowS } from '../../backends/server-metrics.ts'
import type { Experiment } from '../../config/types.ts'
import { maxConfirmationRounds } from '../../loop/confirmation.ts'
import { counted, duration } from '../../render/columns.ts'

interface ExpectedTime {
  /** Where every trial is run. */
  readonly aboutSeconds: number
  readonly atMostSeconds: number
  readonly parts: Readonly<Record<'start' | 'trial' | 'confirmation', Span>>
  /** What it is reckoned from, and what is not in it. */
  readonly said: string
}

/** Seconds. */
interface Span {
  readonly about: number
  readonly atMost: number
}

const nothing: Span = { about: 0, atMost: 0 }
/**
 * Of a trial beside its open load: the closed loops that warm a server up and look for its
 * saturation, idle latency, stop; as the built-in predictor's took.
 */
const loops: Span = { about: 4.5, atMost: 9 }
/**
 * Until a server answers: the built-in predictor's, and what is taken for others until they have
 * been started once.
 */
const assumedStart: Span = { about: 2, atMost: 4 }
/** A trial in virtual time, with the suggestion of the next. */
const simulatedTrial: Span = { about: 0.6, atMost: 2.5 }
/**
 * Of `confirmTime`: what all confirmations of a run take on the mean (`npm run bench:main-job`),
 * and one whose rates keep missing, or could still be proven.
 */
const usualShare = 1
const mostShare = 3
/**
 * Of a confirmation before its first window: warm-up and idle latency, and rounds of warm-up at its
 * rate (profiler/capacity/confirmation/confirm.ts).
 */
const confirmLoops: Span = { about: 2, atMost: 3 }
const warmUpShare: Span = { about: 1 / 30, atMost: 1 / 3 }

const times = (factor: number, { about, atMost }: Span): Span => ({
  about: factor * about,
  atMost: factor * atMost,
})
const plus = (...spans: readonly Span[]): Span => ({
  about: spans.reduce((sum, { about }) => sum + about, 0),
  atMost: spans.reduce((sum, { atMost }) => sum + atMost, 0),
})

/**
 * What a stored experiment tells of this one, the most first: confirmations of the same length too,
 * trials of the same length, the start of the same server.
 */
export const tellings = ['confirmations', 'trials', 'start'] as const

/** Trials of one experiment with the same server; none: it was never started. */
interface Earlier {
  readonly trials: readonly FinishedTrial[]
  readonly tells: (typeof tellings)[number]
}
export const neverStarted: Earlier = { trials: [], tells: 'start' }

/** @param spaceSize configurations */
export function expectedTime(
  experiment: Experiment,
  spaceSize: number,
  earlier: Earlier,
): ExpectedTime {
  const { budget, parallel, backend, confirm } = experiment
  const trials = Math.min(budget.maxTrials, spaceSize)
  const simulated = backend === 'simulated'
  const secondsOf = (confirmations: boolean): readonly number[] =>
    earlier.trials
      .filter(
        ({ state, purpose }) =>
          state === 'complete' && (purpose === 'confirmation') === confirmations,
      )
      .map(({ seconds }) => seconds)
  const known = earlier.tells === 'start' ? [] : secondsOf(false)
  const confirmed =
    earlier.tells === 'confirmations' ? secondsOf(true).reduce((sum, each) => sum + each, 0) : 0
  const start = simulated ? nothing : startOf(experiment, earlier.trials)
  const trial = simulated
    ? simulatedTrial
    : known.length > 0
      ? spanOf(known)
      : plus(start, ownTime(experiment))
  const one = simulated ? simulatedTrial : plus(start, confirmationTime(experiment))
  const confirmation: Span = {
    about: simulated || confirmed === 0 ? one.about : confirmed,
    atMost: Math.max(confirmed, maxConfirmationRounds * one.atMost),
  }
  // A limit ends the search, not the trials that are under way, and what they found is confirmed
  // all the same.
  const limit = budget.timeLimitS ?? Number.POSITIVE_INFINITY
  const search = (which: keyof Span) =>
    Math.min(Math.ceil(trials / parallel) * trial[which], limit + trial[which])
  const total = (which: keyof Span) => search(which) + (confirm ? confirmation[which] : 0)
  return {
    aboutSeconds: total('about'),
    atMostSeconds: total('atMost'),
    parts: { start, trial, confirmation: confirm ? confirmation : nothing },
    said: simulated
      ? 'time is simulated, only the search takes time'
      : reckonedFrom(experiment, trials, { start, trial, known }),
  }
}

function reckonedFrom(
  experiment: Experiment,
  trials: number,
  { start, trial, known }: { start: Span; trial: Span; known: readonly number[] },
): string {
  const each = `${duration(trial.about)} each`
  if (known.length > 0) return `as its last ${counted(known.length, 'trial')} took, ${each}`
  if (start === nothing) return `trials of ${each}; the server is already running`
  if (start !== assumedStart)
    return `trials of ${each}, including ${duration(start.about)} to start the server, as last time`
  const { predictor, load, confirm } = experiment
  const unknown = [
    ...(predictor.kind === 'command' && predictor.prepare ? ['its prepare step'] : []),
    ...(load.warmUp ? ['its warm-up requests'] : []),
  ]
  const more = unknown.length > 0 ? `, and so does the time of ${unknown.join(' and ')}` : ''
  return `if the server starts in ${duration(start.about)}; every further second counts for each of up to ${trials + (confirm ? maxConfirmationRounds : 0)} starts${more}`
}

/** A server that runs is started by nobody; that of earlier trials tells itself. */
function startOf({ predictor }: Experiment, earlier: readonly FinishedTrial[]): Span {
  if (predictor.kind === 'url') return nothing
  const seconds = earlier.flatMap((trial) =>
    trial.state === 'complete' ? (trial.usage?.launchSeconds ?? []) : [],
  )
  return seconds.length > 0 ? spanOf(seconds) : assumedStart
}

/** Of a trial, once its server answers. */
function ownTime({ load: { trialSeconds }, metrics }: Experiment): Span {
  return plus({ about: trialSeconds, atMost: 2 * trialSeconds }, loops, readingTime(metrics))
}

function confirmationTime({ load: { confirmSeconds }, metrics }: Experiment): Span {
  const atRates = { about: usualShare * confirmSeconds, atMost: mostShare * confirmSeconds }
  return plus(atRates, confirmLoops, times(confirmSeconds, warmUpShare), readingTime(metrics))
}

const readingTime = ({ length }: Experiment['metrics']): Span =>
  length === 0 ? nothing : { about: metricsWindowS, atMost: metricsWindowS + 1 }

const spanOf = (seconds: readonly number[]): Span => ({
  about: seconds.reduce((sum, each) => sum + each, 0) / seconds.length,
  atMost: Math.max(...seconds),
})

/** Undefined: another server, or one that is started otherwise. */
export function toldBy(
  { spec }: Pick<ExperimentRecord, 'spec'>,
  experiment: Experiment,
): Earlier['tells'] | undefined {
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
