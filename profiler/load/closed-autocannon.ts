/**
 * Closed loop by autocannon, one request in progress on each connection, through its public
 * interface: options, `setRequests`, the events of its instance and clients. Only the time of each
 * answer is used, as its histogram has whole milliseconds.
 *
 * The loop over our own client (closed-loop.ts) covers what that interface cannot do: checked
 * certificates, deadlines, pauses after failures, waiting for the last answers (stopping cuts
 * them), and connections that close (the lost request stays in its queue).
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

/** Limit on the bytes of requests that all clients hold, as each builds its own. */
const maxRequestBytes = 64 * 2 ** 20
/**
 * Limit on the requests of a client: the first of many bodies of a long trace represent the mix.
 */
const maxRequests = 1024
const tickMs = 10
/**
 * Times reported by autocannon and times observed here belong to the same answers within this
 * tolerance, ms.
 */
const sameMs = 5
/**
 * Answers after which failures are checked, and the share of failures that ends a loop without
 * pauses.
 */
const minAnswers = 20
const maxFailedShare = 0.1
/** Time allowed for the last answers: several times the slowest before them. */
const drainMs = 500
const drainFactor = 3

/** Smaller loops measure unloaded latencies, which a request that was cut off would disturb. */
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
    stallsMs: watch.stallsMs(),
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
  const most = Math.min(
    requests.length,
    Math.max(1, Math.floor(maxRequestBytes / connections / meanBytes)),
  )
  // Each client builds all its requests. Together they cover the whole pool in turn.
  const each = Math.min(
    most,
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
      // The clients start at different positions of the pool, and together cover it where one
      // cannot.
      const from = Math.floor((clients++ * requests.length) / connections)
      client.setRequests(
        Array.from({ length: each }, (_, i) => requests[(from + i) % requests.length]!),
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

/** Counts the answers of a loop. */
class Tally {
  readonly recorder = new Recorder()
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

  /** Starts counting; requests that autocannon counts as sent before were not. */
  begin(): void {
    const tookMs = this.now()
    this.startMs += tookMs
    for (const [client, sentMs] of this.sentMs) this.sentMs.set(client, sentMs - tookMs)
  }

  /**
   * Autocannon holds answers until they end. A long one is left to the other loop, which does not.
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
    if (ms > now - sentMs + sameMs) this.giveUp()
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
