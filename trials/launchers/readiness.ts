/** Classifies protocol errors by finality, and waits with a deadline. */
import { formatSeconds, NeverReadyError } from '../../profiler/protocols/until-serving.ts'
import type { Finality } from '../types.ts'

/** Reasons that apply to every configuration: the experiment sends wrong requests. */
const wrongRequests: readonly unknown[] = ['other-protocol', 'other-port', 'denied', 'unknown-call']

/**
 * How final a ProtocolError with a reason is: wrong requests fail with every configuration, any
 * other refusal with its own. Undefined: another try may succeed.
 */
export const getFinality = (error: Error): Finality | undefined => {
  if (error.name === 'PayloadError') return 'experiment'
  if (!('why' in error) || error.why === undefined || error.why === 'not-ready') return undefined
  return wrongRequests.includes(error.why) ? 'experiment' : 'configuration'
}

/** Awaits a value with a deadline. Rejects like `untilServing`. */
export const awaitWithDeadline = async <T>(
  value: T | Promise<T>,
  timeoutMs: number,
  until: AbortSignal,
): Promise<T> => {
  const deadline = AbortSignal.timeout(Math.max(1, Math.ceil(timeoutMs)))
  const either = AbortSignal.any([until, deadline])
  let giveUp = () => {}
  const aborted = new Promise<never>((_, reject) => {
    giveUp = () => reject(either.reason)
    if (either.aborted) giveUp()
    either.addEventListener('abort', giveUp, { once: true })
  })
  try {
    return await Promise.race([value, aborted])
  } catch (error) {
    until.throwIfAborted()
    if (!deadline.aborted) throw error
    throw new NeverReadyError(
      `the predictor did not report its port within ${formatSeconds(timeoutMs)}`,
    )
  } finally {
    either.removeEventListener('abort', giveUp)
  }
}
