/** Turns the end of a predictor before it served into the errors that the loop understands. */

import type { NeverReadyError } from '../../profiler/protocols/until-serving.ts'
import { type Finality, InfeasibleError, type InfeasibleReason, LaunchError } from '../types.ts'
import { type Cause, reportsTakenPort } from './diagnosis.ts'
import type { PredictorLog } from './predictor-log.ts'
import { getFinality } from './readiness.ts'

/** Another server has the port: the launcher tries the next one. */
export class PortTakenError extends Error {}

/** The end of a log, and where all of it is. */
export interface LogEnd {
  readonly path: string
  tail(lines?: number): string
}

/** Causes that are results about the configuration. */
const infeasibleReasons: Readonly<Partial<Record<Cause['kind'], InfeasibleReason>>> = {
  'out-of-memory': 'out-of-memory',
  'no-gpu': 'no-such-gpu',
  crashed: 'crashed',
}
/** Hints for the other causes, whose trials are retried. */
export type CauseHints = Readonly<
  Record<Exclude<Cause['kind'], 'out-of-memory' | 'no-gpu' | 'crashed'>, string>
>

const localHints: CauseHints = {
  'port-taken': 'another server uses its port',
  missing: 'install the dependencies of the predictor in the environment that starts it',
  misconfigured: 'correct the predictor section of the experiment',
  killed: 'another program on this machine kills processes',
}

/**
 * Creates the error for a predictor that ended before it served.
 * @param what description of the end
 * @param cleanExit exit code 0, which a server should not return
 * @param missedStep the step that it did not reach
 * @param finality for causes that a retry does not resolve; absent: retry
 */
export const createExitError = (
  cause: Cause,
  what: string,
  cleanExit: boolean,
  log: LogEnd,
  hintByCause: CauseHints,
  missedStep = 'it was ready',
  finality?: Finality,
): Error => {
  const message = `${what} before ${missedStep}${readLastLines(log)}`
  const reason = infeasibleReasons[cause.kind]
  if (reason === undefined)
    return new LaunchError(
      message,
      hintByCause[cause.kind as keyof CauseHints],
      log.path,
      permanentCauses.has(cause.kind) ? finality : undefined,
    )
  return new InfeasibleError(
    reason,
    `${message}${cause.kind === 'crashed' && cleanExit ? ' (a predictor must stay in the foreground)' : ''}`,
    log.path,
  )
}

/** Causes that a retry does not resolve. */
const permanentCauses: ReadonlySet<Cause['kind']> = new Set(['missing', 'misconfigured'])

/**
 * Creates the error for a predictor that this machine started and that exited before it was ready.
 * @param finality for causes that another try does not resolve
 * @param install how to install the server, where that is known
 */
export const createLocalExitError = (
  cause: Cause,
  exitDescription: string,
  log: PredictorLog,
  finality: Finality,
  install = localHints.missing,
): Error => {
  const hintByCause = { ...localHints, missing: install }
  const error = createExitError(
    cause,
    describeCause(cause, exitDescription),
    exitDescription === 'exit code 0',
    log,
    hintByCause,
    undefined,
    finality,
  )
  return cause.kind === 'port-taken' ? new PortTakenError(error.message) : error
}

export const createNeverReadyError = (
  cause: Cause,
  error: NeverReadyError,
  log: PredictorLog,
): Error => {
  if (cause.kind === 'out-of-memory')
    return new InfeasibleError(
      'out-of-memory',
      `${error.message}; out of memory: ${cause.evidence}${readLastLines(log)}`,
      log.path,
    )
  if (reportsTakenPort(log.tail(200)))
    return new LaunchError(
      `${error.message}; its port is in use${readLastLines(log)}`,
      portHint,
      log.path,
    )
  return createReadyTimeoutError(error, log)
}

export const createReadyTimeoutError = (error: NeverReadyError, log: LogEnd): InfeasibleError =>
  new InfeasibleError(
    'never-ready',
    `${error.message}; raise readyTimeout if it only needs more time${readLastLines(log)}`,
    log.path,
  )

/** @param error a ProtocolError, or another error with its fields `why` and `hint` */
export const createBadAnswerError = (error: Error, log: LogEnd): InfeasibleError | LaunchError => {
  if ('why' in error && error.why === 'answers-differ')
    return new InfeasibleError('answers-differ', error.message, log.path)
  const message = `the predictor responds, but not as expected: ${error.message}${readLastLines(log)}`
  return new LaunchError(message, getAnswerHint(error), log.path, getFinality(error))
}

/** @param error one with a field `hint`, such as a ProtocolError */
export const getAnswerHint = (error: Error): string =>
  'hint' in error && typeof error.hint === 'string'
    ? error.hint
    : 'check that the payload fits the model and the protocol fits the server'

export const portHint = 'does its command listen on ${port}?'

/** The end in words, e.g. 'out of memory (CUDA out of memory. ...)'. */
export const describeCause = (cause: Cause, exitDescription: string): string => {
  switch (cause.kind) {
    case 'out-of-memory':
      return `out of memory (${cause.evidence})`
    case 'crashed':
      return `the predictor ended: ${exitDescription}`
    default:
      return `the predictor ended: ${exitDescription} (${cause.evidence})`
  }
}

/** Lines of stack traces: of glibc, gdb, V8, JavaScript and Java, and what Node adds below. */
const frames = [
  /^\S*(\([^)]*\))?\s*\[0x[0-9a-f]+\]$/i,
  /^#\d+\s+0x[0-9a-f]+/i,
  /^\d+: 0x[0-9a-f]+/i,
  /^(at |\[New LWP|\[Thread debugging|Using host libthread_db|-{3,} Native stack trace|Node\.js v\d)/,
]
const isFrame = (line: string): boolean => frames.some((pattern) => pattern.test(line))

/** Reads the last lines of the log without stack traces, unless it has nothing else. */
export const readLastLines = (log: LogEnd): string => {
  const lines = log
    .tail(60)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  const outputLines = lines.filter((line) => !isFrame(line))
  const last = (outputLines.length > 0 ? outputLines : lines).slice(-3)
  return last.length === 0 ? '; it printed nothing' : `; last lines: ${last.join(' | ')}`
}
