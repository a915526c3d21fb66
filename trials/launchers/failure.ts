/** A predictor's end before it served, as the errors that the loop understands. */
import { InfeasibleError, LaunchError } from '../types.ts'
import { type Cause, saysPortTaken } from './diagnosis.ts'
import type { PredictorLog } from './log.ts'
import type { NeverReadyError } from './readiness.ts'

/** The port was another server's: the next one is tried. */
export class PortTakenError extends Error {}

/** @param how the exit in words */
export const launchFailure = (cause: Cause, how: string, log: PredictorLog): Error => {
  const message = `${describeCause(cause, how)} before it was ready${lastLines(log)}`
  switch (cause.kind) {
    case 'out-of-memory':
      return new InfeasibleError('out-of-memory', message, log.path)
    case 'no-gpu':
      return new InfeasibleError('no-such-gpu', message, log.path)
    case 'port-taken':
      return new PortTakenError(message)
    case 'missing':
      return new LaunchError(message, 'install what the predictor needs in the environment that it is started in', log.path)
    case 'misconfigured':
      return new LaunchError(message, 'correct the predictor of the experiment', log.path)
    case 'killed':
      return new LaunchError(message, 'something else on this machine ends processes', log.path)
    case 'crashed':
      return new InfeasibleError(
        'crashed',
        `${message}${how === 'exit code 0' ? ' (a predictor must stay in the foreground)' : ''}`,
        log.path,
      )
  }
}

export const neverReady = (cause: Cause, error: NeverReadyError, log: PredictorLog): Error => {
  if (cause.kind === 'out-of-memory')
    return new InfeasibleError('out-of-memory', `${error.message}; out of memory: ${cause.evidence}${lastLines(log)}`, log.path)
  if (saysPortTaken(log.tail(200)))
    return new LaunchError(`${error.message}; it wanted a port that is taken${lastLines(log)}`, portHint, log.path)
  return new InfeasibleError('never-ready', `${error.message}; raise readyTimeoutS if it only needs longer${lastLines(log)}`, log.path)
}

export const portHint = 'does its command listen on ${port}?'

export const describeCause = (cause: Cause, how: string): string => {
  switch (cause.kind) {
    case 'out-of-memory':
      return `out of memory (${cause.evidence})`
    case 'crashed':
      return `the predictor ended: ${how}`
    default:
      return `the predictor ended: ${how} (${cause.evidence})`
  }
}

export const lastLines = (log: PredictorLog): string => {
  const lines = log.tail(3)
  return lines === '' ? '; it printed nothing' : `; last lines: ${lines.split('\n').join(' | ')}`
}
