/**
 * The only definition of secrets: which names and texts contain them, how they are referenced, and
 * how they are redacted from output and storage. A secret is recognised by its name (a header, an
 * environment variable, a query parameter, a flag), by its position (user info or path segment of a
 * URL) or by its pattern.
 */

/** Words that mark a name as secret anywhere in it: API_KEY, hfToken, x-amz-signature. */
const secretWord =
  /^(keys?|auth|authorization|pass|pwd|creds?|bearer|cookies?|jwt|pat|sig|signature|session|otp|dsn)$|(token|secret|password|passwd|passphrase|credential|apikey|accesskey|privatekey)s?$/
/** A short number, or yes and no, may be one of these all the same. */
const lowEntropyWord = /pass|pwd|secret|otp|pin/

const splitName = (name: string): string[] =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)

/** Whether values of this name are secret: AUTH_TOKEN, apiKey, db-password. */
export const isSecretName = (name: string): boolean =>
  splitName(name).some((word) => secretWord.test(word))

/**
 * Names whose values are almost always secret; `key`, `auth` and `pass` also name tunable settings.
 */
const secretNamePattern =
  /(token|secret|password|passwd|passphrase|credentials?|api_?key|access_?key|private_?key)$/i

/** Whether a value of a tuned parameter is a secret. */
export const isSecretChoice = (name: string, value: string): boolean =>
  findSecrets(value).length > 0 || (secretNamePattern.test(name) && isSecretValue(name, value))

/** Headers without credentials. */
const harmlessHeaders: ReadonlySet<string> = new Set(
  'accept accept-charset accept-encoding accept-language cache-control connection content-encoding content-language content-length content-type expect host inference-header-content-length keep-alive origin pragma te traceparent transfer-encoding upgrade user-agent x-request-id'.split(
    ' ',
  ),
)

export const isSecretHeader = (name: string): boolean => !harmlessHeaders.has(name.toLowerCase())

/**
 * Whether the value of a secret name is a secret: those of MAX_TOKEN=512, USE_AUTH=true and
 * KEY_FILE=/etc/key are not.
 */
export function isSecretValue(name: string, value: string): boolean {
  const text = value.trim()
  if (text === '' || /^\$\{[^}]*\}$/.test(text) || /^\{\{.*\}\}$/.test(text)) return false
  const words = splitName(name)
  if (/^(true|false|yes|no|on|off|none|null)$/i.test(text)) return false
  if (/^[-+]?[\d.]{1,7}$/.test(text)) return words.some((word) => lowEntropyWord.test(word))
  return !(/^(file|path|dir|folder)$/.test(words.at(-1)!) && text.startsWith('/'))
}

/** Beginning and end of a secret in a text. */
type Span = readonly [from: number, to: number]

/** User info may contain an @; a URL normalised as a path has one slash. */
const userInfo = /\b[a-z][a-z0-9+.-]*:\/{1,2}([^\s/?#"'<>]+)@/dgi
const queryParameter = /[?&;#]([\w.~%-]+)=([^\s&#"'<>]+?)(?=[.,:;)]*(?:[\s&#"'<>]|$))/dg
const tokenPattern =
  /\b((?:sk|pk|rk)[-_][\w-]{16,}|hf_\w{16,}|bot\d{6,}:[\w-]{30,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)/dg
const privateKey =
  /(-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$))/dg
const bearer = /\bBearer\s+([\w+/=.~-]{6,})/dg
/** name=value, name: value, "name": "value", --name value; a value in quotes runs to their end. */
const assignment =
  /(?<![\w./-])(?:(-{1,2}[A-Za-z][\w.-]*)[ \t]+|-{0,2}([A-Za-z_][\w.-]*)["']?[ \t]*[:=][ \t]*)(?="([^"\n]*)"|'([^'\n]*)'|(?:(?:Bearer|Basic|Token)\s+)?([^\s"',;&|<>()[\]{}]+))/dg

/** Path of a URL that requests go to; files and buckets have names of other kinds. */
const pathOfUrl = /\b(?:https?|grpcs?|wss?|http\+unix):\/\/[^\s/?#"'<>]+(\/[^\s?#"'<>]*)/dgi
/** Segments that name the secret after them, without their separators. */
const namesNextSegment =
  /(^key|token|secret|password|passwd|passphrase|credential|apikey|accesskey|privatekey)s?$/
/** After those these are calls and versions all the same: /token/refresh, /keys/v1beta1. */
const plainSegment = /^([a-z]{1,15}(\.[a-z]{2,5})?|v\d+\w{0,6})$/i
/** Segments followed by a digest or commit, not a secret: /resolve/3f2a.../model.onnx. */
const namesDigest = /^(resolve|commits?|blobs?|tree|raw|revisions?|digests?)$/
/** Shorter segments after a telling name are not treated as secrets. */
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
function isRandomLooking(segment: string): boolean {
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
function findPathSecrets(path: string): Span[] {
  const spans: Span[] = []
  let before = ''
  for (const { 0: segment, index } of path.split(/[?#]/)[0]!.matchAll(/[^/\s]+/g)) {
    const text = decodeUri(segment)
    const isNamed =
      namesNextSegment.test(before) &&
      text.length >= minNamedSecretChars &&
      !plainSegment.test(text)
    // Placeholders and references are no secrets.
    if (
      !segment.includes('${') &&
      (isNamed || (!namesDigest.test(before) && isRandomLooking(text)))
    )
      spans.push([index, index + segment.length])
    before = text.toLowerCase().replace(/[^a-z0-9]/g, '')
  }
  return spans
}

/** Secrets recognisable in any text: in URLs, by their pattern, after `Bearer`. */
function findVisibleSecrets(input: string): Span[] {
  const text = blankReferences(input)
  const spans: Span[] = []
  for (const match of text.matchAll(pathOfUrl)) {
    const [offset] = match.indices![1]!
    for (const [from, to] of findPathSecrets(match[1]!)) spans.push([offset + from, offset + to])
  }
  for (const pattern of [userInfo, tokenPattern, privateKey, bearer])
    for (const match of text.matchAll(pattern)) spans.push(match.indices![1]! as Span)
  for (const match of text.matchAll(queryParameter))
    if (isSecretName(match[1]!) && isSecretValue(match[1]!, match[2]!))
      spans.push(match.indices![2]! as Span)
  return spans
}

/**
 * Recognisable secrets, and values of secret names, in users' texts: commands, bodies,
 * configuration files. Ordered, without overlaps and references.
 * @param isUrlPath the text is the path of a URL, not of a file
 */
export function findSecrets(input: string, isUrlPath = false): Span[] {
  const text = blankReferences(input)
  const spans = [...findVisibleSecrets(text), ...(isUrlPath ? findPathSecrets(text) : [])]
  for (const match of text.matchAll(assignment)) {
    const name = (match[1] ?? match[2])!
    const group = [3, 4, 5].find((index) => match[index] !== undefined)!
    const value = match[group]!
    if (isSecretName(name) && isSecretValue(name, value) && !/^[{$]/.test(value))
      spans.push(match.indices![group]! as Span)
  }
  return orderSpans(spans).filter(
    ([from, to]) => findReferences(input.slice(from, to)).length === 0,
  )
}

function orderSpans(spans: readonly Span[]): Span[] {
  const sorted = spans.filter(([from, to]) => to > from).sort((a, b) => a[0] - b[0] || b[1] - a[1])
  return sorted.filter(([from], i) => sorted.slice(0, i).every(([, end]) => from >= end))
}

/**
 * `${env:NAME}`: the value of an environment variable. `${file:token.txt}`: the content of a file;
 * with `#/predictor/url`, a secret in that experiment file.
 */
const reference = /(?<!\$)\$\{((?:env:[A-Za-z_]\w*)|(?:file:[^}]+))\}/g

/** Blanks the content of references, at equal length, so that it is not searched. */
const blankReferences = (text: string): string =>
  text.replace(reference, (whole) => `\${${'x'.repeat(whole.length - 3)}}`)

export const findReferences = (text: string): string[] =>
  [...text.matchAll(reference)].map(([, name]) => name!)

/** Whether the name inside `${...}` refers to a secret. */
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
const minHiddenLength = 5
/** Registered secrets of this process, in every encoding, longest first. */
let registeredSecrets: string[] = []
/** Those, byte by byte. */
let knownBytes: string[] = []

/** Registers a value that `redactSecrets` and `SecretFilter` hide from now on. */
export function registerSecret(value: string): void {
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
    decodeUri(form),
  ])
  registeredSecrets = [
    ...new Set([
      ...registeredSecrets,
      ...encoded.map((form) => form.trim()).filter((form) => form.length >= minHiddenLength),
    ]),
  ].sort((a, b) => b.length - a.length)
  knownBytes = registeredSecrets
    .map((form) => Buffer.from(form).toString('latin1'))
    .sort((a, b) => b.length - a.length)
}

/** Registers the recognisable secrets of a text, such as a URL or its path. */
export function registerSecretsIn(text: string, isUrlPath = false): void {
  for (const [from, to] of findSecrets(text, isUrlPath)) registerSecret(text.slice(from, to))
}

function decodeUri(text: string): string {
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

/** Hides registered and recognisable secrets in a text. */
export function redactSecrets(text: string): string {
  const cleared = replaceKnown(text, registeredSecrets)
  return orderSpans(findVisibleSecrets(cleared))
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
   * Returns the bytes that can be written. A possible start of a secret is withheld until it is
   * decided.
   */
  write(chunk: Buffer): Buffer {
    if (registeredSecrets.length === 0 && this.#held === '') return chunk
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

  /** The withheld bytes. */
  end(): Buffer {
    const rest = Buffer.from(this.#held, 'latin1')
    this.#held = ''
    return rest
  }
}
