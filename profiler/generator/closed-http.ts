/**
 * Closed loop by autocannon: one outstanding request per connection.
 *
 * Of autocannon 9 only the sending and parsing are used. Its histogram (whole ms), its stop (cuts requests in flight, to the second) and its
 * reconnects (back to back, and with the lost request left in its queue, which makes later latencies false) are replaced through `setupClient`.
 * Over TLS it takes any certificate: connections are checked here.
 */
import { Buffer } from 'node:buffer'
import type { Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { TLSSocket } from 'node:tls'
import autocannon from 'autocannon'
import type { Load, LoadRun, TlsOptions } from '../types.ts'
import type { HttpTarget } from './child-messages.ts'
import { oncePerBody } from './http-sender.ts'
import { errorKind, Recorder } from './recorder.ts'
import { StallWatch } from './stall-watch.ts'
import { tlsChecks } from './tls.ts'

/** What is used of autocannon's client beyond its types. */
interface Client {
  readonly opts: { tlsOptions: object }
  readonly conn: Socket
  readonly parser: { reinitialize(type: string): void }
  readonly pipelinedRequests: { size(): number; clear(): void; insertRequest(request: object): void }
  readonly requestIterator: {
    requests: object[]
    currentRequest: object
    currentRequestIndex: number
    recordBody(request: object, status: number, body: string): void
  }
  readonly destroyed: boolean
  setRequests(requests: object[]): void
  on(event: 'response', listener: (status: number) => void): void
  on(event: 'connError', listener: (error: Error) => void): void
  _connect(): void
  _destroyConnection(): void
  _doRequest(): void
}

const reconnectPauseMs = 20
const sweepPeriodMs = 10

/** autocannon makes a buffer of every request: of a long trace, which repeats its bodies, its beginning stands for the mix. */
const mostRepeated = 1024
const mixOf = ({ bodies }: HttpTarget) => (new Set(bodies).size < bodies.length ? bodies.slice(0, mostRepeated) : bodies)

/** Plays a closed loop to its end: requests under way at the end are waited for, each up to the target's timeout. */
export function playClosed(target: HttpTarget, load: Extract<Load, { kind: 'closed' }>, signal: AbortSignal): Promise<LoadRun> {
  const recorder = new Recorder()
  const cpu = process.cpuUsage()
  const startMs = performance.now()
  const now = () => performance.now() - startMs
  const endMs = load.durationS * 1000
  const requests = oncePerBody({ bodies: mixOf(target) }, ({ contentType, body }) => ({
    method: 'POST',
    path: target.path,
    headers: { ...target.headers, 'content-type': contentType },
    body: typeof body === 'string' ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength),
  }))
  const checks = tlsChecks(target.tls)
  let sharedRequests: object[] | undefined
  let connected = 0
  let underWay = 0
  let lastBody = ''
  /** Not there yet while its clients are made, which on a busy machine can take longer than a short window. */
  let instance: autocannon.Instance | undefined
  const expirers: (() => void)[] = []

  let resolve: (run: LoadRun) => void
  let reject: (error: unknown) => void
  const promise = new Promise<LoadRun>((res, rej) => {
    resolve = res
    reject = rej
  })
  const stopWhenDrained = () => {
    if (now() >= endMs && underWay === 0) instance?.stop()
  }

  const setupClient = (given: object) => {
    const client = given as Client
    const offset = connected++
    // Not among autocannon's options, which it copies: a copied context ends the process.
    client.opts.tlsOptions = checks
    // Request buffers are built once and shared: a pool per client would multiply them by the connections.
    if (sharedRequests === undefined) {
      client.setRequests(requests)
      sharedRequests = client.requestIterator.requests
    } else client.requestIterator.requests = sharedRequests
    client.requestIterator.currentRequestIndex = offset % sharedRequests.length
    client.requestIterator.currentRequest = sharedRequests[offset % sharedRequests.length]!

    let open: { index: number; sentMs: number } | undefined
    let failure = 'closed by server'
    const end = (kind: string | undefined) => {
      if (open === undefined) return
      if (kind === undefined) recorder.answered(open.index, now() - open.sentMs)
      else recorder.failed(open.index, kind)
      open = undefined
      underWay--
    }
    const insert = client.pipelinedRequests.insertRequest.bind(client.pipelinedRequests)
    client.pipelinedRequests.insertRequest = (request) => {
      const sentMs = now()
      open = { index: recorder.open(sentMs), sentMs }
      underWay++
      insert(request)
    }
    const doRequest = client._doRequest.bind(client)
    client._doRequest = () => {
      if (now() < endMs && !signal.aborted) doRequest()
      else stopWhenDrained()
    }
    expirers.push(() => {
      if (open === undefined || now() - open.sentMs < target.timeoutMs) return
      failure = 'timeout'
      client._destroyConnection()
      client._connect()
    })
    const plainConnect = client._connect.bind(client)
    const connect = () => {
      plainConnect()
      breakUntrusted(client.conn, target.tls)
    }
    let connections = 0
    let reconnecting = false
    client._connect = () => {
      if (reconnecting) return
      client.pipelinedRequests.clear()
      end(failure)
      failure = 'closed by server'
      if (connections++ === 0) return connect()
      stopWhenDrained()
      reconnecting = true
      setTimeout(() => {
        reconnecting = false
        if (client.destroyed || now() >= endMs) return
        client.parser.reinitialize('RESPONSE')
        connect()
      }, reconnectPauseMs)
    }
    client.on('connError', (error) => {
      failure = errorKind(error)
    })
    client.requestIterator.recordBody = (_request, _status, body) => {
      lastBody = body
    }
    client.on('response', (status) => {
      if (status < 200 || status > 299) end(`status ${status}`)
      else if (target.expect !== undefined && !lastBody.includes(target.expect)) end('bad answer')
      else end(undefined)
    })
  }

  const abort = () => instance?.stop()
  const drainTimer = setTimeout(stopWhenDrained, endMs + 1)
  const watch = new StallWatch(sweepPeriodMs)
  const deadlines = setInterval(() => {
    watch.tick(now())
    for (const expire of expirers) expire()
  }, sweepPeriodMs)
  instance = autocannon(
    {
      url: target.url,
      connections: load.connections,
      // Both ends are made here, to the millisecond: autocannon's own are whole seconds.
      duration: load.durationS + target.timeoutMs / 1000 + 1,
      timeout: target.timeoutMs / 1000 + 60,
      sampleInt: 20,
      requests: [],
      setupClient,
      skipAggregateResult: true,
    } as autocannon.Options,
    (error) => {
      signal.removeEventListener('abort', abort)
      clearTimeout(drainTimer)
      clearInterval(deadlines)
      if (signal.aborted) reject(signal.reason)
      else if (error) reject(error)
      else {
        const seconds = Math.min(now(), endMs) / 1000
        const used = process.cpuUsage(cpu)
        resolve(
          recorder.finish(load, {
            seconds,
            stallsMs: watch.stallsMs(),
            elapsedS: now() / 1000,
            generatorCores: (used.user + used.system) / 1e3 / now(),
          }),
        )
      }
    },
  )
  signal.addEventListener('abort', abort, { once: true })
  return promise
}

/** Ends a TLS connection with an error when its certificate is not to be trusted. */
function breakUntrusted(socket: Socket, tls: TlsOptions | undefined): void {
  if (!(socket instanceof TLSSocket) || tls?.insecureSkipVerify) return
  socket.once('secureConnect', () => {
    // Not an Error, whatever its type says, but its code.
    const code = String(socket.authorizationError)
    if (!socket.authorized) socket.destroy(Object.assign(new Error(`certificate not trusted: ${code}`), { code }))
  })
}
