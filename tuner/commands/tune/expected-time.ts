/** How long a run takes, before it is started: from what the same server's trials took, where the store has some. */
import { isDeepStrictEqual } from 'node:util'
import type { ExperimentRecord, FinishedTrial } from '../../../trials/types.ts'
import type { Experiment } from '../../experiment/types.ts'
import { counted, duration } from '../../render/columns.ts'

interface ExpectedTime {
  readonly aboutSeconds: number
  readonly atMostSeconds: number
  /** What it is reckoned from, and what is not in it. */
  readonly said: string
}

interface Span {
  readonly about: number
  readonly atMost: number
}

/** Of a trial beside its open load: the closed loops that warm a server up and look for its saturation, idle latency, stop; seconds, as the built-in predictor's took. */
const loops: Span = { about: 4.5, atMost: 9 }
/** Until a server answers: the built-in predictor's, and what is taken for others until they have been started once. */
const start: Span = { about: 2, atMost: 4 }
/** A trial in virtual time, with the suggestion of the next. */
const simulatedTrial: Span = { about: 0.6, atMost: 2.5 }
/** Its share of `confirmTime` that a confirmation usually takes, and the candidates that are confirmed at most (tuner/loop/confirmation.ts). */
const usualShare = 0.5
const mostHeats = 4

/** @param spaceSize configurations @param earlier trials of the same server, newest experiment first; none: it was never started */
export function expectedTime(experiment: Experiment, spaceSize: number, earlier: readonly FinishedTrial[]): ExpectedTime {
  const { budget, parallel, backend } = experiment
  const trials = Math.min(budget.maxTrials, spaceSize)
  const known = earlier.filter(({ state }) => state === 'complete').map(({ seconds }) => seconds)
  const trial = backend === 'simulated' ? simulatedTrial : known.length > 0 ? spanOf(known) : assumedTrial(experiment)
  const confirmation = backend === 'simulated' ? simulatedTrial : confirmationOf(experiment, trial)
  const total = (which: keyof Span) => (trials / parallel) * trial[which] + (experiment.confirm ? confirmation[which] : 0)
  const limit = budget.timeLimitS ?? Number.POSITIVE_INFINITY
  const starts = trials + (experiment.confirm ? 1 : 0)
  const said =
    backend === 'simulated'
      ? 'time is simulated, only the search takes any'
      : known.length > 0
        ? `as its last ${counted(known.length, 'trial')} took, ${duration(trial.about)} each`
        : `if it starts in ${duration(start.about)}: every further second is one for each of up to ${starts} starts`
  return { aboutSeconds: Math.min(limit, total('about')), atMostSeconds: Math.min(limit, total('atMost')), said }
}

const assumedTrial = ({ load: { trialSeconds } }: Experiment): Span => ({
  about: trialSeconds + loops.about + start.about,
  atMost: 2 * trialSeconds + loops.atMost + start.atMost,
})

/** Its server is started once more. */
const confirmationOf = ({ load: { trialSeconds, confirmSeconds } }: Experiment, trial: Span): Span => ({
  about: usualShare * confirmSeconds + Math.max(0, trial.about - trialSeconds),
  atMost: mostHeats * (confirmSeconds + Math.max(0, trial.atMost - trialSeconds)),
})

const spanOf = (seconds: readonly number[]): Span => ({
  about: seconds.reduce((sum, each) => sum + each, 0) / seconds.length,
  atMost: Math.max(...seconds),
})

/** Whether a stored experiment started the same server in the same way, so that its trials tell of this one's. */
export function sameServer({ spec }: ExperimentRecord, experiment: Experiment): boolean {
  const part = (document: unknown) => {
    const { predictor, model, backend, load } = (document ?? {}) as Record<string, Record<string, unknown> | undefined>
    return JSON.parse(JSON.stringify({ predictor, model, backend, trialTime: load?.trialTime }))
  }
  return isDeepStrictEqual(part(spec), part(experiment.document))
}
