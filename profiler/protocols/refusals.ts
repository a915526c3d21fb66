/** Converts a bad answer to an error with a cause and a hint, by its status and its text. */
import { jsonFrom } from '../bounded-reader.ts'
import { clientCertificateHint } from '../load/tls.ts'
import { isRecord } from '../plain-record.ts'
import { plainText } from '../plain-text.ts'
import { ProtocolError } from '../profiler-errors.ts'
import { type ServerAddress, serverAddress } from '../server-address.ts'
import { notReadyReason } from './not-ready.ts'

interface Refused {
  readonly status: number
  readonly text: string
  /** Redirect target. */
  readonly location?: string
}

/** Statuses by which a server that knows the call refuses its content. */
const requestRefused: ReadonlySet<number> = new Set([400, 413, 415, 422])
/** Statuses of a server that is still loading, or of a gateway in front of one. */
const notUp: ReadonlySet<number> = new Set([502, 503, 504])
/** TensorFlow Serving's 400 for an unknown path (http_rest_api_handler.cc). */
export const unknownPath = /Malformed request: (GET|POST) /

const pathHint = '--path, or path in an experiment file'
/** Hint for a server that requires credentials. */
export const headerHint =
  "give the header it asks for: --header 'Name: value' (headers in an experiment file)"
const csrfHint =
  "its CSRF check refuses calls without a token: exempt the path of the call (csrf_exempt in Django), or give the token by --header 'Name: value'"
const formHint = `a form is sent by --form 'file=@FILE' or 'file={{image}}' (form in an experiment file), anything else by --content-type TYPE with --body`

/**
 * Builds the error for an answer with a bad status.
 * @param asked whether it answers an inference request, rather than a query about the server
 */
export function refusal(
  protocol: string,
  url: string,
  { status, text, location }: Refused,
  asked = false,
): ProtocolError {
  if (status >= 300 && status < 400)
    return new ProtocolError(
      protocol,
      `${url} redirects (${status}) to ${location ?? 'nowhere'}`,
      redirectHint(url, location),
      'unknown-call',
    )
  const refused = asked && requestRefused.has(status) && !unknownPath.test(text)
  const loading = notUp.has(status) || notReadyReason(text) !== undefined
  const why = loading
    ? 'not-ready'
    : refused
      ? 'refused'
      : status === 401 || status === 403
        ? 'denied'
        : status === 404 || status === 405
          ? 'unknown-call'
          : asked && status === 202
            ? 'other-protocol'
            : undefined
  return new ProtocolError(
    protocol,
    `${url} answered ${status}: ${excerpt(extractMessage(text))}`,
    hintFor(status, text, asked),
    why,
  )
}

/** Address to use instead of the one that is redirected. */
export function redirectHint(from: string, location: string | undefined): string {
  const why = 'a redirect would be timed too'
  const [asked, to] = [
    serverAddress(from),
    location === undefined ? undefined : redirected(from, location),
  ]
  if (asked === undefined || to === undefined) return `give the URL it redirects to: ${why}`
  if (to.origin !== asked.origin)
    return `give the URL it redirects to, --url ${to.origin}${commonBase(asked.path, to.path)}: ${why}`
  return `give the path it redirects to, ${to.path} (${pathHint}; the URL of a server may have a path too): ${why}`
}

/** Whether a gateway with TLS answers that the client certificate is missing (nginx). */
export const asksForCertificateIn = ({ status, text }: Refused): boolean =>
  status === 400 && /SSL certificate/i.test(text)

const redirected = (from: string, location: string): ServerAddress | undefined =>
  serverAddress(
    URL.canParse(location)
      ? location
      : URL.canParse(location, from)
        ? new URL(location, from).href
        : '',
  )

/** Prefix of the requested path. */
const commonBase = (asked: string, path: string): string =>
  path.endsWith(asked) ? path.slice(0, -asked.length) : ''

function hintFor(status: number, text: string, asked: boolean): string | undefined {
  if (status === 401) return headerHint
  if (status === 403) return /csrf/i.test(text) ? csrfHint : headerHint
  if (status === 404)
    return `check the model name, the path of the call (${pathHint}), and that the server speaks this protocol`
  if (status === 405) return `is that the path of the inference call? ${pathHint}`
  if (asksForCertificateIn({ status, text })) return clientCertificateHint
  if (!asked) return undefined
  const field = status === 400 || status === 422 ? fieldUnknown(text) : undefined
  if (field !== undefined) return field === 'ignore_eos' ? eosHint : ownBodiesHint(field)
  switch (status) {
    case 202:
      return 'it takes jobs and answers them later, which is not measured here: give the path of a call that waits for its answer'
    case 204:
      return `does that path answer inferences? ${pathHint}`
    case 400:
      return /multipart|form-data/i.test(text) ? formHint : 'does the payload fit the model?'
    case 413:
      return 'its limit of a request is lower than what the payload has: raise it, or send less'
    case 415:
      return formHint
    case 422:
      return fieldHint(text)
    case 429:
      return 'something limits the rate: measure past it, or with a key that it does not limit'
    case 502:
    case 503:
    case 504:
      return 'what answers has no server behind it that does: is it up, and done with loading?'
    default:
      return status >= 500
        ? 'the request arrived, and the server failed on it: its own log says why'
        : undefined
  }
}

/** Fields of a completion that some servers refuse by name: OpenAI's own, Mistral's, Groq's. */
const named = '\\b(ignore_eos|stream_options|max_tokens|max_output_tokens|temperature)\\b'
const fieldRefused = new RegExp(
  `\\b(?:unrecognized|unsupported|unexpected|unknown|extra)\\b[^{]{0,60}?${named}|${named}[^{]{0,60}?\\b(?:unsupported|not supported|not permitted|not allowed|unexpected)\\b`,
  'i',
)
/** A set of names as Python prints it: {'ignore_eos', 'seed'}. */
const namesInBraces = /\{('\w+'(?:, '\w+')*)\}/g
/** Field that a refusal names; what it quotes of the request stands in braces. */
function fieldUnknown(text: string): string | undefined {
  const [, before, after] = fieldRefused.exec(text.replace(namesInBraces, '$1')) ?? []
  return before ?? after
}
const eosHint =
  'it knows no ignore_eos: say ignoreEos: false below load.payload of an experiment file, or give request bodies of your own (--payload FILE.jsonl); answers are as long as the model makes them'
/** Whether a server refused a request only for its `ignore_eos`. */
export const refusesEos = (error: unknown): error is ProtocolError =>
  error instanceof ProtocolError && error.hint === eosHint
const ownBodiesHint = (field: string): string =>
  `it takes no ${field}: give request bodies of your own, one a line (--payload FILE.jsonl), in its words; "stream_options": null leaves those out`

/** Fields that a FastAPI server reports as missing. */
function fieldHint(text: string): string {
  const missing = details(text).flatMap(({ loc, type }) =>
    type === 'missing' && loc[0] === 'body' && loc.length > 1 ? [loc.at(-1)!] : [],
  )
  if (missing.length === 0)
    return 'does the payload fit the model? Its body is said by --body (body in an experiment file)'
  const fields = missing.map((name) => `${JSON.stringify(name)}: ...`).join(', ')
  return `say its body, with {{text}}, {{texts}}, {{image}} or {{int}} in it: --body '{${fields}}'; of a form --form '${missing[0]}=@FILE' or '${missing[0]}={{image}}'`
}

/**
 * Details of FastAPI's 422: [{"type": "missing", "loc": ["body", "text"], "msg": "Field
 * required"}].
 */
function details(
  text: string,
): { readonly loc: readonly string[]; readonly msg: string; readonly type?: string }[] {
  const document = parseDocument(text)
  const list = isRecord(document) && Array.isArray(document.detail) ? document.detail : []
  return list.flatMap((one) => {
    if (!isRecord(one) || !Array.isArray(one.loc) || typeof one.msg !== 'string') return []
    return [
      {
        loc: one.loc.map(String),
        msg: one.msg,
        ...(typeof one.type === 'string' && { type: one.type }),
      },
    ]
  })
}

/** Extracts the server's message: the error of a JSON answer, else the whole text. */
export function extractMessage(text: string): string {
  const fields = details(text)
  if (fields.length > 0) return fields.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; ')
  const answer = parseDocument(text)
  if (!isRecord(answer)) return text
  const { error, message, detail } = answer
  const words = [error, message, detail, isRecord(error) ? error.message : undefined].find(
    (each) => typeof each === 'string',
  )
  return (words as string | undefined) ?? text
}

function parseDocument(text: string): unknown {
  try {
    return jsonFrom(text)
  } catch {
    return undefined // Not JSON.
  }
}

/** Hint for a good status whose body is not JSON. */
export function noJsonHint(text: string): string | undefined {
  if (/^\s*<(!doctype|html|\?xml|head|body)\b/i.test(text))
    return `that is a page: is the path that of the inference call? ${pathHint}`
  return undefined
}

/** Single line without terminal control characters, at most 300 characters. */
export const excerpt = (text: string): string => {
  const line = plainText(text).replace(/\s+/g, ' ').trim()
  return line === '' ? '(empty body)' : line.length > 300 ? `${line.slice(0, 300)}…` : line
}
