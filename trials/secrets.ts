/**
 * What is secret, said once: which names and texts hold secrets, how they are referred to, and how
 * they are kept out of what is shown and stored. A secret is known by its name (a header, an
 * environment variable, a query parameter, a flag), by its place (the user info of a URL, a segment of its path)
 * or by its look.
 */

/** Words that make a name secret wherever they stand in it: API_KEY, hfToken, x-amz-signature. */
const secretWord =
  /^(keys?|auth|authorization|pass|pwd|creds?|bearer|cookies?|jwt|pat|sig|signature|session|otp|dsn)$|(token|secret|password|passwd|passphrase|credential|apikey|accesskey|privatekey)s?$/
/** A short number, or yes and no, may be one of these all the same. */
const lowEntropyWord = /pass|pwd|secret|otp|pin/

const wordsOf = (name: string): string[] =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)

/** Whether what goes by this name is secret: AUTH_TOKEN, apiKey, db-password. */
export const isSecretName = (name: string): boolean =>
  wordsOf(name).some((word) => secretWord.test(word))

/**
 * Names of which hardly any value is none; `key`, `auth` and `pass` also name settings that are
 * tuned.
 */
const certainName =
  /(token|secret|password|passwd|passphrase|credentials?|api_?key|access_?key|private_?key)$/i

/** Whether a value of a tuned parameter is a secret. */
export const isSecretChoice = (name: string, value: string): boolean =>
  secretSpans(value).length > 0 || (certainName.test(name) && isSecretValue(name, value))

/** Headers that tell nothing about who asks. */
const harmlessHeaders: ReadonlySet<string> = new Set(
  'accept accept-charset accept-encoding accept-language cache-control connection content-encoding content-language content-length content-type expect host inference-header-content-length keep-alive origin pragma te traceparent transfer-encoding upgrade user-agent x-request-id'.split(
    ' ',
  ),
)

export const isSecretHeader = (name: string): boolean => !harmlessHeaders.has(name.toLowerCase())

/**
 * Whether the value of a secret name is one: MAX_TOKEN=512, USE_AUTH=true and KEY_FILE=/etc/key
 * hold none.
 */
export function isSecretValue(name: string, value: string): boolean {
  const text = value.trim()
  if (text === '' || /^\$\{[^}]*\}$/.test(text) || /^\{\{.*\}\}$/.test(text)) return false
  const words = wordsOf(name)
  if (/^(true|false|yes|no|on|off|none|null)$/i.test(text)) return false
  if (/^[-+]?[\d.]{1,7}$/.test(text)) return words.some((word) => lowEntropyWord.test(word))
  return !(/^(file|path|dir|folder)$/.test(words.at(-1)!) && text.startsWith('/'))
}

/** Beginning and end of a secret in a text. */
type Span = readonly [from: number, to: number]

/** User info may hold an @ of its own; of a URL that was taken for a path one slash is left. */
const userInfo = /\b[a-z][a-z0-9+.-]*:\/{1,2}([^\s/?#"'<>]+)@/dgi
const queryParameter = /[?&;#]([\w.~%-]+)=([^\s&#"'<>]+?)(?=[.,:;)]*(?:[\s&#"'<>]|$))/dg
const knownLook =
  /\b((?:sk|pk|rk)[-_][\w-]{16,}|hf_\w{16,}|bot\d{6,}:[\w-]{30,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)/dg
const privateKey =
  /(-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$))/dg
const bearer = /\bBearer\s+([\w+/=.~-]{6,})/dg
/** name=value, name: value, "name": "value", --name value; a value in quotes runs to their end. */
const assignment =
  /(?<![\w./-])(?:(-{1,2}[A-Za-z][\w.-]*)[ \t]+|-{0,2}([A-Za-z_][\w.-]*)["']?[ \t]*[:=][ \t]*)(?="([^"\n]*)"|'([^'\n]*)'|(?:(?:Bearer|Basic|Token)\s+)?([^\s"',;&|<>()[\]{}]+))/dg

/** Of URLs that requests go to; files and buckets have names of other kinds. */
const pathOfUrl = /\b(?:https?|grpcs?|wss?|http\+unix):\/\/[^\s/?#"'<>]+(\/[^\s?#"'<>]*)/dgi
/** Segments that name the secret after them, without their separators. */
const namesNextSegment =
  /(^key|token|secret|password|passwd|passphrase|credential|apikey|accesskey|privatekey)s?$/
/** After those these are calls and versions all the same: /token/refresh, /keys/v1beta1. */
const plainSegment = /^([a-z]{1,15}(\.[a-z]{2,5})?|v\d+\w{0,6})$/i
/** After those a digest or a commit names what is there: /resolve/3f2a.../model.onnx. */
const namesDigest = /^(resolve|commits?|blobs?|tree|raw|revisions?|digests?)$/
const minNamedSecretChars = 5
const uuid = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i
const hexadecimal = /^(?=.*\d)(?=.*[a-f])[\da-f]{16,}$/i
/** Runs of letters and digits in names of models are shorter: bert-base, fp16, sst2. */
const minRandomRunChars = 20
/**
 * Mean length of its words and numbers: 1.8 in random letters of both cases and digits, 2.4 in
 * those of one case, 3 and more in names such as MyTextClassifierV2.
 */
const maxRandomChunkChars = 2.8

/** Whether a segment of a path reads as random: a token, a key, an id that nobody can guess. */
function looksRandom(segment: string): boolean {
  if (uuid.test(segment)) return true
  if (/^sha\d+[:-]/.test(segment)) return false
  return (segment.match(/[A-Za-z0-9]+/g) ?? []).some((run) => {
    const chunks = run.match(/[A-Z]?[a-z]+|[A-Z]+|\d+/g)!.length
    return (
      hexadecimal.test(run) ||
      (run.length >= minRandomRunChars && run.length / chunks < maxRandomChunkChars)
    )
  })
}

/**
 * Secrets in the path of a URL: segments that read as random, and those after one that names a
 * secret (/token/abc-123, /api-key/abc-123).
 */
function pathSecretSpans(path: string): Span[] {
  const spans: Span[] = []
  let before = ''
  for (const { 0: segment, index } of path.split(/[?#]/)[0]!.matchAll(/[^/\s]+/g)) {
    const text = decoded(segment)
    const isNamed =
      namesNextSegment.test(before) &&
      text.length >= minNamedSecretChars &&
      !plainSegment.test(text)
    // A placeholder or a reference is none.
    if (!segment.includes('${') && (isNamed || (!namesDigest.test(before) && looksRandom(text))))
      spans.push([index, index + segment.length])
    before = text.toLowerCase().replace(/[^a-z0-9]/g, '')
  }
  return spans
}

/** Secrets that show themselves in any text: in URLs, by their look, after `Bearer`. */
function spansInText(given: string): Span[] {
  const text = blankReferences(given)
  const spans: Span[] = []
  for (const match of text.matchAll(pathOfUrl)) {
    const [offset] = match.indices![1]!
    for (const [from, to] of pathSecretSpans(match[1]!)) spans.push([offset + from, offset + to])
  }
  for (const pattern of [userInfo, knownLook, privateKey, bearer])
    for (const match of text.matchAll(pattern)) spans.push(match.indices![1]! as Span)
  for (const match of text.matchAll(queryParameter))
    if (isSecretName(match[1]!) && isSecretValue(match[1]!, match[2]!))
      spans.push(match.indices![2]! as Span)
  return spans
}

/**
 * Those and what is assigned to a secret name, in texts that a user wrote: commands, bodies,
 * configuration files. In order, none overlapping; never a reference.
 * @param isUrlPath the text is the path of a URL, which by its look could be one of a file
 */
export function secretSpans(given: string, isUrlPath = false): Span[] {
  const text = blankReferences(given)
  const spans = [...spansInText(text), ...(isUrlPath ? pathSecretSpans(text) : [])]
  for (const match of text.matchAll(assignment)) {
    const name = (match[1] ?? match[2])!
    const group = [3, 4, 5].find((index) => match[index] !== undefined)!
    const value = match[group]!
    if (isSecretName(name) && isSecretValue(name, value) && !/^[{$]/.test(value))
      spans.push(match.indices![group]! as Span)
  }
  return inOrder(spans).filter(([from, to]) => referencesIn(given.slice(from, to)).length === 0)
}

function inOrder(spans: readonly Span[]): Span[] {
  const sorted = spans.filter(([from, to]) => to > from).sort((a, b) => a[0] - b[0] || b[1] - a[1])
  return sorted.filter(([from], i) => sorted.slice(0, i).every(([, end]) => from >= end))
}

/**
 * `${env:NAME}`: the value of an environment variable. `${file:token.txt}`: what stands in a file;
 * `#/predictor/url` after it, a secret of that experiment file.
 */
const reference = /(?<!\$)\$\{((?:env:[A-Za-z_]\w*)|(?:file:[^}]+))\}/g

/** As long as before. What stands in a reference is no text of its own. */
const blankReferences = (text: string): string =>
  text.replace(reference, (whole) => `\${${'x'.repeat(whole.length - 3)}}`)

export const referencesIn = (text: string): string[] =>
  [...text.matchAll(reference)].map(([, name]) => name!)

/** The name inside `${...}` of a placeholder: whether a secret is meant by it. */
export const isReference = (name: string): boolean => /^(env:[A-Za-z_]\w*|file:.+)$/.test(name)

export const replaceReferences = (text: string, replace: (name: string) => string): string =>
  text.replace(reference, (_whole, name: string) => replace(name))

/** Everywhere in plain data: each text as `change` makes it. */
export function mapTexts<T>(value: T, change: (text: string) => string): T {
  if (typeof value === 'string') return change(value) as T
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, change)) as T
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, mapTexts(inner, change)]),
  ) as T
}

const hidden = '[secret]'
/** Shorter ones would hide half of every text. */
const leastHidden = 5
/** Secrets that this process has seen, in every form in which they come back, the longest first. */
let known: string[] = []
/** Those, byte by byte. */
let knownBytes: string[] = []

/** From now on `withoutSecrets` and `SecretFilter` hide this value. */
export function rememberSecret(value: string): void {
  const forms = [
    value,
    ...(/^[^:\s]+:.+$/.test(value) ? [value.slice(value.indexOf(':') + 1)] : []),
    ...value.split(/^Bearer\s+|^Basic\s+/),
  ]
  const encoded = forms.flatMap((form) => [
    form,
    encodeURIComponent(form),
    JSON.stringify(form).slice(1, -1),
    Buffer.from(form).toString('base64'),
    decoded(form),
  ])
  known = [
    ...new Set([
      ...known,
      ...encoded.map((form) => form.trim()).filter((form) => form.length >= leastHidden),
    ]),
  ].sort((a, b) => b.length - a.length)
  knownBytes = known
    .map((form) => Buffer.from(form).toString('latin1'))
    .sort((a, b) => b.length - a.length)
}

/** Those that show themselves in a text, such as a URL or its path alone, are remembered. */
export function rememberSecretsIn(text: string, isUrlPath = false): void {
  for (const [from, to] of secretSpans(text, isUrlPath)) rememberSecret(text.slice(from, to))
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const replaceKnown = (text: string, values: readonly string[]): string =>
  values.reduce(
    (rest, value) => (rest.includes(value) ? rest.replaceAll(value, hidden) : rest),
    text,
  )

/**
 * A text as it may be shown: secrets that are known, and those that show themselves, are hidden.
 */
export function withoutSecrets(text: string): string {
  const cleared = replaceKnown(text, known)
  return inOrder(spansInText(cleared))
    .reverse()
    .reduce(
      (rest, [from, to]) =>
        rest.slice(from, to) === hidden ? rest : rest.slice(0, from) + hidden + rest.slice(to),
      cleared,
    )
}

/** Hides known secrets in bytes that come in pieces, wherever the pieces end. */
export class SecretFilter {
  #held = ''

  /**
   * What may be written of all bytes so far; the beginning of a secret is kept back until it is
   * known whether it is one.
   */
  write(chunk: Buffer): Buffer {
    if (known.length === 0 && this.#held === '') return chunk
    const text = replaceKnown(this.#held + chunk.toString('latin1'), knownBytes)
    const most = Math.min(text.length, (knownBytes[0]?.length ?? 1) - 1)
    let keep = 0
    for (let length = most; length > 0 && keep === 0; length--) {
      const end = text.slice(-length)
      if (knownBytes.some((value) => value.length > length && value.startsWith(end))) keep = length
    }
    this.#held = text.slice(text.length - keep)
    return Buffer.from(text.slice(0, text.length - keep), 'latin1')
  }

  /** What was kept back. */
  end(): Buffer {
    const rest = Buffer.from(this.#held, 'latin1')
    this.#held = ''
    return rest
  }
}
