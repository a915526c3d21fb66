/** Waits until a predictor serves: its health endpoint says ready, then one good answer. */
import { setTimeout as sleep } from 'node:timers/promises'
import { someoneListens } from '../../profiler/protocols/http.ts'
import type { PayloadSource, Protocol, Target } from '../../profiler/types.ts'
import type { Finality } from '../types.ts'

interface Endpoint {
  readonly protocol: Protocol
  readonly url: string
  readonly model: string
  readonly payload: PayloadSource
  /** It was there before: one that is not ready is asked at once what it speaks. */
  readonly runsAlready?: boolean
}

/** The deadline passed; the message says how far it got. */
export class NeverReadyError extends Error {}

/** A server that is not ready by then is asked what it speaks, one that is said to run whether it is there at all: waiting is of no use. */
const recogniseAfterMs = 3_000

const wrongProtocol = (protocol: Protocol, url: string, hint: string): Error =>
  Object.assign(new Error(`${url} does not speak ${protocol.name}`), { name: 'ProtocolError', hint, why: 'other-protocol' })

/** Whether a ProtocolError comes again: one that says why. Another protocol does for every configuration, a refused request for its own. */
export const finalityOf = (error: Error): Finality | undefined => {
  if (error.name === 'PayloadError') return 'experiment'
  if (!('why' in error) || error.why === undefined) return undefined
  return error.why === 'other-protocol' ? 'experiment' : 'configuration'
}

/** Some servers say ready a moment before they are: a first bad answer is asked for again for so long. */
const firstAnswerPatienceMs = 2_000

/**
 * @param until aborts when waiting has become pointless (the predictor ended, the tuner was interrupted): rejects with its reason
 * @throws NeverReadyError after `timeoutMs`; ProtocolError when it is ready and answers badly, or should run and nothing listens there; the reason of `until`
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
    let listens = !runsAlready
    for (let delayMs = 20; !(await protocol.ready(url, model, either)); delayMs = Math.min(250, delayMs * 1.5)) {
      if (!recognised && (runsAlready || performance.now() - startedMs >= recogniseAfterMs)) {
        recognised = true
        const other = await protocol.looksLike?.(url, model, either)
        if (other !== undefined) throw wrongProtocol(protocol, url, other)
      }
      if (!listens && performance.now() - startedMs >= recogniseAfterMs) {
        await someoneListens(protocol.name, url, {}, either)
        listens = true
      }
      await sleep(delayMs, undefined, { signal: either })
    }
    ready = true
    const patientUntil = performance.now() + firstAnswerPatienceMs
    for (;;) {
      try {
        return await protocol.prepare(url, model, payload, either)
      } catch (error) {
        if (either.aborted || performance.now() > patientUntil || finalityOf(error as Error) !== undefined) throw error
        badAnswer = error
        await sleep(200, undefined, { signal: either })
      }
    }
  } catch (error) {
    until.throwIfAborted()
    if (!deadline.aborted) throw error
    if (badAnswer !== undefined) throw badAnswer
    const how = ready ? 'says it is ready and gave no answer' : `never said it was ready (${protocol.name})`
    throw new NeverReadyError(`${url} ${how} within ${formatSeconds(timeoutMs)}`)
  }
}

const formatSeconds = (ms: number) => `${Number((ms / 1000).toFixed(1))} s`

/** A value that is awaited with a deadline. Rejects like `untilServing`. */
export const within = async <T>(value: T | Promise<T>, timeoutMs: number, until: AbortSignal): Promise<T> => {
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
    throw new NeverReadyError(`the predictor did not say which port it serves on within ${formatSeconds(timeoutMs)}`)
  } finally {
    either.removeEventListener('abort', giveUp)
  }
}
