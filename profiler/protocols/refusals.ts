/** Converts a bad answer to an error with a cause and a hint, by its status and its text. */
import { parseUntrustedJson } from '../bounded-reader.ts'
import { clientCertificateHint } from '../load/tls.ts'
import { isRecord } from '../plain-record.ts'
import { stripControls } from '../plain-text.ts'
import { ProtocolError } from '../profiler-errors.ts'
import { parseServerAddress, type ServerAddress } from '../server-address.ts'
import { findNotReadyReason } from './not-ready.ts'

interface RefusalAnswer {
  readonly status: number
  readonly text: string
  /** Redirect target. */
  readonly location?: string
}

/** Statuses by which a server that knows the call refuses its content. */
const refusedStatuses: ReadonlySet<number> = new Set([400, 413, 415, 422])
/** Statuses of a server that is still loading, or of a gateway in front of one. */
const unavailableStatuses: ReadonlySet<number> = new Set([502, 503, 504])
/** TensorFlow Serving's 400 for an unknown path (http_rest_api_handler.cc). */
export const unknownPathPattern = /Malformed request: (GET|POST) /

const pathHint = '--path, or path in an experiment file'
/** Hint for a server that requires credentials. */
export const headerHint =
  "give the required credentials: --header 'Name: value' (headers in an experiment file)"
const csrfHint =
  "its CSRF check refuses calls without a token: exempt the path of the call (csrf_exempt in Django), or give the token by --header 'Name: value'"
const formHint = `a form is sent by --form 'file=@FILE' or 'file={{image}}' (form in an experiment file), anything else by --content-type TYPE with --body`

/**
 * Builds the error for an answer with a bad status.
 * @param isInference whether it answers an inference request, rather than a query about the server
 */
export function createRefusalError(
  protocol: string,
  url: string,
  { status, text, location }: RefusalAnswer,
  isInference = false,
): ProtocolError {
  if (status >= 300 && status < 400)
    return new ProtocolError(
      protocol,
      `${url} redirects (${status}) to ${location ?? 'nowhere'}`,
      buildRedirectHint(url, location),
      'unknown-call',
    )
  const isRefused = isInference && refusedStatuses.has(status) && !unknownPathPattern.test(text)
  const isLoading = unavailableStatuses.has(status) || findNotReadyReason(text) !== undefined
  const why = isLoading
    ? 'not-ready'
    : isRefused
      ? 'refused'
      : status === 401 || status === 403
        ? 'denied'
        : status === 404 || status === 405
          ? 'unknown-call'
          : isInference && status === 202
            ? 'other-protocol'
            : undefined
  return new ProtocolError(
    protocol,
    `${url} answered ${status}: ${quoteExcerpt(extractMessage(text))}`,
    getHint(status, text, isInference),
    why,
  )
}

/** Builds a hint with the URL or path to use instead of the redirected one. */
export function buildRedirectHint(from: string, location: string | undefined): string {
  const why = 'the time of a redirect would count as latency'
  const fromAddress = parseServerAddress(from)
  const to = location === undefined ? undefined : resolveRedirect(from, location)
  if (fromAddress === undefined || to === undefined) return `give the URL it redirects to: ${why}`
  if (to.origin !== fromAddress.origin)
    return `give the URL it redirects to, --url ${to.origin}${extractPrefix(fromAddress.path, to.path)}: ${why}`
  return `give the path it redirects to, ${to.path} (${pathHint}; the URL of a server may have a path too): ${why}`
}

/** Whether a gateway with TLS answers that the client certificate is missing (nginx). */
export const isCertificateMissing = ({ status, text }: RefusalAnswer): boolean =>
  status === 400 && /SSL certificate/i.test(text)

const resolveRedirect = (from: string, location: string): ServerAddress | undefined =>
  parseServerAddress(
    URL.canParse(location)
      ? location
      : URL.canParse(location, from)
        ? new URL(location, from).href
        : '',
  )

/** Extracts the part of a path before the requested path, where it ends with that; else ''. */
const extractPrefix = (requested: string, path: string): string =>
  path.endsWith(requested) ? path.slice(0, -requested.length) : ''

function getHint(status: number, text: string, isInference: boolean): string | undefined {
  if (status === 401) return headerHint
  if (status === 403) return /csrf/i.test(text) ? csrfHint : headerHint
  if (status === 404)
    return `check the model name, the path of the call (${pathHint}), and that the server speaks this protocol`
  if (status === 405) return `is that the path of the inference call? ${pathHint}`
  if (isCertificateMissing({ status, text })) return clientCertificateHint
  if (!isInference) return undefined
  const field = status === 400 || status === 422 ? findRejectedField(text) : undefined
  if (field !== undefined) return field === 'ignore_eos' ? eosHint : buildRejectedFieldHint(field)
  switch (status) {
    case 202:
      return 'it accepts jobs and answers them later, which cannot be measured: give the path of a synchronous call'
    case 204:
      return `does that path answer inferences? ${pathHint}`
    case 400:
      return /multipart|form-data/i.test(text) ? formHint : 'does the payload fit the model?'
    case 413:
      return 'the request exceeds the limit of the server: raise the limit, or send a smaller payload'
    case 415:
      return formHint
    case 422:
      return buildMissingFieldsHint(text)
    case 429:
      return 'a rate limit rejects the requests: bypass it, or use a key without a limit'
    case 502:
    case 503:
    case 504:
      return 'a gateway answers, but the server behind it does not: is it running, and has it loaded its model?'
    default:
      return status >= 500
        ? 'the server failed while it processed the request: see its log'
        : undefined
  }
}

/** Fields of a completion that some servers refuse by name: OpenAI's own, Mistral's, Groq's. */
const rejectedFields = '\\b(ignore_eos|stream_options|max_tokens|max_output_tokens|temperature)\\b'
const rejectionPattern = new RegExp(
  `\\b(?:unrecognized|unsupported|unexpected|unknown|extra)\\b[^{]{0,60}?${rejectedFields}|${rejectedFields}[^{]{0,60}?\\b(?:unsupported|not supported|not permitted|not allowed|unexpected)\\b`,
  'i',
)
/** A set of names as Python prints it: {'ignore_eos', 'seed'}. */
const namesInBraces = /\{('\w+'(?:, '\w+')*)\}/g
/** Finds the field that a refusal names; what it quotes of the request stands in braces. */
function findRejectedField(text: string): string | undefined {
  const [, before, after] = rejectionPattern.exec(text.replace(namesInBraces, '$1')) ?? []
  return before ?? after
}
const eosHint =
  'the server does not know ignore_eos: set load.payload.ignoreEos: false in an experiment file, or give your own request bodies (--payload FILE.jsonl). The model then decides the length of answers'
/** Whether a server refused a request only for its `ignore_eos`. */
export const isEosRefusal = (error: unknown): error is ProtocolError =>
  error instanceof ProtocolError && error.hint === eosHint
const buildRejectedFieldHint = (field: string): string =>
  `the server rejects ${field}: give your own request bodies, one per line (--payload FILE.jsonl); "stream_options": null omits that field`

/** Fields that a FastAPI server reports as missing. */
function buildMissingFieldsHint(text: string): string {
  const missing = parseValidationErrors(text).flatMap(({ loc, type }) =>
    type === 'missing' && loc[0] === 'body' && loc.length > 1 ? [loc.at(-1)!] : [],
  )
  if (missing.length === 0)
    return 'does the payload fit the model? Set the request body with --body (body in an experiment file)'
  const fields = missing.map((name) => `${JSON.stringify(name)}: ...`).join(', ')
  return `give the request body, with {{text}}, {{texts}}, {{image}} or {{int}} in it: --body '{${fields}}'; for a form --form '${missing[0]}=@FILE' or '${missing[0]}={{image}}'`
}

/**
 * Details of FastAPI's 422: [{"type": "missing", "loc": ["body", "text"], "msg": "Field
 * required"}].
 */
function parseValidationErrors(
  text: string,
): { readonly loc: readonly string[]; readonly msg: string; readonly type?: string }[] {
  const document = parseDocument(text)
  const list = isRecord(document) && Array.isArray(document.detail) ? document.detail : []
  return list.flatMap((error) => {
    if (!isRecord(error) || !Array.isArray(error.loc) || typeof error.msg !== 'string') return []
    return [
      {
        loc: error.loc.map(String),
        msg: error.msg,
        ...(typeof error.type === 'string' && { type: error.type }),
      },
    ]
  })
}

/** Extracts the server's message: the error of a JSON answer, else the whole text. */
export function extractMessage(text: string): string {
  const fields = parseValidationErrors(text)
  if (fields.length > 0) return fields.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; ')
  const answer = parseDocument(text)
  if (!isRecord(answer)) return text
  const { error, message, detail } = answer
  const words = [error, message, detail, isRecord(error) ? error.message : undefined].find(
    (candidate) => typeof candidate === 'string',
  )
  return (words as string | undefined) ?? text
}

function parseDocument(text: string): unknown {
  try {
    return parseUntrustedJson(text)
  } catch {
    return undefined // Not JSON.
  }
}

/** Returns a hint for a good status whose body is not JSON. */
export function getHtmlHint(text: string): string | undefined {
  if (/^\s*<(!doctype|html|\?xml|head|body)\b/i.test(text))
    return `this is an HTML page: is the path that of the inference call? ${pathHint}`
  return undefined
}

/** Characters of an answer that a message quotes. */
const maxExcerptChars = 300

/** Quotes the beginning of a text in a single line, without terminal control characters. */
export const quoteExcerpt = (text: string): string => {
  const line = stripControls(text).replace(/\s+/g, ' ').trim()
  return line === ''
    ? '(empty body)'
    : line.length > maxExcerptChars
      ? `${line.slice(0, maxExcerptChars)}…`
      : line
}
