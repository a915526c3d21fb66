/**
 * Single requests to an HTTP server outside any load: readiness checks, metadata, and the first
 * request. Errors say what is wrong and what to do.
 */
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { Agent, errors, request } from 'undici'
import {
  BoundError,
  createAnswerTooLongError,
  getMaxAnswerBytes,
  parseUntrustedJson,
  readAnswer,
} from '../bounded-reader.ts'
import { decodeBody } from '../load/content-encoding.ts'
import { Http2Connection } from '../load/http2-connection.ts'
import {
  buildTlsOptions,
  clientCertificateHint,
  requiresClientCertificate,
  trustHint,
} from '../load/tls.ts'
import type { RequestBody } from '../model/target.ts'
import type { TlsOptions } from '../model/tls-options.ts'
import { ProtocolError } from '../profiler-errors.ts'
import { formatHttpUrl, formatUrl, parseServerAddress } from '../server-address.ts'
import { findNotReadyReason } from './not-ready.ts'
import type { OnReason } from './protocol.ts'
import { createRefusalError, quoteExcerpt } from './refusals.ts'

/** Options of a request: those of the load. */
interface RequestOptions {
  readonly headers?: Readonly<Record<string, string>>
  readonly http2?: boolean
  readonly tls?: TlsOptions
}

interface Answer {
  readonly status: number
  readonly text: string
  /** Redirect target. */
  readonly location?: string
  /** Its Server header. */
  readonly server?: string
  readonly contentType?: string
}

/** Longest probe, or fetch of a document, ms. Assumed. */
const probeTimeoutMs = 5000

/** Errors that waiting does not fix: an untrusted certificate, no TLS, no HTTP/2. */
const isPermanent = (error: unknown): boolean =>
  (error instanceof Http2Error && error.kind === 'no HTTP/2') ||
  (error instanceof Error &&
    (requiresClientCertificate(error.message) ||
      /certificate|self.signed|PEM|wrong version number/i.test(error.message)))

/** Answer of a readiness path. */
interface Readiness {
  /** 200, with a body that does not deny readiness. */
  readonly ok: boolean
  /** Undefined where nothing answered. */
  readonly status?: number
  /** The body or the status 503 reports that it is not ready. */
  readonly loading: boolean
}

/**
 * Queries a readiness path by GET.
 * @throws ProtocolError for an error that waiting does not fix, and the signal's reason
 * @param onReason receives a description of the answer where the server is not ready
 */
export async function checkReadiness(
  protocol: string,
  url: string,
  options: RequestOptions,
  signal: AbortSignal,
  onReason?: OnReason,
): Promise<Readiness> {
  try {
    const { status, text } = await probe(url, options, signal)
    const reason = findNotReadyReason(text)
    const ok = status === 200 && reason === undefined
    if (!ok) onReason?.(`${url} answers ${status}: ${quoteExcerpt(reason ?? text)}`)
    return { ok, status, loading: status === 503 || reason !== undefined }
  } catch (error) {
    signal.throwIfAborted()
    if (isPermanent(error)) throw createUnreachableError(protocol, url, error)
    return { ok: false, loading: false } // The server is not up yet.
  }
}

/**
 * Whether an optional readiness path reports "not ready": by the status 503, by its text, or by 400
 * with an empty body, as Triton does. A missing path does not.
 */
export async function deniesReadiness(
  url: string,
  options: RequestOptions,
  signal: AbortSignal,
  onReason?: OnReason,
): Promise<boolean> {
  try {
    const { status, text } = await probe(url, options, signal)
    const reason = findNotReadyReason(text)
    const isDenied = status === 503 || reason !== undefined || (status === 400 && text === '')
    if (isDenied) onReason?.(`${url} answers ${status}: ${quoteExcerpt(reason ?? text)}`)
    return isDenied
  } catch {
    signal.throwIfAborted()
    return false
  }
}

/** Fetches the status of a GET; undefined for a server that is not up. Rejects only on an abort. */
export async function fetchStatus(
  url: string,
  options: RequestOptions,
  signal: AbortSignal,
): Promise<number | undefined> {
  try {
    return (await probe(url, options, signal)).status
  } catch {
    signal.throwIfAborted()
    return undefined // The server is not up yet.
  }
}

/** Sends a GET, and reads its status and first bytes only. */
const probe = (url: string, options: RequestOptions, signal: AbortSignal): Promise<Answer> =>
  sendRequest(
    url,
    options,
    { method: 'GET', headers: options.headers ?? {}, timeoutMs: probeTimeoutMs, isProbe: true },
    signal,
  )

export const get = (url: string, options: RequestOptions, signal: AbortSignal): Promise<Answer> =>
  sendRequest(
    url,
    options,
    { method: 'GET', headers: options.headers ?? {}, timeoutMs: probeTimeoutMs },
    signal,
  )

/**
 * Statuses of a server, or a gateway, that does not know the path, takes no POST there, or has
 * nothing behind it.
 */
const noCallStatuses = [404, 405, 501, 502, 503, 504]

/**
 * Whether a path takes a POST of JSON: many frameworks answer 404 to a GET of such a path (Express,
 * Fastify, Sinatra). Rejects where nothing answers.
 */
export async function acceptsPost(
  url: string,
  options: RequestOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const headers = { ...options.headers, 'content-type': 'application/json' }
  const { status } = await sendRequest(
    url,
    options,
    { method: 'POST', headers, body: Buffer.from('{}'), timeoutMs: probeTimeoutMs },
    signal,
  )
  return status < 300 || (status >= 400 && !noCallStatuses.includes(status))
}

/** Fetches a JSON document. Throws a ProtocolError that quotes another answer. */
export async function getJson(
  protocol: string,
  url: string,
  options: RequestOptions,
  signal: AbortSignal,
): Promise<unknown> {
  const answer = await withProtocolErrors(protocol, url, signal, () => get(url, options, signal))
  if (answer.status !== 200) throw createRefusalError(protocol, url, answer)
  try {
    return parseUntrustedJson(answer.text)
  } catch (error) {
    if (error instanceof BoundError)
      throw new ProtocolError(protocol, `${url} answered with JSON ${error.message}`, error.hint)
    throw new ProtocolError(
      protocol,
      `${url} did not answer with JSON: ${quoteExcerpt(answer.text)}`,
    )
  }
}

/**
 * As under load, except for statuses without an answer: 202, a job that is answered later, and 204.
 */
const isGoodStatus = (status: number): boolean =>
  status >= 200 && status <= 299 && status !== 202 && status !== 204

/** Sends one request as the load will, and returns the text of a good answer. */
export const fetchAnswer = async (
  protocol: string,
  target: PostTarget,
  body: RequestBody,
  signal: AbortSignal,
): Promise<string> => (await post(protocol, target, body, signal)).text

interface PostTarget extends RequestOptions {
  readonly url: string
  readonly path: string
  readonly timeoutMs: number
}

async function post(
  protocol: string,
  target: PostTarget,
  { body, contentType }: RequestBody,
  signal: AbortSignal,
): Promise<Answer> {
  const url = formatUrl(parseServerAddress(target.url)!, target.path)
  const httpRequest: HttpRequest = {
    method: 'POST',
    headers: { ...target.headers, 'content-type': contentType },
    body: typeof body === 'string' ? Buffer.from(body) : body,
    timeoutMs: target.timeoutMs,
  }
  const answer = await withProtocolErrors(protocol, url, signal, () =>
    sendRequest(url, target, httpRequest, signal),
  )
  if (!isGoodStatus(answer.status)) throw createRefusalError(protocol, url, answer, true)
  return answer
}

/** Default time within which a server has to become ready, and to answer its first request. */
export const defaultFirstAnswerMs = 60_000

/**
 * Sends the first request, with which a server may load its model.
 * @throws ProtocolError, also after `patienceMs`
 */
export async function fetchFirstAnswer(
  protocol: string,
  target: PostTarget,
  body: RequestBody,
  patienceMs: number | undefined,
  signal: AbortSignal,
): Promise<Pick<Answer, 'text' | 'contentType'>> {
  const timeoutMs = Math.max(target.timeoutMs, patienceMs ?? defaultFirstAnswerMs)
  try {
    return await post(protocol, { ...target, timeoutMs }, body, signal)
  } catch (error) {
    if (!(error instanceof ProtocolError) || error.hint !== timeoutHint) throw error
    throw new ProtocolError(
      protocol,
      `${formatUrl(parseServerAddress(target.url)!, target.path)} did not answer its first request within ${Number((timeoutMs / 1000).toFixed(1))} s`,
      'a server that loads its model with the first request may take longer: --ready-timeout 5m (readyTimeout in an experiment file)',
      'no-answer',
    )
  }
}

interface HttpRequest {
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Uint8Array
  /** Limit on the time to the headers of the answer; the whole answer may take twice as long. */
  readonly timeoutMs: number
  /** Only the status and the first bytes are read. */
  readonly isProbe?: boolean
}

/** Limits on the body of a probe, in bytes and in time. Assumed. */
const maxProbeBytes = 4096
const maxProbeMs = 500

/** Reads the beginning of a body within the limits; of a broken body, what arrived. */
async function readProbeAnswer(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = []
  const read = async () => {
    let bytes = 0
    for await (const chunk of body) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes >= maxProbeBytes) return
    }
  }
  const timer = new AbortController()
  await Promise.race([
    read().catch(() => undefined),
    sleep(maxProbeMs, undefined, { signal: timer.signal }).catch(() => undefined),
  ])
  timer.abort()
  return Buffer.concat(chunks).toString()
}

/** Sends one request on its own connection. Rejects with what broke it. */
async function sendRequest(
  url: string,
  { http2, tls }: RequestOptions,
  httpRequest: HttpRequest,
  signal: AbortSignal,
): Promise<Answer> {
  if (http2) return sendHttp2Request(url, tls, httpRequest, signal)
  const { timeoutMs, isProbe, ...undiciOptions } = httpRequest
  const address = parseServerAddress(url)!
  const { socketPath } = address
  const dispatcher = new Agent({
    connect: { ...buildTlsOptions(tls), ...(socketPath !== undefined && { socketPath }) },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
  })
  try {
    const { statusCode, headers, body } = await request(formatHttpUrl(address), {
      ...undiciOptions,
      signal: AbortSignal.any([signal, AbortSignal.timeout(2 * timeoutMs)]),
      dispatcher,
    })
    // Unread data is dropped with its connection.
    body.on('error', () => {})
    return {
      status: statusCode,
      text: await (isProbe ? readProbeAnswer : readAnswer)(
        decodeBody(body, headers['content-encoding']?.toString()),
      ),
      location: headers.location?.toString(),
      server: headers.server?.toString(),
      contentType: headers['content-type']?.toString(),
    }
  } finally {
    await dispatcher.destroy()
  }
}

async function sendHttp2Request(
  url: string,
  tls: TlsOptions | undefined,
  httpRequest: HttpRequest,
  signal: AbortSignal,
): Promise<Answer> {
  signal.throwIfAborted()
  const { method, headers, body, timeoutMs, isProbe } = httpRequest
  const address = parseServerAddress(url)!
  const connection = new Http2Connection(address.origin, buildTlsOptions(tls))
  const onAbort = () => connection.session.destroy()
  signal.addEventListener('abort', onAbort, { once: true })
  let deadline: NodeJS.Timeout | undefined
  let beginningTimer: NodeJS.Timeout | undefined
  try {
    const { bytes, encoding, ...answer } = await new Promise<
      Omit<Answer, 'text'> & { bytes: Buffer; encoding?: string }
    >((resolve, reject) => {
      const chunks: Buffer[] = []
      const maxBytes = isProbe ? maxProbeBytes : getMaxAnswerBytes()
      let bytesRead = 0
      // Resolves with the beginning of the body, once its headers are known.
      let stop: (() => void) | undefined
      const http2Request = {
        headers: { ...headers, ':method': method, ':path': address.path + address.query },
        body,
      }
      const stream = connection.send(
        http2Request,
        (chunk) => {
          bytesRead += chunk.length
          if (bytesRead <= maxBytes) chunks.push(chunk)
          else if (stop) stop()
          else stream.destroy(createAnswerTooLongError(maxBytes))
        },
        (end) => {
          if ('failure' in end && stop) stop()
          else if ('failure' in end)
            reject(
              end.error instanceof BoundError ? end.error : new Http2Error(end.failure, end.error),
            )
          else {
            const { location, server } = end.headers
            const headerFields = {
              location,
              server: server?.toString(),
              contentType: end.headers['content-type'],
              encoding: end.headers['content-encoding'],
            }
            resolve({
              status: Number(end.headers[':status']),
              bytes: Buffer.concat(chunks),
              ...headerFields,
            })
          }
        },
      )
      const endOverdue = () =>
        stream.destroy(Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' }))
      stream.setTimeout(timeoutMs, endOverdue)
      deadline = setTimeout(endOverdue, 2 * timeoutMs)
      if (isProbe)
        stream.once('response', (answer) => {
          const status = Number(answer[':status'])
          stop = () => resolve({ status, bytes: Buffer.concat(chunks) })
          beginningTimer = setTimeout(stop, maxProbeMs)
        })
    })
    return {
      ...answer,
      text: await (isProbe ? readProbeAnswer : readAnswer)(
        decodeBody(Readable.from([bytes]), encoding),
      ),
    }
  } finally {
    signal.removeEventListener('abort', onAbort)
    clearTimeout(deadline)
    clearTimeout(beginningTimer)
    connection.session.destroy()
  }
}

/** A request that HTTP/2 did not complete. */
class Http2Error extends Error {
  readonly code: unknown
  constructor(
    /** Error class, as a load counts it. */
    readonly kind: string,
    cause: Error | undefined,
  ) {
    super(cause?.message || kind, { cause })
    this.code = (cause as { code?: unknown } | undefined)?.code
  }
}

/** Converts the errors of a request that got no answer to a ProtocolError. */
async function withProtocolErrors<T>(
  protocol: string,
  url: string,
  signal: AbortSignal,
  send: () => Promise<T>,
): Promise<T> {
  try {
    return await send()
  } catch (error) {
    signal.throwIfAborted()
    throw createUnreachableError(protocol, url, error)
  }
}

/**
 * @throws ProtocolError where a GET gets no answer at all: nothing listens, TLS fails, or nothing
 * comes in time
 */
export const checkReachable = async (
  protocol: string,
  url: string,
  options: RequestOptions,
  signal: AbortSignal,
): Promise<void> => {
  await withProtocolErrors(protocol, url, signal, () => probe(url, options, signal))
}

/**
 * Checks that something listens, whatever protocol it speaks.
 * @throws ProtocolError where nothing listens, or the host is unknown; other errors show nothing
 */
export async function checkListening(
  protocol: string,
  url: string,
  options: RequestOptions,
  signal: AbortSignal,
): Promise<void> {
  try {
    await get(url, options, signal)
  } catch (error) {
    const { code } = error as { code?: unknown }
    if (code === 'ECONNREFUSED' || code === 'ENOTFOUND' || code === 'ENOENT' || code === 'EACCES')
      throw createUnreachableError(protocol, url, error)
  }
}

function createUnreachableError(protocol: string, url: string, error: unknown): ProtocolError {
  if (error instanceof BoundError)
    return new ProtocolError(protocol, `${url} answered with ${error.message}`, error.hint)
  const isLate = error instanceof Error && error.name === 'TimeoutError'
  const code = isLate ? 'ETIMEDOUT' : (error as { code?: unknown }).code
  const message = isLate
    ? 'no complete answer in time'
    : (error instanceof Error ? error.message || String(code) : String(error)).trim()
  if (error instanceof Http2Error && error.kind === 'no HTTP/2')
    return new ProtocolError(
      protocol,
      `${url} does not speak HTTP/2: ${message}`,
      'drop --http2 (http2 in an experiment file)',
    )
  if (/wrong.version.number/i.test(message))
    return new ProtocolError(
      protocol,
      `${url} does not use TLS`,
      `write ${url.replace(/^https:\/\/([^/]*).*$/, 'http://$1')}`,
      'other-protocol',
    )
  return new ProtocolError(
    protocol,
    `${url} cannot be reached: ${message}`,
    getHint(code, message, error),
  )
}

const timeoutHint = 'it did not answer in time'

function getHint(code: unknown, message: string, error: unknown): string | undefined {
  if (requiresClientCertificate(`${code} ${message}`)) return clientCertificateHint
  if (error instanceof errors.HTTPParserError || /NO_APPLICATION_PROTOCOL/.test(String(code)))
    return 'does it accept only HTTP/2? Then add --http2 (http2 in an experiment file)'
  if (/certificate|self.signed|SSL|TLS|EPROTO|PEM|wrong version number/i.test(`${code} ${message}`))
    return `check https against http; ${trustHint}`
  if (code === 'ECONNREFUSED') return 'nothing listens there: is the server up, and the port right?'
  if (code === 'ENOTFOUND') return 'no such host: check the URL'
  if (code === 'ENOENT') return 'no such socket: is the server up, and the path right?'
  if (code === 'EACCES')
    return 'this user may not write to the socket: change its permissions, or run as another user'
  if (/CONNECT_TIMEOUT/.test(String(code)))
    return 'nothing answers there: is the address right, and does a firewall let it through?'
  if (/TIMEOUT|ETIMEDOUT/.test(String(code))) return timeoutHint
  if (error instanceof Http2Error)
    return 'does it speak HTTP/2 there? If not, drop --http2 (http2 in an experiment file)'
  return undefined
}
