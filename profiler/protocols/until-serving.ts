/** Waits until a server answers: until it reports that it is ready, then for one good answer. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { HttpTarget } from '../model/target.ts'
import type { PayloadSource } from '../payload-source.ts'
import { ProtocolError } from '../profiler-errors.ts'
import { checkListening } from './http.ts'
import { findNotReadyReason } from './not-ready.ts'
import type { OnReason, Protocol } from './protocol.ts'

interface Endpoint {
  readonly protocol: Protocol
  readonly url: string
  readonly model: string
  readonly payload: PayloadSource
  /** The tuner did not start the server: if it is not ready, its protocol is detected at once. */
  readonly runsAlready?: boolean
  /**
   * Other ports on which its processes listen, to detect a server that ignores its configured port.
   */
  readonly otherPorts?: () => readonly number[]
  /**
   * Receives why the server is not ready: the first reason, then changed ones, 2 s apart at least.
   */
  readonly onReason?: OnReason
}

/** The server was not ready in time. The message has its last reason. */
export class NeverReadyError extends Error {}

/**
 * After this time without readiness, the cause is examined: another protocol, nothing that listens,
 * another port. Repeated at this interval.
 */
const diagnoseAfterMs = 3_000
/** Minimum time between two reported reasons, because some servers count down. */
const minReasonIntervalMs = 2_000

/**
 * Time for which the first request is repeated while the server knows no such path or model: both
 * may come up after the port.
 */
const unknownCallPatienceMs = { started: 15_000, running: 2_000 } as const
/** The same after a bad answer whose cause is unknown. Assumed. */
const firstAnswerPatienceMs = 2_000
/** Pause between readiness checks, which grows by a factor, and between first requests. Assumed. */
const minDelayMs = 20
const maxDelayMs = 250
const delayFactor = 1.5
const repeatDelayMs = 200

/**
 * Waits until the server reports that it is ready and gives a good answer, and resolves with the
 * target of the load.
 * @param until aborts when waiting has become pointless (the predictor ended, the tuner was
 * interrupted): rejects with its reason
 * @throws NeverReadyError after `timeoutMs`; ProtocolError when the server is ready and gives a bad
 * answer, or nothing listens although it should run; the reason of `until`
 */
export async function prepareOnceReady(
  endpoint: Endpoint,
  timeoutMs: number,
  until: AbortSignal,
): Promise<HttpTarget> {
  const { protocol, url, model } = endpoint
  const deadline = createDeadline(timeoutMs)
  const either = AbortSignal.any([until, deadline])
  const reasons = new ReasonLog(endpoint.onReason)
  try {
    await waitUntilReady(endpoint, either, reasons)
  } catch (error) {
    until.throwIfAborted()
    if (!deadline.aborted) throw error
    const never = await protocol.explainNeverReady?.(url, model, until)
    if (never !== undefined)
      throw new ProtocolError(protocol.name, never.what, never.hint, 'other-protocol')
    throw new NeverReadyError(
      `${url} did not become ready (${protocol.name}) within ${formatSeconds(timeoutMs)}${reasons.suffix()}`,
    )
  }
  return waitForGoodAnswer(endpoint, timeoutMs, deadline, until, reasons, true)
}

/**
 * Like `prepareOnceReady`, for a server whose readiness path may be unknown: the first request is
 * sent without a readiness check, and repeated only while the server reports loading.
 */
export const prepareOnceAnswering = (
  endpoint: Endpoint,
  timeoutMs: number,
  until: AbortSignal,
): Promise<HttpTarget> =>
  waitForGoodAnswer(
    endpoint,
    timeoutMs,
    createDeadline(timeoutMs),
    until,
    new ReasonLog(endpoint.onReason),
    false,
  )

const createDeadline = (timeoutMs: number) => AbortSignal.timeout(Math.max(1, Math.ceil(timeoutMs)))

/** Collects the reasons of a server for not being ready, and reports them at a limited rate. */
export class ReasonLog {
  #last: string | undefined
  #shown: string | undefined
  #shownMs = Number.NEGATIVE_INFINITY

  constructor(private readonly onReason: OnReason | undefined) {}

  readonly add = (reason: string): void => {
    this.#last = reason
    const nowMs = performance.now()
    if (reason === this.#shown || nowMs - this.#shownMs < minReasonIntervalMs) return
    this.#shown = reason
    this.#shownMs = nowMs
    this.onReason?.(reason)
  }

  get last(): string | undefined {
    return this.#last
  }

  /** Suffix for the end of a message; '' without a reason. */
  suffix(): string {
    return this.#last === undefined ? '' : `; last reason: ${this.#last}`
  }
}

async function waitUntilReady(
  endpoint: Endpoint,
  either: AbortSignal,
  reasons: ReasonLog,
): Promise<void> {
  const { protocol, url, model, runsAlready = false } = endpoint
  const startedMs = performance.now()
  let isProtocolChecked = false
  let diagnosedMs = startedMs
  let isKnownToListen = !runsAlready
  let lastNever: string | undefined
  for (
    let delayMs = minDelayMs;
    !(await protocol.isReady(url, model, either, reasons.add));
    delayMs = Math.min(maxDelayMs, delayMs * delayFactor)
  ) {
    if (!isProtocolChecked && (runsAlready || performance.now() - startedMs >= diagnoseAfterMs)) {
      isProtocolChecked = true
      const other = await protocol.describeOtherProtocol?.(url, model, either)
      if (other !== undefined)
        throw new ProtocolError(
          protocol.name,
          `${url} does not speak ${protocol.name}`,
          other,
          'other-protocol',
        )
    }
    if (!isKnownToListen && performance.now() - startedMs >= diagnoseAfterMs) {
      await checkListening(protocol.name, url, {}, either)
      const never = await protocol.explainNeverReady?.(url, model, either)
      if (never !== undefined)
        throw new ProtocolError(protocol.name, never.what, never.hint, 'other-protocol')
      isKnownToListen = true
    }
    if (performance.now() - diagnosedMs >= diagnoseAfterMs) {
      diagnosedMs = performance.now()
      await checkOtherPorts(endpoint, either)
      const never = runsAlready ? undefined : await protocol.explainNeverReady?.(url, model, either)
      // A server that is starting may give such an answer once.
      if (never !== undefined && never.what === lastNever)
        throw new ProtocolError(protocol.name, never.what, never.hint, 'other-protocol')
      lastNever = never?.what
    }
    await sleep(delayMs, undefined, { signal: either })
  }
}

/**
 * Waits for the first good answer, and repeats a bad one while the server reports loading.
 * @param isPatient a bad answer without a reason is repeated too, for a short time
 */
async function waitForGoodAnswer(
  endpoint: Endpoint,
  timeoutMs: number,
  deadline: AbortSignal,
  until: AbortSignal,
  reasons: ReasonLog,
  isPatient: boolean,
): Promise<HttpTarget> {
  const { protocol, url, model, payload } = endpoint
  const either = AbortSignal.any([until, deadline])
  const startedMs = performance.now()
  let badAnswer: unknown
  for (;;) {
    try {
      return await protocol.prepare(url, model, payload, either)
    } catch (error) {
      until.throwIfAborted()
      if (deadline.aborted) {
        if (isNotReady(error)) reasons.add(error.message)
        throw createTimeoutError(badAnswer ?? error, url, timeoutMs, reasons, isPatient)
      }
      const waitedMs = isPatient ? performance.now() - startedMs : Number.POSITIVE_INFINITY
      if (!(await mayRecover(endpoint, error, waitedMs, until, reasons))) throw error
      badAnswer = error
    }
    await sleep(repeatDelayMs, undefined, { signal: either }).catch(() => undefined)
    until.throwIfAborted()
    if (deadline.aborted) throw createTimeoutError(badAnswer, url, timeoutMs, reasons, isPatient)
  }
}

/**
 * Whether waiting may turn a bad answer into a good one: it or the readiness check reports loading,
 * the path or model may not exist yet, or the cause is unknown.
 * @throws ProtocolError where the server lists its models without the requested one
 */
async function mayRecover(
  { protocol, url, model, runsAlready = false }: Endpoint,
  error: unknown,
  waitedMs: number,
  signal: AbortSignal,
  reasons: ReasonLog,
): Promise<boolean> {
  if (!(error instanceof Error) || error.name === 'PayloadError') return false
  const why = error instanceof ProtocolError ? error.why : undefined
  if (why === 'not-ready') {
    reasons.add(error.message)
    return true
  }
  if (why === undefined) return waitedMs <= firstAnswerPatienceMs
  // Some servers reject the request, rather than the path, for an unknown model.
  const isAboutModel =
    why === 'refused' && error instanceof Error && /\bmodel\b/i.test(error.message)
  if (why !== 'unknown-call' && !isAboutModel) return false
  const missing = await protocol.explainMissingModel?.(url, model, signal)
  if (missing !== undefined)
    throw new ProtocolError(protocol.name, missing.what, missing.hint, 'unknown-call')
  if (isAboutModel) return false
  let reason: string | undefined
  const isReady = await protocol.isReady(url, model, signal, (words) => {
    reason = words
  })
  if (!isReady && reason !== undefined && showsLoading(reason)) {
    reasons.add(reason)
    return true
  }
  return waitedMs <= unknownCallPatienceMs[runsAlready ? 'running' : 'started']
}

const isNotReady = (error: unknown): error is ProtocolError =>
  error instanceof ProtocolError && error.why === 'not-ready'

/** Whether a reason of the readiness check shows loading, rather than an unknown path. */
const showsLoading = (reason: string): boolean => {
  const [answered, status] = / answers ([45]\d\d): /.exec(reason) ?? []
  if (answered === undefined || status === '503') return true
  return findNotReadyReason(reason.slice(reason.indexOf(answered) + answered.length)) !== undefined
}

function createTimeoutError(
  badAnswer: unknown,
  url: string,
  timeoutMs: number,
  reasons: ReasonLog,
  wasReady: boolean,
): unknown {
  if (badAnswer instanceof ProtocolError && badAnswer.why !== 'not-ready') return badAnswer
  const reason = reasons.suffix()
  const what =
    wasReady && reason === ''
      ? 'reports that it is ready but did not answer'
      : 'gave no good answer'
  return new NeverReadyError(`${url} ${what} within ${formatSeconds(timeoutMs)}${reason}`)
}

/**
 * Checks the other ports of the server.
 * @throws ProtocolError when the server is ready on one of them: it ignores its configured port
 */
async function checkOtherPorts(
  { protocol, url, model, otherPorts }: Endpoint,
  signal: AbortSignal,
): Promise<void> {
  for (const port of otherPorts?.() ?? []) {
    const otherUrl = new URL(url)
    const assignedPort = otherUrl.port
    otherUrl.port = String(port)
    if (!(await protocol.isReady(otherUrl.href, model, signal))) continue
    const what = `it serves on port ${port} instead of the assigned ${assignedPort}`
    throw new ProtocolError(
      protocol.name,
      what,
      'write ${port} where its command, environment or file says the port',
      'other-port',
    )
  }
}

export const formatSeconds = (ms: number) => `${Number((ms / 1000).toFixed(1))} s`
