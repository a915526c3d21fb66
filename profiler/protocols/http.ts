/**
 * Single requests to an HTTP server outside any load: readiness checks, metadata, and the first
 * request. Errors say what is wrong and what to do.
 */
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { Agent, errors, request } from 'undici'
import { answerBytes, answerTooLong, BoundError, jsonFrom, readAnswer } from '../bounded-reader.ts'
import { decoded } from '../load/content-encoding.ts'
import { Http2Connection } from '../load/http2-connection.ts'
import { asksForCertificate, clientCertificateHint, tlsChecks, trustHint } from '../load/tls.ts'
import type { RequestBody } from '../model/target.ts'
import type { TlsOptions } from '../model/tls-options.ts'
import { ProtocolError } from '../profiler-errors.ts'
import { hrefOf, httpUrlOf, type ServerAddress, serverAddress } from '../server-address.ts'
import { notReadyReason } from './not-ready.ts'
import type { OnReason } from './protocol.ts'
import { excerpt, refusal } from './refusals.ts'

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

const probeTimeoutMs = 5000

/** Errors that waiting does not fix: an untrusted certificate, no TLS, no HTTP/2. */
const isPermanent = (error: unknown): boolean =>
  (error instanceof Http2Error && error.kind === 'no HTTP/2') ||
  (error instanceof Error &&
    (asksForCertificate(error.message) ||
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
export async function readinessAt(
  protocol: string,
  url: string,
  options: RequestOptions,
  signal: AbortSignal,
  onReason?: OnReason,
): Promise<Readiness> {
  try {
    const { status, text } = await probe(url, options, signal)
    const reason = notReadyReason(text)
    const ok = status === 200 && reason === undefined
    if (!ok) onReason?.(`${url} answers ${status}: ${excerpt(reason ?? text)}`)
    return { ok, status, loading: status === 503 || reason !== undefined }
  } catch (error) {
    signal.throwIfAborted()
    if (isPermanent(error)) throw unreachable(protocol, url, error)
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
    const reason = notReadyReason(text)
    const denies = status === 503 || reason !== undefined || (status === 400 && text === '')
    if (denies) onReason?.(`${url} answers ${status}: ${excerpt(reason ?? text)}`)
    return denies
  } catch {
    signal.throwIfAborted()
    return false
  }
}

/** As `readinessAt`: whether the server reports that it is ready. */
export const answersOk = async (...at: Parameters<typeof readinessAt>): Promise<boolean> =>
  (await readinessAt(...at)).ok

/** Status of a GET; undefined for a server that is not up. Rejects only when the signal aborts. */
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

/** Sends a GET whose status and first bytes suffice. */
const probe = (url: string, options: RequestOptions, signal: AbortSignal): Promise<Answer> =>
  ask(
    url,
    options,
    { method: 'GET', headers: options.headers ?? {}, timeoutMs: probeTimeoutMs, beginning: true },
    signal,
  )

export const get = (url: string, options: RequestOptions, signal: AbortSignal): Promise<Answer> =>
  ask(
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
export async function takesPost(
  url: string,
  options: RequestOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const headers = { ...options.headers, 'content-type': 'application/json' }
  const { status } = await ask(
    url,
    options,
    { method: 'POST', headers, body: Buffer.from('{}'), timeoutMs: probeTimeoutMs },
    signal,
  )
  return status < 300 || (status >= 400 && !noCallStatuses.includes(status))
}

/** Reads a JSON document; a ProtocolError shows what came instead. */
export async function getJson(
  protocol: string,
  url: string,
  options: RequestOptions,
  signal: AbortSignal,
): Promise<unknown> {
  const answer = await reach(protocol, url, signal, () => get(url, options, signal))
  if (answer.status !== 200) throw refusal(protocol, url, answer)
  try {
    return jsonFrom(answer.text)
  } catch (error) {
    if (error instanceof BoundError)
      throw new ProtocolError(protocol, `${url} answered with JSON ${error.message}`, error.hint)
    throw new ProtocolError(protocol, `${url} did not answer with JSON: ${excerpt(answer.text)}`)
  }
}

/**
 * As under load, except for statuses without an answer: 202, a job that is answered later, and 204.
 */
const isGood = (status: number): boolean =>
  status >= 200 && status <= 299 && status !== 202 && status !== 204

/** Sends one request as the load will, and returns the text of a good answer. */
export const postOnce = async (
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
  const url = hrefOf(parseTargetAddress(target.url), target.path)
  const question: HttpRequest = {
    method: 'POST',
    headers: { ...target.headers, 'content-type': contentType },
    body: typeof body === 'string' ? Buffer.from(body) : body,
    timeoutMs: target.timeoutMs,
  }
  const answer = await reach(protocol, url, signal, () => ask(url, target, question, signal))
  if (!isGood(answer.status)) throw refusal(protocol, url, answer, true)
  return answer
}

/** Default time for a server to become ready. */
export const usualFirstAnswerMs = 60_000

/**
 * Sends the first request, with which a server may load its model.
 * @throws ProtocolError, also after `patienceMs`
 */
export async function firstAnswer(
  protocol: string,
  target: PostTarget,
  body: RequestBody,
  patienceMs: number | undefined,
  signal: AbortSignal,
): Promise<Pick<Answer, 'text' | 'contentType'>> {
  const timeoutMs = Math.max(target.timeoutMs, patienceMs ?? usualFirstAnswerMs)
  try {
    return await post(protocol, { ...target, timeoutMs }, body, signal)
  } catch (error) {
    if (!(error instanceof ProtocolError) || error.hint !== lateHint) throw error
    throw new ProtocolError(
      protocol,
      `${hrefOf(parseTargetAddress(target.url), target.path)} did not answer its first request within ${Number((timeoutMs / 1000).toFixed(1))} s`,
      'a server that loads its model with the first request may take longer: --ready-timeout 5m (readyTimeout in an experiment file)',
      'no-answer',
    )
  }
}

/** Parses the URL of a target, which was built from a valid address. */
function parseTargetAddress(url: string): ServerAddress {
  const address = serverAddress(url)
  if (address === undefined) throw new TypeError(`'${url}' is not an http or https URL`)
  return address
}

interface HttpRequest {
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Uint8Array
  /** Limit on the time to the headers of the answer; the whole answer may take twice as long. */
  readonly timeoutMs: number
  /** Only the status and the first bytes are read. */
  readonly beginning?: boolean
}

/** Limits on the beginning of an answer, in bytes and in time. */
const beginningBytes = 4096
const beginningMs = 500

/** Beginning of a body within the limits; for a broken body, what arrived of it. */
async function readBeginning(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = []
  const read = async () => {
    let bytes = 0
    for await (const chunk of body) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes >= beginningBytes) return
    }
  }
  const late = new AbortController()
  await Promise.race([
    read().catch(() => undefined),
    sleep(beginningMs, undefined, { signal: late.signal }).catch(() => undefined),
  ])
  late.abort()
  return Buffer.concat(chunks).toString()
}

/** Sends one request on its own connection. Rejects with what broke it. */
async function ask(
  url: string,
  { http2, tls }: RequestOptions,
  question: HttpRequest,
  signal: AbortSignal,
): Promise<Answer> {
  if (http2) return askHttp2(url, tls, question, signal)
  const { timeoutMs, beginning, ...rest } = question
  const address = parseTargetAddress(url)
  const { socketPath } = address
  const dispatcher = new Agent({
    connect: { ...tlsChecks(tls), ...(socketPath !== undefined && { socketPath }) },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
  })
  try {
    const deadline = createDeadline(signal, 2 * timeoutMs)
    const { statusCode, headers, body } = await request(httpUrlOf(address), {
      ...rest,
      signal: deadline,
      dispatcher,
    })
    // Unread data is dropped with its connection.
    body.on('error', () => {})
    return {
      status: statusCode,
      text: await (beginning ? readBeginning : readAnswer)(
        decoded(body, headers['content-encoding']?.toString()),
      ),
      location: headers.location?.toString(),
      server: headers.server?.toString(),
      contentType: headers['content-type']?.toString(),
    }
  } finally {
    await dispatcher.destroy()
  }
}

/** A signal that aborts with the given one, or with a TimeoutError. */
const createDeadline = (signal: AbortSignal, ms: number): AbortSignal =>
  AbortSignal.any([signal, AbortSignal.timeout(ms)])

async function askHttp2(
  url: string,
  tls: TlsOptions | undefined,
  question: HttpRequest,
  signal: AbortSignal,
): Promise<Answer> {
  signal.throwIfAborted()
  const { method, headers, body, timeoutMs, beginning } = question
  const address = parseTargetAddress(url)
  const connection = new Http2Connection(address.origin, tlsChecks(tls))
  const abort = () => connection.session.destroy()
  signal.addEventListener('abort', abort, { once: true })
  let deadline: NodeJS.Timeout | undefined
  let beginningTimer: NodeJS.Timeout | undefined
  try {
    const { bytes, encoding, ...answer } = await new Promise<
      Omit<Answer, 'text'> & { bytes: Buffer; encoding?: string }
    >((resolve, reject) => {
      const text: Buffer[] = []
      const maxBytes = beginning ? beginningBytes : answerBytes()
      let read = 0
      // Resolves with the beginning of the body, once its headers are known.
      let stop: (() => void) | undefined
      const http2Request = {
        headers: { ...headers, ':method': method, ':path': address.path + address.query },
        body,
      }
      const stream = connection.send(
        http2Request,
        (chunk) => {
          read += chunk.length
          if (read <= maxBytes) text.push(chunk)
          else if (stop) stop()
          else stream.destroy(answerTooLong(maxBytes))
        },
        (end) => {
          if ('failure' in end && stop) stop()
          else if ('failure' in end)
            reject(
              end.error instanceof BoundError ? end.error : new Http2Error(end.failure, end.error),
            )
          else {
            const { location, server } = end.headers
            const about = {
              location,
              server: server?.toString(),
              contentType: end.headers['content-type'],
              encoding: end.headers['content-encoding'],
            }
            resolve({
              status: Number(end.headers[':status']),
              bytes: Buffer.concat(text),
              ...about,
            })
          }
        },
      )
      const tooLate = () =>
        stream.destroy(Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' }))
      stream.setTimeout(timeoutMs, tooLate)
      deadline = setTimeout(tooLate, 2 * timeoutMs)
      if (beginning)
        stream.once('response', (answer) => {
          const status = Number(answer[':status'])
          stop = () => resolve({ status, bytes: Buffer.concat(text) })
          beginningTimer = setTimeout(stop, beginningMs)
        })
    })
    return {
      ...answer,
      text: await (beginning ? readBeginning : readAnswer)(
        decoded(Readable.from([bytes]), encoding),
      ),
    }
  } finally {
    signal.removeEventListener('abort', abort)
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
async function reach<T>(
  protocol: string,
  url: string,
  signal: AbortSignal,
  call: () => Promise<T>,
): Promise<T> {
  try {
    return await call()
  } catch (error) {
    signal.throwIfAborted()
    throw unreachable(protocol, url, error)
  }
}

/**
 * @throws ProtocolError where a GET gets no answer at all: nothing listens, TLS fails, or nothing
 * comes in time
 */
export const checkAnswers = async (
  protocol: string,
  url: string,
  options: RequestOptions,
  signal: AbortSignal,
): Promise<void> => {
  await reach(protocol, url, signal, () => probe(url, options, signal))
}

/**
 * Checks over any protocol whether someone listens.
 * @throws ProtocolError where nothing listens, or the host is unknown; other errors show nothing
 */
export async function someoneListens(
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
      throw unreachable(protocol, url, error)
  }
}

function unreachable(protocol: string, url: string, error: unknown): ProtocolError {
  if (error instanceof BoundError)
    return new ProtocolError(protocol, `${url} answered with ${error.message}`, error.hint)
  const late = error instanceof Error && error.name === 'TimeoutError'
  const code = late ? 'ETIMEDOUT' : (error as { code?: unknown }).code
  const message = late
    ? 'no whole answer in time'
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
      `${url} speaks no TLS`,
      `write ${url.replace(/^https:\/\/([^/]*).*$/, 'http://$1')}`,
      'other-protocol',
    )
  return new ProtocolError(
    protocol,
    `${url} cannot be reached: ${message}`,
    hintFor(code, message, error),
  )
}

const lateHint = 'it did not answer in time'

function hintFor(code: unknown, message: string, error: unknown): string | undefined {
  if (asksForCertificate(`${code} ${message}`)) return clientCertificateHint
  if (error instanceof errors.HTTPParserError || /NO_APPLICATION_PROTOCOL/.test(String(code)))
    return 'does it speak HTTP/2 alone? Then say --http2 (http2 in an experiment file)'
  if (/certificate|self.signed|SSL|TLS|EPROTO|PEM|wrong version number/i.test(`${code} ${message}`))
    return `check https against http; ${trustHint}`
  if (code === 'ECONNREFUSED') return 'nothing listens there: is the server up, and the port right?'
  if (code === 'ENOTFOUND') return 'no such host: check the URL'
  if (code === 'ENOENT') return 'no such socket: is the server up, and the path right?'
  if (code === 'EACCES')
    return 'that user may not write to the socket: chmod it, or run as one who may'
  if (/CONNECT_TIMEOUT/.test(String(code)))
    return 'nothing answers there: is the address right, and does a firewall let it through?'
  if (/TIMEOUT|ETIMEDOUT/.test(String(code))) return lateHint
  if (error instanceof Http2Error)
    return 'does it speak HTTP/2 there? If not, drop --http2 (http2 in an experiment file)'
  return undefined
}
