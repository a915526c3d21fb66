import { request } from 'undici'
import { ProtocolError } from '../errors.ts'
import type { ProtocolName, RequestBody } from '../types.ts'

export interface Answer {
  readonly status: number
  readonly text: string
}

const probeTimeoutMs = 5000

/** True when a GET answers 200; false for anything else, a server that is not up included. Rejects only when the signal aborts. */
export async function answersOk(url: string, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<boolean> {
  try {
    return (await get(url, headers, signal)).status === 200
  } catch {
    signal.throwIfAborted() // Anything else means that the server is not up yet, which is an answer.
    return false
  }
}

export async function get(url: string, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Answer> {
  const answer = await request(url, { headers, signal, headersTimeout: probeTimeoutMs, bodyTimeout: probeTimeoutMs })
  return { status: answer.statusCode, text: await answer.body.text() }
}

/** Reads a JSON document; a ProtocolError says what came in its place. */
export async function getJson(
  protocol: ProtocolName,
  url: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<unknown> {
  const answer = await reach(protocol, url, signal, () => get(url, headers, signal))
  if (answer.status !== 200) throw refusal(protocol, url, answer)
  try {
    return JSON.parse(answer.text)
  } catch {
    throw new ProtocolError(protocol, `${url} did not answer with JSON: ${excerpt(answer.text)}`)
  }
}

/** Sends one request as the load will, and returns the answer's text when it is good. */
export async function postOnce(
  protocol: ProtocolName,
  target: { readonly url: string; readonly path: string; readonly headers: Readonly<Record<string, string>>; readonly timeoutMs: number },
  { body, contentType }: RequestBody,
  signal: AbortSignal,
): Promise<string> {
  const url = new URL(target.path, target.url).href
  const answer = await reach(protocol, url, signal, async () => {
    const headers = { ...target.headers, 'content-type': contentType }
    const response = await request(url, {
      method: 'POST',
      headers,
      body: typeof body === 'string' ? Buffer.from(body) : body,
      signal,
      headersTimeout: target.timeoutMs,
      bodyTimeout: target.timeoutMs,
    })
    const location = response.headers.location
    if (response.statusCode >= 300 && response.statusCode < 400)
      throw new ProtocolError(
        protocol,
        `${url} redirects (${response.statusCode}) to ${location}`,
        'give the URL it redirects to: a redirect would be timed too',
      )
    return { status: response.statusCode, text: await response.body.text() }
  })
  if (answer.status !== 200) throw refusal(protocol, url, answer, requestRefused.has(answer.status) && !unknownPath.test(answer.text))
  return answer.text
}

async function reach<T>(protocol: ProtocolName, url: string, signal: AbortSignal, call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ProtocolError) throw error
    throw unreachable(protocol, url, error)
  }
}

function unreachable(protocol: ProtocolName, url: string, error: unknown): ProtocolError {
  const code = (error as { code?: unknown }).code
  const message = (error instanceof Error ? error.message || String(code) : String(error)).trim()
  const tls = /certificate|self.signed|SSL|TLS|EPROTO|wrong version number/i.test(`${code} ${message}`)
  const hint = tls
    ? 'check https against http, and the certificate (NODE_EXTRA_CA_CERTS names a private authority)'
    : code === 'ECONNREFUSED'
      ? 'nothing listens there: is the server up, and the port right?'
      : code === 'ENOTFOUND'
        ? 'no such host: check the URL'
        : /TIMEOUT/.test(String(code))
          ? 'it did not answer in time'
          : undefined
  return new ProtocolError(protocol, `${url} cannot be reached: ${message}`, hint)
}

/** Statuses by which a server that knows the call refuses what is in it. */
const requestRefused: ReadonlySet<number> = new Set([400, 413, 415, 422])
/** TensorFlow Serving's 400 for a path that it does not have (http_rest_api_handler.cc). */
export const unknownPath = /Malformed request: (GET|POST) /

function refusal(protocol: ProtocolName, url: string, { status, text }: Answer, refused = false): ProtocolError {
  const hint =
    refused && status === 400
      ? 'does the payload fit the model?'
      : status === 404
        ? 'check the model name, and that the server speaks this protocol'
        : status === 401 || status === 403
          ? 'give the header it asks for'
          : undefined
  return new ProtocolError(protocol, `${url} answered ${status}: ${excerpt(said(text))}`, hint, refused ? 'refused' : undefined)
}

/** The server's own words: the error of a JSON answer, else all of it. */
function said(text: string): string {
  try {
    const answer: unknown = JSON.parse(text)
    const { error, message, detail } = answer as Record<string, unknown>
    const words = [error, message, detail, (error as { message?: unknown } | undefined)?.message].find((each) => typeof each === 'string')
    return (words as string | undefined) ?? text
  } catch {
    return text // No JSON, or none with an error in it.
  }
}

export const excerpt = (text: string): string => {
  const line = text.replace(/\s+/g, ' ').trim()
  return line === '' ? '(empty body)' : line.length > 300 ? `${line.slice(0, 300)}…` : line
}
