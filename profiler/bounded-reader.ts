/**
 * What comes from outside, read within limits: a file is a regular one and no longer than its kind
 * may be, a text is UTF-8, and an answer ends by its size or its deadline if it does not end by
 * itself. What is refused says why, and how a limit is raised.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/**
 * Something from outside that is not read: no regular file, too long, no text. The message names it
 * and the limit.
 */
export class BoundError extends Error {
  constructor(
    place: string,
    /** What is wrong, to stand behind a name: 'is a folder'. */
    readonly what: string,
    readonly hint: string,
  ) {
    super(`${place} ${what}`.trim())
    this.name = 'BoundError'
  }
}

/** What to do about an error, where it says so. */
export const hintOf = (error: unknown): string | undefined =>
  error instanceof BoundError ? error.hint : undefined

const MiB = 2 ** 20

/** Most that is read of a file of each kind, bytes. */
const fileBytes = {
  /** What people write: experiments, price books, catalogues, certificates, manifests. */
  document: 4 * MiB,
  /** What machines write: request bodies, vocabularies, recorded answers. */
  data: 256 * MiB,
  /** Traces, recorded tables, results of other tools: also in UTF-16, as Excel exports them. */
  table: 256 * MiB,
  /** Graphs with their weights. */
  model: 1024 * MiB,
} as const
export type FileKind = keyof typeof fileBytes
const fileVariable = 'TUNE_MAX_FILE_MIB'

/** Most that is read of one answer of a server. */
const answerVariable = 'TUNE_MAX_ANSWER_MIB'
export const answerBytes = (): number => raised(answerVariable) ?? 64 * MiB

/**
 * How many answers of a size are held at once, to be compared: together no more than one may have;
 * never none. @param bytes of one
 */
export const answersHeld = (bytes: number): number =>
  Math.max(1, Math.floor(answerBytes() / Math.max(1, bytes)))

/** A limit that the user has set in the environment, bytes. */
function raised(variable: string): number | undefined {
  const given = Number(process.env[variable])
  return given > 0 ? given * MiB : undefined
}

/**
 * The bytes of a regular file. A folder, a device, a pipe or a socket is refused at once.
 * @throws BoundError, and the file system's own errors
 */
export function readBytes(path: string, kind: FileKind): Buffer {
  const most = raised(fileVariable) ?? fileBytes[kind]
  const parts: Buffer[] = []
  let read = 0
  for (const part of partsOf(path, most)) {
    parts.push(part)
    read += part.length
    // Files that grow, or that have no size of their own, as in /proc.
    if (read > most) throw tooLong(path, most)
  }
  return Buffer.concat(parts, read)
}

/**
 * A regular file, a MiB at a time. @param most bytes of it; one that has more is refused before any
 * is read
 */
function* partsOf(path: string, most: number): Generator<Buffer> {
  // A pipe without a writer would hold up the opening itself.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const about = fstatSync(file)
    if (!about.isFile()) throw new BoundError(path, `is a ${kindOf(about)}`, 'name a file')
    if (about.size > most) throw tooLong(path, most, about.size)
    for (let read = 0; ; ) {
      const part = Buffer.allocUnsafe(Math.min(MiB, Math.max(1, about.size - read) + 1))
      const length = readSync(file, part)
      if (length === 0) return
      yield part.subarray(0, length)
      read += length
    }
  } finally {
    closeSync(file)
  }
}

const [quote, backslash, bracket, brace] = ['"', '\\', '[', '{'].map((letter) =>
  letter.charCodeAt(0),
) as [number, number, number, number]
/** What may stand between the objects of a list, and the mark of UTF-8. */
const between = new Set([...' \t\r\n,[]\u00ef\u00bb\u00bf'].map((letter) => letter.charCodeAt(0)))

/**
 * The JSON objects of a list, or of JSON Lines. The file may be of any length: no more is read of
 * it than is asked for, and an object may be as long as a file of data.
 * @throws BoundError, and the file system's own errors
 */
export function* readObjects(path: string): Generator<unknown> {
  const most = raised(fileVariable) ?? fileBytes.data
  let [depth, inText, escaped, count] = [0, false, false, 0]
  let begun: Buffer[] = []
  for (const part of partsOf(path, Number.POSITIVE_INFINITY)) {
    let from = 0
    for (let at = 0; at < part.length; at++) {
      const byte = part[at]!
      if (inText) {
        if (escaped) escaped = false
        else if (byte === backslash) escaped = true
        else if (byte === quote) inText = false
      } else if (byte === brace) {
        if (depth++ === 0) from = at
      } else if (depth === 0) {
        if (!between.has(byte))
          throw new BoundError(
            path,
            `is no list of JSON objects: ${count} and then no further one`,
            objectsHint,
          )
      } else if (byte === quote) inText = true
      else if (byte === brace + 2 && --depth === 0) {
        count++
        yield objectOf(
          Buffer.concat([...begun, part.subarray(from, at + 1)]),
          `${path}, object ${count}`,
        )
        begun = []
      }
    }
    if (depth === 0) continue
    begun.push(part.subarray(from))
    if (begun.length * MiB > most) throw tooLong(`${path}, object ${count + 1}`, most)
  }
  if (depth > 0)
    throw new BoundError(path, `ends within its object ${count + 1}`, 'was it downloaded whole?')
}

function objectOf(bytes: Buffer, place: string): unknown {
  try {
    return jsonFrom(textOf(bytes, place))
  } catch (error) {
    throw error instanceof BoundError
      ? error
      : new BoundError(place, `is no JSON: ${(error as Error).message}`, objectsHint)
  }
}

const objectsHint = '[{...}, {...}], or one object a line'

/** The mark of UTF-8 at the beginning of a file: taken away, or kept as the first character. */
export type ByteOrderMark = 'dropped' | 'kept'

/**
 * The text of a regular file in UTF-8, with or without its mark; one that holds NUL or another
 * encoding is refused. A table may be in UTF-16 with its mark, as Excel and PowerShell write it.
 * @throws BoundError, and the file system's own errors
 */
export function readText(path: string, kind: FileKind, mark: ByteOrderMark = 'dropped'): string {
  const bytes = readBytes(path, kind)
  const encoding = wideEncoding(bytes)
  if (encoding === undefined || kind !== 'table') return textOf(bytes, path, mark)
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes)
  } catch {
    throw new BoundError(path, 'is not the UTF-16 that its first bytes say', 'save it as UTF-8')
  }
}

const wideEncoding = (bytes: Buffer): 'utf-16le' | 'utf-16be' | undefined =>
  bytes[0] === 0xff && bytes[1] === 0xfe
    ? 'utf-16le'
    : bytes[0] === 0xfe && bytes[1] === 0xff
      ? 'utf-16be'
      : undefined

/** @throws BoundError for what is no UTF-8 */
function textOf(bytes: Buffer, path: string, mark: ByteOrderMark = 'dropped'): string {
  if (wideEncoding(bytes)) throw new BoundError(path, 'is in UTF-16', 'save it as UTF-8')
  const zero = bytes.indexOf(0)
  if (zero >= 0)
    throw new BoundError(
      `${path}:${lineAt(bytes, zero)}:`,
      'a NUL byte: this is no text',
      'name a text file, in UTF-8',
    )
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: mark === 'kept' }).decode(bytes)
  } catch {
    throw new BoundError(
      `${path}:${lineAt(bytes, firstInvalid(bytes))}:`,
      'not UTF-8',
      'save it as UTF-8',
    )
  }
}

const lineAt = (bytes: Buffer, at: number): number =>
  bytes.subarray(0, at).reduce((lines, byte) => lines + (byte === 10 ? 1 : 0), 1)

/** Where the bytes first stop being what their text encodes to. */
function firstInvalid(bytes: Buffer): number {
  const again = Buffer.from(bytes.toString('utf8'))
  const at = bytes.findIndex((byte, i) => byte !== again[i])
  return at < 0 ? bytes.length : at
}

const kindOf = (about: {
  isDirectory(): boolean
  isFIFO(): boolean
  isSocket(): boolean
}): string =>
  about.isDirectory() ? 'folder' : about.isFIFO() ? 'pipe' : about.isSocket() ? 'socket' : 'device'

const tooLong = (path: string, most: number, size?: number): BoundError =>
  new BoundError(
    path,
    size === undefined
      ? `does not end within ${mebibytes(most)}`
      : `has ${mebibytes(size)}, and is read up to ${mebibytes(most)}`,
    `is it the right file? ${fileVariable}=${Math.ceil((size ?? most) / MiB) + 1} in the environment raises the limit`,
  )

const mebibytes = (bytes: number): string => `${Math.round((bytes / MiB) * 10) / 10} MiB`

/** Too long an answer, in words. */
export const answerTooLong = (most: number): BoundError =>
  new BoundError(
    '',
    `more than ${mebibytes(most)} and no end`,
    `${answerVariable}=${Math.ceil(most / MiB) * 4} in the environment raises the limit`,
  )

/**
 * The text of an answer, up to `most` bytes. Rejects with BoundError beyond, and with what broke
 * the stream.
 */
export async function readAnswer(
  body: AsyncIterable<Uint8Array> | null,
  most: number = answerBytes(),
): Promise<string> {
  const parts: Uint8Array[] = []
  let read = 0
  for await (const part of body ?? []) {
    read += part.length
    if (read > most) throw answerTooLong(most)
    parts.push(part)
  }
  return Buffer.concat(parts, read).toString('utf8')
}

/**
 * The lines of an answer that goes on, without their ends, each up to `most` bytes. Throws
 * BoundError for a longer one, and what broke the stream.
 */
export async function* readLines(
  body: AsyncIterable<Uint8Array>,
  most: number = answerBytes(),
): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest: string[] = []
  let kept = 0
  for await (const part of body) {
    const lines = decoder.decode(part, { stream: true }).split('\n')
    const last = lines.pop()!
    for (const line of lines) {
      yield [...rest, line].join('')
      rest = []
      kept = 0
    }
    kept += last.length
    if (kept > most) throw answerTooLong(most)
    if (last !== '') rest.push(last)
  }
  if (rest.length > 0) yield rest.join('')
}

/**
 * Lists and objects of a document within each other: none that a program means goes so deep, and
 * whatever walks it would run out of stack.
 */
const maxNesting = 500

/**
 * The document of a JSON text from outside.
 * @throws BoundError for one that is nested too deep, and SyntaxError
 */
export function jsonFrom(text: string): unknown {
  // Few documents have as many brackets, and those are counted fast.
  if (brackets(text) > maxNesting && nesting(text) > maxNesting)
    throw new BoundError(
      '',
      `nested deeper than ${maxNesting} levels`,
      'is it the document that it should be?',
    )
  return JSON.parse(text)
}

/** Opening brackets of a text, no more than one beyond `mostNested`. */
function brackets(text: string): number {
  let found = 0
  for (const opening of ['[', '{'])
    for (
      let at = text.indexOf(opening);
      at >= 0 && found <= maxNesting;
      at = text.indexOf(opening, at + 1)
    )
      found++
  return found
}

/** How many brackets of a JSON text are open at most. */
function nesting(text: string): number {
  let open = 0
  let most = 0
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    const letter = text.charCodeAt(i)
    if (quoted) {
      if (letter === backslash) i++
      else if (letter === quote) quoted = false
    } else if (letter === quote) quoted = true
    else if (letter === bracket || letter === brace) most = Math.max(most, ++open)
    else if (letter === bracket + 2 || letter === brace + 2) open--
  }
  return most
}
