/** Waits until a predictor serves: its health endpoint says ready, then one good answer. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { PayloadSource } from '../../profiler/payload-source.ts'
import { ProtocolError } from '../../profiler/profiler-errors.ts'
import { someoneListens } from '../../profiler/protocols/http.ts'
import type { Protocol, Target } from '../../profiler/types.ts'
import type { Finality } from '../types.ts'

interface Endpoint {
  readonly protocol: Protocol
  readonly url: string
  readonly model: string
  readonly payload: PayloadSource
  /** It was there before: one that is not ready is asked at once what it speaks. */
  readonly runsAlready?: boolean
  /** Other ports of this machine that its processes listen on, while it is not ready. */
  readonly otherPorts?: () => readonly number[]
}

/** The deadline passed; the message says how far it got. */
export class NeverReadyError extends Error {}

/**
 * A server that is not ready by then is asked what it speaks, one that is said to run whether it is
 * there at all: waiting is of no use.
 */
const recogniseAfterMs = 3_000

/** Why a server says no to every configuration: the experiment asks it wrongly. */
const asksWrongly: readonly unknown[] = ['other-protocol', 'other-port', 'denied', 'unknown-call']

/**
 * Whether a ProtocolError comes again: one that says why. What is asked wrongly does for every
 * configuration, a refused request for its own.
 */
export const finalityOf = (error: Error): Finality | undefined => {
  if (error.name === 'PayloadError') return 'experiment'
  if (!('why' in error) || error.why === undefined) return undefined
  return asksWrongly.includes(error.why) ? 'experiment' : 'configuration'
}

/**
 * A path or model that is not known may be so a moment later: routes are told of, models are
 * loaded.
 */
const mayPass = (error: Error): boolean =>
  finalityOf(error) === undefined || ('why' in error && error.why === 'unknown-call')

/**
 * Some servers say ready a moment before they are: a first bad answer is asked for again for so
 * long.
 */
const firstAnswerPatienceMs = 2_000

/**
 * @param until aborts when waiting has become pointless (the predictor ended, the tuner was
 * interrupted): rejects with its reason
 * @throws NeverReadyError after `timeoutMs`; ProtocolError when it is ready and answers badly, or
 * should run and nothing listens there; the reason of `until`
 */
export const untilServing = async (
  endpoint: Endpoint,
  timeoutMs: number,
  until: AbortSignal,
): Promise<Extract<Target, { kind: 'http' }>> => {
  const { protocol, url, model, payload, runsAlready = false } = endpoint
  const deadline = AbortSignal.timeout(Math.max(1, Math.ceil(timeoutMs)))
  const either = AbortSignal.any([until, deadline])
  let ready = false
  let badAnswer: unknown
  try {
    const startedMs = performance.now()
    let recognised = false
    let lookedMs = startedMs
    let listens = !runsAlready
    let saidNever: string | undefined
    for (
      let delayMs = 20;
      !(await protocol.ready(url, model, either));
      delayMs = Math.min(250, delayMs * 1.5)
    ) {
      if (!recognised && (runsAlready || performance.now() - startedMs >= recogniseAfterMs)) {
        recognised = true
        const other = await protocol.looksLike?.(url, model, either)
        if (other !== undefined)
          throw new ProtocolError(
            protocol.name,
            `${url} does not speak ${protocol.name}`,
            other,
            'other-protocol',
          )
      }
      if (!listens && performance.now() - startedMs >= recogniseAfterMs) {
        await someoneListens(protocol.name, url, {}, either)
        const never = await protocol.whyNever?.(url, model, either)
        if (never !== undefined)
          throw new ProtocolError(protocol.name, never.what, never.hint, 'other-protocol')
        listens = true
      }
      if (performance.now() - lookedMs >= recogniseAfterMs) {
        lookedMs = performance.now()
        await servesElsewhere(endpoint, either)
        const never = runsAlready ? undefined : await protocol.whyNever?.(url, model, either)
        // Once may be a server that is coming up.
        if (never !== undefined && never.what === saidNever)
          throw new ProtocolError(protocol.name, never.what, never.hint, 'other-protocol')
        saidNever = never?.what
      }
      await sleep(delayMs, undefined, { signal: either })
    }
    ready = true
    const patientUntil = performance.now() + firstAnswerPatienceMs
    for (;;) {
      try {
        return await protocol.prepare(url, model, payload, either)
      } catch (error) {
        if (either.aborted || performance.now() > patientUntil || !mayPass(error as Error))
          throw error
        badAnswer = error
        await sleep(200, undefined, { signal: either })
      }
    }
  } catch (error) {
    until.throwIfAborted()
    if (!deadline.aborted) throw error
    if (badAnswer !== undefined) throw badAnswer
    const never = ready ? undefined : await protocol.whyNever?.(url, model, until)
    if (never !== undefined)
      throw new ProtocolError(protocol.name, never.what, never.hint, 'other-protocol')
    const how = ready
      ? 'says it is ready and gave no answer'
      : `never said it was ready (${protocol.name})`
    throw new NeverReadyError(`${url} ${how} within ${formatSeconds(timeoutMs)}`)
  }
}

/** @throws ProtocolError when it is ready on a port that it was not given: it reads its own from elsewhere */
async function servesElsewhere(
  { protocol, url, model, otherPorts }: Endpoint,
  signal: AbortSignal,
): Promise<void> {
  for (const port of otherPorts?.() ?? []) {
    const there = new URL(url)
    const given = there.port
    there.port = String(port)
    if (!(await protocol.ready(there.href, model, signal))) continue
    const what = `it serves on port ${port}, and not on ${given}, which it was given`
    throw new ProtocolError(
      protocol.name,
      what,
      'write ${port} where its command, environment or file says the port',
      'other-port',
    )
  }
}

const formatSeconds = (ms: number) => `${Number((ms / 1000).toFixed(1))} s`

/** A value that is awaited with a deadline. Rejects like `untilServing`. */
export const within = async <T>(
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
      `the predictor did not say which port it serves on within ${formatSeconds(timeoutMs)}`,
    )
  } finally {
    either.removeEventListener('abort', giveUp)
  }
}
