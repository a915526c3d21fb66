/**
 * Adds the server's own error messages to a measurement. Load generators count only statuses; the
 * reason is in the body.
 */

import type { Measurement } from '../../profiler/model/measurement.ts'
import type { Target } from '../../profiler/model/target.ts'
import { ProtocolError } from '../../profiler/profiler-errors.ts'
import { fetchAnswer } from '../../profiler/protocols/http.ts'

/** Requests are sent concurrently, because some servers reject only requests that they batch. */
const maxConcurrentRequests = 8
const timeoutMs = 5000

/** Whether a window had more error responses than the SLO allows. */
const hasTooManyErrorResponses = ({ points, slo }: Measurement): boolean =>
  points.some(({ errors, requests, errorKinds }) => {
    const errorResponses = Object.entries(errorKinds)
      .filter(([kind]) => /^(status [45]\d\d|error in stream)$/.test(kind))
      .reduce((sum, [, count]) => sum + count, 0)
    return errorResponses > slo.maxErrorRate * Math.max(requests, errors)
  })

/**
 * Repeats a few requests if a window had more error responses than the SLO allows, and adds the
 * server's message to detail and caveats. Does nothing for gRPC.
 */
export async function addServerMessages(
  measurement: Measurement,
  target: Target,
  signal: AbortSignal,
): Promise<Measurement> {
  if (
    target.kind !== 'http' ||
    target.transport === 'grpc' ||
    !hasTooManyErrorResponses(measurement)
  )
    return measurement
  const answers = await Promise.allSettled(
    target.bodies.slice(0, maxConcurrentRequests).map(async (body) => {
      const answer = await fetchAnswer('server', { ...target, timeoutMs }, body, signal)
      // A streamed response can report an error after status 200.
      const fault = target.transport === 'sse' && target.findFault?.(body, Buffer.from(answer))
      if (fault)
        throw new ProtocolError('server', `${target.url}${target.path} answered 200: ${fault}`)
    }),
  )
  signal.throwIfAborted()
  // `fetchAnswer` puts the server's message after 'answered STATUS:'. Other failures have none.
  const serverError = answers
    .flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as unknown] : []))
    .find((error) => error instanceof ProtocolError && / answered [245]\d\d: /.test(error.message))
  if (!(serverError instanceof ProtocolError)) return measurement
  const { detail, caveats } = measurement
  return {
    ...measurement,
    ...(detail !== undefined && { detail: `${detail}; ${serverError.message}` }),
    caveats: [...caveats, `the server reported: ${serverError.message}`],
  }
}
