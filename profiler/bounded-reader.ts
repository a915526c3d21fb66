/**
 * Reads untrusted input within limits: files must be regular and no longer than the limit of their
 * type, texts must be UTF-8, and answers end at a maximum size. An error says what exceeded the
 * limit and which variable raises it.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/**
 * Input that was rejected: no regular file, too long, or no text. The message names it and the
 * limit.
 */
export class BoundError extends Error {
  constructor(
    source: string,
    /** What is wrong, to follow the name of the source: 'is a folder'. */
    readonly what: string,
    readonly hint: string,
  ) {
    super(`${source} ${what}`.trim())
    this.name = 'BoundError'
  }
}

/** Returns the hint of a BoundError; undefined for other errors. */
export const getHint = (error: unknown): string | undefined =>
  error instanceof BoundError ? error.hint : undefined

const MiB = 2 ** 20

/** Default limits on the size of files, bytes, by type. */
const maxFileBytes = {
  /** Written by people: experiments, price books, catalogues, certificates, manifests. */
  document: 4 * MiB,
  /** Written by programs: request bodies, vocabularies, recorded answers. */
  data: 256 * MiB,
  /** Traces, tables, results of other tools. May be UTF-16, as Excel exports it. */
  table: 256 * MiB,
  /** Graphs with their weights. */
  model: 1024 * MiB,
} as const
export type FileKind = keyof typeof maxFileBytes
const fileVariable = 'TUNE_MAX_FILE_MIB'

const answerVariable = 'TUNE_MAX_ANSWER_MIB'
/** Returns the limit on one answer of a server, bytes. */
export const getMaxAnswerBytes = (): number => readLimit(answerVariable) ?? 64 * MiB

/**
 * Returns the number of answers that may be in memory at once for a comparison: together at most
 * the limit on one answer, but at least one.
 * @param bytes size of one answer
 */
export const limitAnswersInMemory = (bytes: number): number =>
  Math.max(1, Math.floor(getMaxAnswerBytes() / Math.max(1, bytes)))

/** Reads a limit in MiB from the environment, and returns it in bytes. */
function readLimit(variable: string): number | undefined {
  const limitMiB = Number(process.env[variable])
  return limitMiB > 0 ? limitMiB * MiB : undefined
}

/**
 * Reads a regular file. Folders, devices, pipes and sockets are rejected without waiting for them.
 * @throws BoundError, and the file system's own errors
 */
export function readBytes(path: string, kind: FileKind): Buffer {
  const maxBytes = readLimit(fileVariable) ?? maxFileBytes[kind]
  const parts: Buffer[] = []
  let bytesRead = 0
  for (const part of readParts(path, maxBytes)) {
    parts.push(part)
    bytesRead += part.length
    // A file may grow, or report the size 0 as those in /proc do.
    if (bytesRead > maxBytes) throw createTooLongError(path, maxBytes)
  }
  return Buffer.concat(parts, bytesRead)
}

/**
 * Reads a regular file, a MiB at a time.
 * @param maxBytes a larger file is rejected before it is read
 */
function* readParts(path: string, maxBytes: number): Generator<Buffer> {
  // Without O_NONBLOCK, opening a pipe without a writer would block.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stats = fstatSync(file)
    if (!stats.isFile()) throw new BoundError(path, `is a ${describeType(stats)}`, 'name a file')
    if (stats.size > maxBytes) throw createTooLongError(path, maxBytes, stats.size)
    for (let bytesRead = 0; ; ) {
      const part = Buffer.allocUnsafe(Math.min(MiB, Math.max(1, stats.size - bytesRead) + 1))
      const length = readSync(file, part)
      if (length === 0) return
      yield part.subarray(0, length)
      bytesRead += length
    }
  } finally {
    closeSync(file)
  }
}

const [quote, backslash] = [0x22, 0x5c] // " and \
const [bracket, closingBracket] = [0x5b, 0x5d]
const [brace, closingBrace] = [0x7b, 0x7d]
/** Bytes allowed between the objects of a list, and the byte order mark of UTF-8. */
const separators = new Set(
  [...' \t\r\n,[]\u00ef\u00bb\u00bf'].map((letter) => letter.charCodeAt(0)),
)

/**
 * Parses the objects of a JSON list or of JSON Lines, one by one. The file may have any length,
 * because it is read only as far as the caller iterates. The limit of `data` applies to each
 * object.
 * @throws BoundError, and the file system's own errors
 */
export function* readObjects(path: string): Generator<unknown> {
  const maxBytes = readLimit(fileVariable) ?? maxFileBytes.data
  let [depth, inText, escaped, count] = [0, false, false, 0]
  /** Beginning of the current object, from earlier parts. */
  let pending: Buffer[] = []
  for (const part of readParts(path, Number.POSITIVE_INFINITY)) {
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
        if (!separators.has(byte))
          throw new BoundError(
            path,
            `is not a list of JSON objects: after object ${count} something else follows`,
            objectsHint,
          )
      } else if (byte === quote) inText = true
      else if (byte === closingBrace && --depth === 0) {
        count++
        yield parseObject(
          Buffer.concat([...pending, part.subarray(from, at + 1)]),
          `${path}, object ${count}`,
        )
        pending = []
      }
    }
    if (depth === 0) continue
    pending.push(part.subarray(from))
    if (pending.length * MiB > maxBytes)
      throw createTooLongError(`${path}, object ${count + 1}`, maxBytes)
  }
  if (depth > 0)
    throw new BoundError(path, `ends within its object ${count + 1}`, 'was it downloaded whole?')
}

function parseObject(bytes: Buffer, source: string): unknown {
  try {
    return parseUntrustedJson(decodeText(bytes, source))
  } catch (error) {
    throw error instanceof BoundError
      ? error
      : new BoundError(source, `is no JSON: ${(error as Error).message}`, objectsHint)
  }
}

const objectsHint = '[{...}, {...}], or one object a line'

/** Byte order mark at the beginning of a UTF-8 file: removed, or kept as the first character. */
export type ByteOrderMark = 'dropped' | 'kept'

/**
 * Reads a regular file as UTF-8 text. NUL bytes and other encodings are rejected, except that a
 * table may be UTF-16 with a byte order mark, as Excel and PowerShell write it.
 * @throws BoundError, and the file system's own errors
 */
export function readText(path: string, kind: FileKind, mark: ByteOrderMark = 'dropped'): string {
  const bytes = readBytes(path, kind)
  const encoding = detectUtf16(bytes)
  if (encoding === undefined || kind !== 'table') return decodeText(bytes, path, mark)
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes)
  } catch {
    throw new BoundError(path, 'is not UTF-16, although it begins like that', 'save it as UTF-8')
  }
}

/** Detects UTF-16 by its byte order mark. */
const detectUtf16 = (bytes: Buffer): 'utf-16le' | 'utf-16be' | undefined =>
  bytes[0] === 0xff && bytes[1] === 0xfe
    ? 'utf-16le'
    : bytes[0] === 0xfe && bytes[1] === 0xff
      ? 'utf-16be'
      : undefined

/** @throws BoundError for bytes that are not UTF-8 text, with the line of the first wrong one */
function decodeText(bytes: Buffer, path: string, mark: ByteOrderMark = 'dropped'): string {
  if (detectUtf16(bytes)) throw new BoundError(path, 'is in UTF-16', 'save it as UTF-8')
  const nul = bytes.indexOf(0)
  if (nul >= 0)
    throw new BoundError(
      `${path}:${findLine(bytes, nul)}:`,
      'a NUL byte, so this is not text',
      'name a text file, in UTF-8',
    )
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: mark === 'kept' }).decode(bytes)
  } catch {
    throw new BoundError(
      `${path}:${findLine(bytes, findInvalidByte(bytes))}:`,
      'not UTF-8',
      'save it as UTF-8',
    )
  }
}

/** Finds the line of a position, from 1. */
const findLine = (bytes: Buffer, at: number): number =>
  bytes.subarray(0, at).reduce((lines, byte) => lines + (byte === 10 ? 1 : 0), 1)

/**
 * Finds the position of the first byte that is no valid UTF-8: decoding and encoding changes it.
 */
function findInvalidByte(bytes: Buffer): number {
  const reencoded = Buffer.from(bytes.toString('utf8'))
  const at = bytes.findIndex((byte, i) => byte !== reencoded[i])
  return at < 0 ? bytes.length : at
}

const describeType = (stats: {
  isDirectory(): boolean
  isFIFO(): boolean
  isSocket(): boolean
}): string =>
  stats.isDirectory() ? 'folder' : stats.isFIFO() ? 'pipe' : stats.isSocket() ? 'socket' : 'device'

const createTooLongError = (path: string, maxBytes: number, size?: number): BoundError =>
  new BoundError(
    path,
    size === undefined
      ? `does not end within ${formatMebibytes(maxBytes)}`
      : `has ${formatMebibytes(size)}, more than the limit of ${formatMebibytes(maxBytes)}`,
    `is it the right file? ${fileVariable}=${Math.ceil((size ?? maxBytes) / MiB) + 1} in the environment raises the limit`,
  )

const formatMebibytes = (bytes: number): string => `${Math.round((bytes / MiB) * 10) / 10} MiB`

/** Creates the error for an answer over the limit. */
export const createAnswerTooLongError = (maxBytes: number): BoundError =>
  new BoundError(
    '',
    `more than ${formatMebibytes(maxBytes)} and no end`,
    `${answerVariable}=${Math.ceil(maxBytes / MiB) * 4} in the environment raises the limit`,
  )

/**
 * Reads the text of an answer. Rejects with a BoundError beyond `maxBytes`, and with the error of
 * the stream.
 */
export async function readAnswer(
  body: AsyncIterable<Uint8Array> | null,
  maxBytes: number = getMaxAnswerBytes(),
): Promise<string> {
  const parts: Uint8Array[] = []
  let bytesRead = 0
  for await (const part of body ?? []) {
    bytesRead += part.length
    if (bytesRead > maxBytes) throw createAnswerTooLongError(maxBytes)
    parts.push(part)
  }
  return Buffer.concat(parts, bytesRead).toString('utf8')
}

/**
 * Reads the lines of an answer of any length as they arrive, without line ends. Throws a BoundError
 * for a line over `maxBytes`, and the error of the stream.
 */
export async function* readLines(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number = getMaxAnswerBytes(),
): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  /** Beginning of an unfinished line, from earlier parts. */
  let pending: string[] = []
  let pendingLength = 0
  for await (const part of body) {
    const lines = decoder.decode(part, { stream: true }).split('\n')
    const last = lines.pop()!
    for (const line of lines) {
      yield [...pending, line].join('')
      pending = []
      pendingLength = 0
    }
    pendingLength += last.length
    if (pendingLength > maxBytes) throw createAnswerTooLongError(maxBytes)
    if (last !== '') pending.push(last)
  }
  if (pending.length > 0) yield pending.join('')
}

/**
 * Limit on nested lists and objects. No genuine document is deeper, and recursion overflows the
 * stack.
 */
const maxNesting = 500

/**
 * Parses untrusted JSON.
 * @throws BoundError for a document that is nested too deep, and SyntaxError
 */
export function parseUntrustedJson(text: string): unknown {
  // The fast count of brackets suffices for most documents.
  if (countBrackets(text) > maxNesting && measureNesting(text) > maxNesting)
    throw new BoundError('', `nested deeper than ${maxNesting} levels`, 'is it the right document?')
  return JSON.parse(text)
}

/** Counts opening brackets, and stops soon after `maxNesting`. */
function countBrackets(text: string): number {
  let count = 0
  for (const opening of ['[', '{'])
    for (
      let at = text.indexOf(opening);
      at >= 0 && count <= maxNesting;
      at = text.indexOf(opening, at + 1)
    )
      count++
  return count
}

/** Counts the largest number of brackets that are open at once, outside strings. */
function measureNesting(text: string): number {
  let open = 0
  let max = 0
  let isQuoted = false
  for (let i = 0; i < text.length; i++) {
    const letter = text.charCodeAt(i)
    if (isQuoted) {
      if (letter === backslash) i++
      else if (letter === quote) isQuoted = false
    } else if (letter === quote) isQuoted = true
    else if (letter === bracket || letter === brace) max = Math.max(max, ++open)
    else if (letter === closingBracket || letter === closingBrace) open--
  }
  return max
}
