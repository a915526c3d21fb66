/**
 * Requests that a server gets before it is measured: what compiles, allocates or fills a cache with
 * its first ones is no part of what it serves at.
 */
import type { PayloadSource } from '../payload-source.ts'
import { ProtocolError } from '../profiler-errors.ts'
import type { Target } from '../model/target.ts'
import type { AnswerReading, Protocol } from './protocol.ts'

export interface WarmUp {
  /** How many; default: every request of `payload` once. */
  readonly requests?: number
  /** Sent together, so that larger batches are met too; default 1. */
  readonly atOnce?: number
  /** In place of the requests that are measured. */
  readonly payload?: PayloadSource
}

type HttpTarget = Extract<Target, { kind: 'http' }>

/**
 * The protocol, whose servers are warm once they are prepared. What is answered badly is a
 * ProtocolError with the answer, and final for the configuration.
 */
export function withWarmUp(
  protocol: Protocol,
  warmUp: WarmUp | undefined,
  firstAnswerMs: number,
): Protocol {
  const { answers } = protocol
  if (warmUp === undefined || answers === undefined) return protocol
  return {
    ...protocol,
    async prepare(url, model, payload, signal) {
      const target = await protocol.prepare(url, model, payload, signal)
      const own =
        warmUp.payload === undefined
          ? target
          : await protocol.prepare(url, model, warmUp.payload, signal)
      const patient = { ...own, timeoutMs: Math.max(own.timeoutMs, firstAnswerMs) }
      await sendAll(
        protocol.name,
        answers,
        patient,
        { requests: own.bodies.length, ...warmUp },
        signal,
      )
      return target
    },
  }
}

async function sendAll(
  name: string,
  { ask, read }: AnswerReading,
  target: HttpTarget,
  { requests, atOnce = 1 }: WarmUp & { readonly requests: number },
  signal: AbortSignal,
): Promise<void> {
  let next = 0
  const sendOn = async (): Promise<void> => {
    while (next < requests) {
      const nth = next++
      try {
        await read(await ask(target, nth % target.bodies.length, signal))
      } catch (error) {
        signal.throwIfAborted()
        next = requests
        const { message, hint } = error as Error & { hint?: string }
        throw new ProtocolError(
          name,
          `warm-up request ${nth + 1} of ${requests}: ${message}`,
          hint,
          'refused',
        )
      }
    }
  }
  const sent = await Promise.allSettled(Array.from({ length: Math.min(atOnce, requests) }, sendOn))
  signal.throwIfAborted()
  for (const one of sent) if (one.status === 'rejected') throw one.reason
}
