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
import { answerBytes } from '../bounded-reader.ts'
import type { Load } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import { httpUrlOf, serverAddress } from '../server-address.ts'
import type { HttpTarget } from './child-messages.ts'
import { isEncoded } from './content-encoding.ts'
import { Recorder } from './recorder.ts'
import { oncePerBody } from './sender.ts'
import { StallWatch } from './stall-watch.ts'

type ClosedLoad = Extract<Load, { kind: 'closed' }>

/** Limit on the memory for requests: each client builds its own copies. */
const maxRequestBytes = 64 * 2 ** 20
/**
 * Limit on the bodies that are used. The first ones of a long trace represent its mix.
 */
const maxRequests = 1024
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
const minAnswers = 20
const maxFailedShare = 0.1
/**
 * Time allowed for the last answers: at least `drainMs`, or this multiple of the slowest answer.
 */
const drainMs = 500
const drainFactor = 3

/**
 * Smaller loops measure unloaded latency, on which an abandoned request would have too much effect.
 */
const minConnections = 8

/** Whether autocannon may play a load on a target. */
export const suitsAutocannon = (target: HttpTarget, load: ClosedLoad): boolean =>
  load.connections >= minConnections &&
  !load.forOpen &&
  target.transport === undefined &&
  target.spread === undefined &&
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
  const tally = new Tally(target, load)
  const watch = new StallWatch(tickMs)
  let stop = () => {}
  const finished = new Promise<void>((resolve, reject) => {
    const instance = autocannon(optionsFor(target, load, tally, expectedRps), (error) =>
      error ? reject(error) : resolve(),
    )
    stop = () => instance.stop()
    instance.on('response', (client, status, _bytes, ms) => tally.answered(client, status, ms))
    instance.on('reqError', () => tally.giveUp())
  })
  // The clients exist with the requests they built, and none was sent yet.
  tally.begin()
  const cpu = process.cpuUsage()
  const ticker = setInterval(() => {
    watch.tick(tally.now())
    if (signal.aborted || tally.over()) stop()
  }, tickMs)
  try {
    await finished
  } finally {
    clearInterval(ticker)
  }
  signal.throwIfAborted()
  if (tally.unfit) return undefined
  const used = process.cpuUsage(cpu)
  const elapsedMs = tally.now()
  return tally.recorder.finish(load, {
    seconds: load.durationS,
    generatorPausesMs: watch.generatorPausesMs(),
    elapsedS: elapsedMs / 1000,
    generatorCores: (used.user + used.system) / 1e3 / elapsedMs,
    connections: { opened: load.connections, closed: 0, retried: 0 },
  })
}

function optionsFor(
  target: HttpTarget,
  { connections, durationS }: ClosedLoad,
  tally: Tally,
  expectedRps: number,
): autocannon.Options {
  const requests = oncePerBody(
    { bodies: target.bodies.slice(0, maxRequests) },
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
  const meanBytes = requests.reduce((sum, { body }) => sum + body.length, 0) / requests.length + 256
  const maxPerClient = Math.min(
    requests.length,
    Math.max(1, Math.floor(maxRequestBytes / connections / meanBytes)),
  )
  const requestsPerClient = Math.min(
    maxPerClient,
    Math.ceil(Math.max(requests.length, expectedRps * durationS) / connections),
  )
  const address = serverAddress(target.url)!
  let clients = 0
  return {
    url: httpUrlOf(address),
    ...(address.socketPath !== undefined && { socketPath: address.socketPath }),
    connections,
    // The end is timed here, as autocannon's own limits are whole seconds.
    duration: Math.ceil(durationS + target.timeoutMs / 1000) + 1,
    timeout: Math.ceil(target.timeoutMs / 1000) + 60,
    sampleInt: tickMs,
    requests: [],
    skipAggregateResult: true,
    setupClient: (client) => {
      // Clients start at different positions, so that together they cover the whole pool.
      const from = Math.floor((clients++ * requests.length) / connections)
      client.setRequests(
        Array.from(
          { length: requestsPerClient },
          (_, i) => requests[(from + i) % requests.length]!,
        ),
      )
      client.on('headers', (head) => {
        const { shouldKeepAlive, headers = [] } = head as {
          shouldKeepAlive?: boolean
          headers?: readonly string[]
        }
        // Autocannon has no decoder.
        const encoded = headers.some(
          (name, i) => i % 2 === 0 && /^content-encoding$/i.test(name) && isEncoded(headers[i + 1]),
        )
        if (shouldKeepAlive === false || (encoded && target.expect !== undefined)) tally.giveUp()
      })
      client.on('body', (part) => tally.read(client, (part as Buffer).length))
      tally.add(client)
    },
    ...(target.expect !== undefined && {
      verifyBody: (body: unknown) => tally.verified(String(body).includes(target.expect!)),
    }),
  } as autocannon.Options
}

/** Records the answers of a loop, and decides whether autocannon can play it at all. */
class Tally {
  readonly recorder = new Recorder()
  /** The load must be played by the other loop. */
  unfit = false
  private startMs = performance.now()
  private readonly endMs: number
  /** Send time of the request in progress on each client, which is that of its last answer. */
  private readonly sentMs = new Map<object, number>()
  private last: { readonly index: number; failed: boolean } | undefined
  /** Bytes of the answer that each client is reading, and their total. */
  private readonly unread = new Map<object, number>()
  private unreadBytes = 0
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

  add(client: object): void {
    this.sentMs.set(client, this.now())
  }

  /** Starts the clock of the loop: autocannon's setup does not count as waiting time. */
  begin(): void {
    const tookMs = this.now()
    this.startMs += tookMs
    for (const [client, sentMs] of this.sentMs) this.sentMs.set(client, sentMs - tookMs)
  }

  /**
   * Counts the bytes of incomplete answers, which autocannon keeps in memory. Long answers are left
   * to the other loop, which does not keep them.
   */
  read(client: object, bytes: number): void {
    this.unread.set(client, (this.unread.get(client) ?? 0) + bytes)
    this.unreadBytes += bytes
    if (this.unreadBytes > answerBytes()) this.giveUp()
  }

  giveUp(): void {
    this.unfit = true
  }

  answered(client: object, status: number, ms: number): void {
    const now = this.now()
    this.unreadBytes -= this.unread.get(client) ?? 0
    this.unread.delete(client)
    const sentMs = this.sentMs.get(client)
    if (sentMs === undefined) return
    // A request lost on a closed connection is still in the queue, and the reported time belongs to
    // it.
    if (ms > now - sentMs + latencyToleranceMs) this.giveUp()
    const fromMs = Math.max(0, sentMs)
    const index = this.recorder.open(fromMs)
    const failed = status < 200 || status > 299
    if (failed) this.recorder.failed(index, `status ${status}`)
    else this.recorder.answered(index, Math.min(ms, now - fromMs))
    this.last = { index, failed }
    this.count(failed)
    this.slowestMs = Math.max(this.slowestMs, ms)
    // Requests sent after the end do not count.
    if (now >= this.endMs) this.sentMs.delete(client)
    else this.sentMs.set(client, now)
  }

  /** Called for each body after `answered`. */
  verified(good: boolean): boolean {
    if (!good && this.last?.failed === false) {
      this.recorder.failed(this.last.index, 'bad answer')
      this.last.failed = true
      this.failures++
    }
    return good
  }

  /**
   * Whether all requests sent before the end are answered, or the rest is left to the other loop.
   */
  over(): boolean {
    const now = this.now()
    const slowest = Math.max(drainMs, drainFactor * this.slowestMs)
    for (const sentMs of this.sentMs.values())
      if (now - sentMs > Math.min(this.target.timeoutMs, Math.max(slowest, this.endMs)))
        this.giveUp()
    if (now > this.endMs + slowest && this.sentMs.size > 0) this.giveUp()
    if (this.answers >= minAnswers && this.failures > maxFailedShare * this.answers) this.giveUp()
    return this.unfit || this.sentMs.size === 0
  }

  private count(failed: boolean): void {
    this.answers++
    if (failed) this.failures++
  }
}
