/**
 * Classifies a trial that ended without a measurement: 'infeasible' (an observation for the search)
 * or 'failed' (may be retried).
 */
import { describeErrors } from '../../profiler/capacity/session.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { stripControls } from '../../profiler/plain-text.ts'
import { getFinality } from '../../trials/launchers/readiness.ts'
import { redactSecrets } from '../../trials/secrets.ts'
import {
  type FinishedTrial,
  InfeasibleError,
  type InfeasibleReason,
  LaunchError,
  type Predictor,
  type PredictorDeath,
} from '../../trials/types.ts'

/** Predictor of a trial, set once it is ready, and its death if it exited on its own. */
export interface PredictorState {
  predictor?: Predictor
  death?: PredictorDeath
}

type Outcome<T> = T extends FinishedTrial
  ? Omit<T, 'number' | 'configuration' | 'why' | 'purpose' | 'predicted' | 'startedAt'>
  : never
type FailureOutcome = Outcome<Exclude<FinishedTrial, { state: 'complete' }>>

/**
 * After this many attempts, a predictor that dies or answers no request makes the configuration
 * infeasible. Assumed.
 */
const minAttemptsToInfeasible = 2

/** The predictor answered before the load, but no request under load. */
export class RequestsFailedError extends Error {
  constructor({ points, detail }: Measurement) {
    const errorKinds: Record<string, number> = {}
    for (const point of points)
      for (const [kind, count] of Object.entries(point.errorKinds))
        errorKinds[kind] = (errorKinds[kind] ?? 0) + count
    const sum = (count: 'errors' | 'requests') =>
      points.reduce((total, point) => total + point[count], 0)
    const counts = { errors: sum('errors'), requests: sum('requests'), errorKinds }
    super(
      `its requests fail under load: ${describeErrors(counts)}${detail === undefined ? '' : `; ${detail}`}`,
    )
  }
}

/**
 * Classifies a failed trial.
 * @param seconds duration of the trial so far
 */
export function classifyFailure(
  error: unknown,
  { predictor, death }: PredictorState,
  attempt: number,
  seconds: number,
): FailureOutcome {
  const served = predictor === undefined ? {} : { served: true as const }
  const createInfeasible = (
    reason: InfeasibleReason,
    detail: string,
    logPath: string | undefined,
  ): FailureOutcome => ({
    state: 'infeasible',
    reason,
    detail: makePrintable(detail),
    seconds,
    logPath,
    ...served,
  })
  if (error instanceof InfeasibleError)
    return createInfeasible(error.reason, error.message, error.logPath)
  if (death?.outOfMemory)
    return createInfeasible('out-of-memory', `under load: ${death.what}`, predictor?.logPath)
  // An external death, for example of a drained node, says nothing about the configuration.
  if (death && !death.external && attempt >= minAttemptsToInfeasible)
    return createInfeasible(
      'crashed',
      `died under load ${attempt} times: ${death.what}`,
      predictor?.logPath,
    )
  if (error instanceof RequestsFailedError && attempt >= minAttemptsToInfeasible) {
    const log = quoteLastLogLines(predictor)
    return createInfeasible(
      'requests-fail',
      `in ${attempt} trials: ${error.message}${log}`,
      predictor?.logPath,
    )
  }
  const isUnplaced = error instanceof LaunchError && error.unplaced
  return {
    state: 'failed',
    error: describeFailure(error, predictor),
    ...resolveFinality(error),
    // Its pod was never placed on a node: the time was spent waiting for one.
    ...(isUnplaced && { usage: { nodeWaitSeconds: seconds } }),
    ...served,
    logPath: predictor?.logPath,
    seconds,
  }
}

/**
 * Redacts secrets and strips control characters: the text of a server may contain both.
 */
const makePrintable = (text: string): string => stripControls(redactSecrets(text))

export const makeMeasurementPrintable = (measurement: Measurement): Measurement => ({
  ...measurement,
  ...(measurement.detail !== undefined && { detail: makePrintable(measurement.detail) }),
  caveats: measurement.caveats.map(makePrintable),
})

/** Resolves whether a retry would fail, too, as errors of launchers and unusable payloads report. */
function resolveFinality(error: unknown): Pick<LaunchError, 'final'> {
  const final =
    error instanceof LaunchError
      ? error.final
      : error instanceof Error
        ? getFinality(error)
        : undefined
  return final === undefined ? {} : { final }
}

function describeFailure(error: unknown, predictor: Predictor | undefined): string {
  const message = error instanceof Error ? error.message : String(error)
  const hint =
    error instanceof Error && 'hint' in error && typeof error.hint === 'string'
      ? ` (${error.hint})`
      : ''
  return makePrintable(`${message}${hint}${quoteLastLogLines(predictor)}`)
}

/** Quotes the last three log lines as a suffix of a message; '' if the server printed nothing. */
function quoteLastLogLines(predictor: Predictor | undefined): string {
  const tail = predictor?.logTail().trim().split('\n').slice(-3).join(' | ')
  return tail ? `; last log lines: ${tail}` : ''
}
