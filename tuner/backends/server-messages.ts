/**
 * Adds the server's own error messages to a measurement. Load generators count only statuses; the
 * reason is in the body.
 */

import type { Measurement } from '../../profiler/model/measurement.ts'
import type { Target } from '../../profiler/model/target.ts'
import { ProtocolError } from '../../profiler/profiler-errors.ts'
import { fetchAnswer } from '../../profiler/protocols/http.ts'

/** Sent concurrently: some servers reject only requests that they batch. */
const maxConcurrentRequests = 8
const timeoutMs = 5000

/** Whether a window had more error answers than the SLO allows. */
const hasRefusals = ({ points, slo }: Measurement): boolean =>
  points.some(({ errors, requests, errorKinds }) => {
    const refused = Object.entries(errorKinds)
      .filter(([kind]) => /^(status [45]\d\d|error in stream)$/.test(kind))
      .reduce((sum, [, count]) => sum + count, 0)
    return refused > slo.maxErrorRate * Math.max(requests, errors)
  })

/**
 * Repeats a few requests if a window had error answers, and adds the server's message to detail and
 * caveats. Does nothing for gRPC.
 */
export async function addServerMessages(
  measurement: Measurement,
  target: Target,
  signal: AbortSignal,
): Promise<Measurement> {
  if (target.kind !== 'http' || target.transport === 'grpc' || !hasRefusals(measurement))
    return measurement
  const answers = await Promise.allSettled(
    target.bodies.slice(0, maxConcurrentRequests).map(async (body) => {
      const answer = await fetchAnswer('server', { ...target, timeoutMs }, body, signal)
      const fault = target.transport === 'sse' && target.findFault?.(body, Buffer.from(answer))
      if (fault)
        throw new ProtocolError('server', `${target.url}${target.path} answered 200: ${fault}`)
    }),
  )
  signal.throwIfAborted()
  const words = answers
    .flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as unknown] : []))
    .find((error) => error instanceof ProtocolError && / answered [245]\d\d: /.test(error.message))
  if (!(words instanceof ProtocolError)) return measurement
  const { detail, caveats } = measurement
  return {
    ...measurement,
    ...(detail !== undefined && { detail: `${detail}; ${words.message}` }),
    caveats: [...caveats, `the server reported: ${words.message}`],
  }
}
