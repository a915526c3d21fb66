/**
 * Warms up a server before it is measured, because the first requests compile kernels, allocate
 * memory and fill caches, which is not part of its capacity.
 */

import type { HttpTarget } from '../model/target.ts'
import type { PayloadSource } from '../payload-source.ts'
import { ProtocolError } from '../profiler-errors.ts'
import type { AnswerClient, Protocol } from './protocol.ts'

export interface WarmUp {
  /** Number of requests; default: every request of `payload` once. */
  readonly requests?: number
  /** Concurrent requests, so that larger batches occur too; default 1. */
  readonly atOnce?: number
  /** Requests of the warm-up. Default: those that are measured. */
  readonly payload?: PayloadSource
}

/**
 * Wraps a protocol so that `prepare` also warms up the server. A bad answer is a ProtocolError,
 * which is final for the configuration.
 */
export function withWarmUp(
  protocol: Protocol,
  warmUp: WarmUp | undefined,
  firstAnswerMs: number,
): Protocol {
  const { answerClient } = protocol
  if (warmUp === undefined || answerClient === undefined) return protocol
  return {
    ...protocol,
    async prepare(url, model, payload, signal) {
      const target = await protocol.prepare(url, model, payload, signal)
      const warmUpTarget =
        warmUp.payload === undefined
          ? target
          : await protocol.prepare(url, model, warmUp.payload, signal)
      // The first answers may load the model.
      const patientTarget = {
        ...warmUpTarget,
        timeoutMs: Math.max(warmUpTarget.timeoutMs, firstAnswerMs),
      }
      await sendAll(
        protocol.name,
        answerClient,
        patientTarget,
        { requests: warmUpTarget.bodies.length, ...warmUp },
        signal,
      )
      return target
    },
  }
}

async function sendAll(
  name: string,
  client: AnswerClient,
  target: HttpTarget,
  { requests, atOnce = 1 }: WarmUp & { readonly requests: number },
  signal: AbortSignal,
): Promise<void> {
  let next = 0
  const sendRemaining = async (): Promise<void> => {
    while (next < requests) {
      const nth = next++
      try {
        await client.parse(await client.fetch(target, nth % target.bodies.length, signal))
      } catch (error) {
        signal.throwIfAborted()
        next = requests
        const { message, hint } = error as Error & { hint?: string }
        throw new ProtocolError(
          name,
          `warm-up request ${nth + 1} of ${requests}: ${message}`,
          hint,
          'refused', // Whatever the cause: it is final for this configuration (getFinality).
        )
      }
    }
  }
  const results = await Promise.allSettled(
    Array.from({ length: Math.min(atOnce, requests) }, sendRemaining),
  )
  signal.throwIfAborted()
  for (const result of results) if (result.status === 'rejected') throw result.reason
}
