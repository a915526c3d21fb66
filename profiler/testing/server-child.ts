/**
 * The test server's own process: answers POSTs after a queue and a service time that are known
 * exactly.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import {
  createServer as createHttp2Server,
  createSecureServer,
  type Http2ServerResponse,
} from 'node:http2'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { createUniform, sampleNormal } from '../seeded-random.ts'
import { testCertificate as cert, testKey as key } from './certificate.ts'
import type { QueueServerOptions } from './queue-server.ts'
import { okBody, type TestService } from './service.ts'
import { caseNamed } from './simple-servers.ts'

const waiting: { readonly response: ServerResponse; readonly arrivedMs: number }[] = []
let service: TestService
let uniform = createUniform(0)
let busy = 0
let requests = 0
let stalledUntil = 0
/** Of a known queue: how long a batch takes. */
let knownMs: QueueServerOptions['serviceMs']

/** @param atMs when the batch begins, on this process' clock */
function serviceMs(batch: number, atMs: number): number {
  const { time, fault } = service
  const slower = fault?.kind === 'slow-down' && requests > fault.afterRequests ? fault.factor : 1
  switch (time.kind) {
    case 'fixed':
      return slower * time.ms
    case 'lognormal':
      return slower * time.medianMs * Math.exp(time.sigma * sampleNormal(uniform))
    case 'bimodal':
      return slower * (uniform() < time.slowShare ? time.slowMs : time.fastMs)
    case 'batch':
      return slower * (time.baseMs + time.perItemMs * batch)
    case 'known':
      return knownMs(batch, uniform, atMs, waiting.length)
  }
}

/**
 * When servers became free, by the times set for it: late timers do not add up while the server is
 * busy.
 */
const freeAtMs: number[] = []

function serve(): void {
  while (waiting.length > 0 && (service.servers === 0 || busy < service.servers)) {
    const batch = waiting.splice(0, service.maxBatch)
    busy++
    const beganMs = Math.max(freeAtMs.pop() ?? 0, batch[0]!.arrivedMs, stalledUntil)
    const endMs = beganMs + serviceMs(batch.length, beganMs)
    at(endMs, () => {
      busy--
      if (service.servers > 0) freeAtMs.push(endMs)
      for (const { response } of batch) answer(response)
      serve()
    })
  }
}

/**
 * Timers count whole milliseconds and are up to one late; a known queue, which is held against its
 * truth, asks the clock for the last two.
 */
function at(ms: number, then: () => void): void {
  const leftMs = ms - performance.now()
  if (service.time.kind !== 'known') setTimeout(then, Math.max(0, Math.ceil(leftMs)))
  else if (leftMs > 2) setTimeout(() => at(ms, then), Math.floor(leftMs - 1))
  else if (leftMs > 0) setImmediate(() => at(ms, then))
  else setImmediate(then)
}

function answer(response: ServerResponse): void {
  const { fault } = service
  const hit = fault !== undefined && 'share' in fault && uniform() < fault.share
  if (fault?.kind === 'redirect') response.writeHead(302, { location: fault.to }).end()
  else if (hit && fault.kind === 'status')
    response.writeHead(fault.status).end('{"error":"told to fail"}')
  else if (hit && fault.kind === 'error-body')
    response.writeHead(200).end('{"error":"model is on fire"}')
  else if (hit && fault.kind === 'reset') reset(response)
  else if (hit && fault.kind === 'cut-body')
    response.writeHead(200).write(okBody.slice(0, 30), () => reset(response))
  else if (hit && fault.kind === 'hang-up') response.socket?.end()
  else if (hit && fault.kind === 'half-open') return
  else if (fault?.kind === 'slow-body') slowly(response, fault.ms)
  else answerWell(response)
}

const answersOn = new WeakMap<object, number>()
const idleTimers = new WeakMap<object, NodeJS.Timeout>()

function answerWell(response: ServerResponse): void {
  const { closes } = service
  const headers = { 'content-type': 'application/json', 'content-length': okBody.length }
  const connection =
    'stream' in response
      ? (response as unknown as Http2ServerResponse).stream.session!
      : response.socket!
  const answers = (answersOn.get(connection) ?? 0) + 1
  answersOn.set(connection, answers)
  response
    .writeHead(200, closes?.kind === 'each' ? { ...headers, connection: 'close' } : headers)
    .end(okBody, () => {
      if (closes?.kind === 'idle')
        idleTimers.set(
          connection,
          setTimeout(() => connection.destroy(), closes.ms),
        )
      if (closes?.kind === 'goaway' && 'goaway' in connection && answers >= closes.answers)
        connection.close()
    })
}

/** A reset of the connection; of the stream alone over HTTP/2. */
function reset(response: ServerResponse | Http2ServerResponse): void {
  // Closed, a stream would end as if its answer were whole.
  if ('stream' in response) response.stream.destroy(new Error('told to reset'))
  else response.socket?.resetAndDestroy()
}

function slowly(response: ServerResponse, ms: number): void {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.write(okBody.slice(0, 5))
  setTimeout(() => response.end(okBody.slice(5)), ms)
}

function handle(request: IncomingMessage, response: ServerResponse): void {
  request.resume()
  clearTimeout(idleTimers.get(request.socket))
  if (request.method === 'GET') {
    const isKnown = /^\/($|v1\/|v2|health|ready)/.test(request.url ?? '')
    response.writeHead(isKnown ? 200 : 404).end(isKnown ? '{"ready":true}' : '')
    return
  }
  request.on('end', () => {
    requests++
    const { fault } = service
    if (fault?.kind === 'die' && requests > fault.afterRequests) process.exit(7)
    if (fault?.kind === 'stall' && requests === fault.afterRequests)
      stalledUntil = performance.now() + fault.ms
    if (waiting.length >= (service.queueLimit ?? Number.POSITIVE_INFINITY)) {
      response.writeHead(503, { 'content-length': 0 }).end()
      return
    }
    waiting.push({ response, arrivedMs: performance.now() })
    serve()
  })
}

function listener(http: TestService['http']): Server {
  // Node's HTTP/2 answers through the same calls (its compatibility API).
  const handle2 = handle as unknown as Parameters<typeof createHttp2Server>[1]
  if (http === 'h2c') return createHttp2Server(handle2)
  if (http === 'h2') return createSecureServer({ key, cert }, handle2)
  const server = http === 'https' ? createHttpsServer({ key, cert }, handle) : createServer(handle)
  server.keepAliveTimeout = 60_000
  return server
}

/** A known queue's own numbers in place of those given. */
function completed(given: TestService): TestService {
  if (given.time.kind !== 'known') return given
  const { options } = caseNamed(given.time.name).server(given.seed)
  knownMs = options.serviceMs
  return {
    ...given,
    servers: options.servers,
    maxBatch: options.maxBatch,
    queueLimit: options.queueLimit,
  }
}

process.once('message', (given: TestService) => {
  service = completed(given)
  uniform = createUniform(given.seed)
  const server = listener(given.http)
  server.listen(0, '127.0.0.1', () =>
    process.send?.({ port: (server.address() as AddressInfo).port }),
  )
})
process.on('disconnect', () => process.exit())
