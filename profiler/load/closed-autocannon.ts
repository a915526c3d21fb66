/**
 * Closed loop with autocannon, for fast servers: one request in progress on each connection. It
 * uses the public interface only: options, `setRequests`, the events of its instance and clients.
 * Latencies are recorded one by one, because autocannon's own histogram has whole milliseconds.
 *
 * The loop over our own client (closed-loop.ts) does what that interface cannot: check
 * certificates, enforce deadlines, pause after failures, wait for the last answers (stopping cuts
 * them off), and replace closed connections (autocannon keeps the lost request in its queue).
 */

import { Buffer } from 'node:buffer'
import { performance } from 'node:perf_hooks'
import autocannon from 'autocannon'
import { getMaxAnswerBytes } from '../bounded-reader.ts'
import type { ClosedLoad } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { HttpTarget } from '../model/target.ts'
import { formatHttpUrl, parseServerAddress } from '../server-address.ts'
import { isEncoded } from './content-encoding.ts'
import { PauseDetector } from './pause-detector.ts'
import { Recorder } from './recorder.ts'
import { convertBodies } from './sender.ts'

/** Limit on the memory for requests: each client builds its own copies. */
const maxRequestBytes = 64 * 2 ** 20
/**
 * Limit on the bodies that are used. The first ones of a long trace represent its mix.
 */
const maxBodies = 1024
/** Size of the head of a request. Assumed. */
const assumedHeadBytes = 256
/** Period of the checks for pauses and for the end of the loop. */
const tickMs = 10
/**
 * Tolerance, ms, between autocannon's latency of an answer and ours. A larger difference shows that
 * autocannon attributes the answer to another request.
 */
const latencyToleranceMs = 5
/**
 * After this many answers, a loop with a larger share of failures is left to the other loop, which
 * pauses after failures.
 */
const minAnswersToJudge = 20
const maxFailedShare = 0.1
/**
 * Time allowed for the last answers: at least `minDrainMs`, or this multiple of the slowest answer.
 */
const minDrainMs = 500
const drainFactor = 3

/**
 * Smaller loops measure unloaded latency, on which an abandoned request would have too much effect.
 */
const minConnections = 8

/** Whether autocannon may play a load on a target. */
export const canUseAutocannon = (target: HttpTarget, load: ClosedLoad): boolean =>
  load.connections >= minConnections &&
  !load.forOpen &&
  target.transport === undefined &&
  target.replicas === undefined &&
  !target.http2 &&
  !target.url.startsWith('https:')

/**
 * Plays a closed loop. Undefined when the server does something that autocannon's interface cannot
 * handle; nothing counts then. Rejects with the signal's reason.
 * @param expectedRps expected rate of requests, per second
 */
export async function playAutocannon(
  target: HttpTarget,
  load: ClosedLoad,
  signal: AbortSignal,
  expectedRps: number,
): Promise<LoadRun | undefined> {
  const run = new AutocannonRun(target, load)
  const pauses = new PauseDetector(tickMs)
  let stop = () => {}
  const loopEnd = new Promise<void>((resolve, reject) => {
    const instance = autocannon(buildOptions(target, load, run, expectedRps), (error) =>
      error ? reject(error) : resolve(),
    )
    stop = () => instance.stop()
    instance.on('response', (client, status, _bytes, ms) => run.recordAnswer(client, status, ms))
    instance.on('reqError', () => run.markUnsuitable())
  })
  // The clients exist with the requests they built, and none was sent yet.
  run.startClock()
  const cpuBefore = process.cpuUsage()
  const ticker = setInterval(() => {
    pauses.tick(run.now())
    if (signal.aborted || run.isFinished()) stop()
  }, tickMs)
  try {
    await loopEnd
  } finally {
    clearInterval(ticker)
  }
  signal.throwIfAborted()
  if (run.isUnsuitable) return undefined
  const cpu = process.cpuUsage(cpuBefore)
  const elapsedMs = run.now()
  return run.recorder.buildRun(load, {
    seconds: load.durationS,
    generatorPausesMs: pauses.listSpansMs(),
    elapsedS: elapsedMs / 1000,
    generatorCores: (cpu.user + cpu.system) / 1e3 / elapsedMs,
    connections: { opened: load.connections, closed: 0, retried: 0 },
  })
}

function buildOptions(
  target: HttpTarget,
  { connections, durationS }: ClosedLoad,
  run: AutocannonRun,
  expectedRps: number,
): autocannon.Options {
  const requests = convertBodies(
    { bodies: target.bodies.slice(0, maxBodies) },
    ({ contentType, body }) => ({
      method: 'POST' as const,
      path: target.path,
      headers: { ...target.headers, 'content-type': contentType },
      body:
        typeof body === 'string'
          ? body
          : Buffer.from(body.buffer, body.byteOffset, body.byteLength),
    }),
  )
  const meanBytes =
    requests.reduce((sum, { body }) => sum + body.length, 0) / requests.length + assumedHeadBytes
  const maxPerClient = Math.min(
    requests.length,
    Math.max(1, Math.floor(maxRequestBytes / connections / meanBytes)),
  )
  const requestsPerClient = Math.min(
    maxPerClient,
    Math.ceil(Math.max(requests.length, expectedRps * durationS) / connections),
  )
  const address = parseServerAddress(target.url)!
  let clients = 0
  return {
    url: formatHttpUrl(address),
    ...(address.socketPath !== undefined && { socketPath: address.socketPath }),
    connections,
    // The end is timed here, as autocannon's own limits are whole seconds; these are never reached.
    duration: Math.ceil(durationS + target.timeoutMs / 1000) + 1,
    timeout: Math.ceil(target.timeoutMs / 1000) + 60,
    sampleInt: tickMs,
    requests: [],
    skipAggregateResult: true,
    setupClient: (client) => {
      // Clients start at different positions, so that together they cover the whole pool.
      const firstRequest = Math.floor((clients++ * requests.length) / connections)
      client.setRequests(
        Array.from(
          { length: requestsPerClient },
          (_, i) => requests[(firstRequest + i) % requests.length]!,
        ),
      )
      client.on('headers', (head) => {
        const { shouldKeepAlive, headers = [] } = head as {
          shouldKeepAlive?: boolean
          headers?: readonly string[]
        }
        // Autocannon has no decoder.
        const isAnswerEncoded = headers.some(
          (name, i) => i % 2 === 0 && /^content-encoding$/i.test(name) && isEncoded(headers[i + 1]),
        )
        if (shouldKeepAlive === false || (isAnswerEncoded && target.expect !== undefined))
          run.markUnsuitable()
      })
      client.on('body', (part) => run.countBytes(client, (part as Buffer).length))
      run.addClient(client)
    },
    ...(target.expect !== undefined && {
      verifyBody: (body: unknown) => run.recordCheck(String(body).includes(target.expect!)),
    }),
  } as autocannon.Options
}

/** Records the answers of a loop, and decides whether autocannon can play it at all. */
class AutocannonRun {
  readonly recorder = new Recorder()
  /** The load must be played by the other loop. */
  isUnsuitable = false
  private startMs = performance.now()
  private readonly endMs: number
  /** Send time of the request in progress on each client, which is that of its last answer. */
  private readonly sentMs = new Map<object, number>()
  private lastAnswer: { readonly index: number; isFailed: boolean } | undefined
  /** Bytes of the answer that each client is reading, and their total. */
  private readonly bufferedBytes = new Map<object, number>()
  private totalBufferedBytes = 0
  private answers = 0
  private failures = 0
  private slowestMs = 0

  constructor(
    private readonly target: HttpTarget,
    load: ClosedLoad,
  ) {
    this.endMs = load.durationS * 1000
  }

  now(): number {
    return performance.now() - this.startMs
  }

  addClient(client: object): void {
    this.sentMs.set(client, this.now())
  }

  /** Starts the clock of the loop: autocannon's setup does not count as waiting time. */
  startClock(): void {
    const tookMs = this.now()
    this.startMs += tookMs
    for (const [client, sentMs] of this.sentMs) this.sentMs.set(client, sentMs - tookMs)
  }

  /**
   * Counts the bytes of incomplete answers, which autocannon keeps in memory. Long answers are left
   * to the other loop, which does not keep them.
   */
  countBytes(client: object, bytes: number): void {
    this.bufferedBytes.set(client, (this.bufferedBytes.get(client) ?? 0) + bytes)
    this.totalBufferedBytes += bytes
    if (this.totalBufferedBytes > getMaxAnswerBytes()) this.markUnsuitable()
  }

  markUnsuitable(): void {
    this.isUnsuitable = true
  }

  recordAnswer(client: object, status: number, ms: number): void {
    const now = this.now()
    this.totalBufferedBytes -= this.bufferedBytes.get(client) ?? 0
    this.bufferedBytes.delete(client)
    const sentMs = this.sentMs.get(client)
    if (sentMs === undefined) return
    // A request lost on a closed connection is still in the queue, and the reported time belongs to
    // it.
    if (ms > now - sentMs + latencyToleranceMs) this.markUnsuitable()
    const fromMs = Math.max(0, sentMs)
    const index = this.recorder.addRequest(fromMs)
    const isFailed = status < 200 || status > 299
    if (isFailed) this.recorder.recordFailure(index, `status ${status}`)
    else this.recorder.recordAnswer(index, Math.min(ms, now - fromMs))
    this.lastAnswer = { index, isFailed }
    this.countAnswer(isFailed)
    this.slowestMs = Math.max(this.slowestMs, ms)
    // Requests sent after the end do not count.
    if (now >= this.endMs) this.sentMs.delete(client)
    else this.sentMs.set(client, now)
  }

  /** Called for each body after `recordAnswer`. */
  recordCheck(isGood: boolean): boolean {
    if (!isGood && this.lastAnswer?.isFailed === false) {
      this.recorder.recordFailure(this.lastAnswer.index, 'bad answer')
      this.lastAnswer.isFailed = true
      this.failures++
    }
    return isGood
  }

  /**
   * Whether all requests sent before the end are answered, or the other loop has to play the load.
   */
  isFinished(): boolean {
    const now = this.now()
    const drainMs = Math.max(minDrainMs, drainFactor * this.slowestMs)
    for (const sentMs of this.sentMs.values())
      if (now - sentMs > Math.min(this.target.timeoutMs, Math.max(drainMs, this.endMs)))
        this.markUnsuitable()
    if (now > this.endMs + drainMs && this.sentMs.size > 0) this.markUnsuitable()
    if (this.answers >= minAnswersToJudge && this.failures > maxFailedShare * this.answers)
      this.markUnsuitable()
    return this.isUnsuitable || this.sentMs.size === 0
  }

  private countAnswer(isFailed: boolean): void {
    this.answers++
    if (isFailed) this.failures++
  }
}
