/**
 * Parses HTTP/1.1 and HTTP/1.0 answers from a connection (RFC 9112), one at a time, from chunks of
 * any size.
 */

/** Head of an answer. */
interface AnswerHead {
  readonly status: number
  /** The connection can carry another request (section 9.3). */
  readonly isPersistent: boolean
  /** Idle timeout announced by the server. */
  readonly idleMs: number | undefined
  /** Content encoding of the body. */
  readonly encoding: string | undefined
  /** Length of the body in bytes; 'chunked', or 'to the end' of the connection (section 6.3). */
  readonly body: number | 'chunked' | 'to the end'
}

/** The received bytes are not HTTP/1. */
export class NotHttpError extends Error {
  readonly code = 'not HTTP/1'
}

/**
 * First bytes of every answer. A connection that begins otherwise fails without waiting for a head.
 */
const versionPrefix = 'HTTP/1.'
/** Longer heads, and longer lines of a chunked body, are not read. Assumed. */
const maxHeadBytes = 64 * 1024
const maxLineBytes = 4096
const empty = Buffer.alloc(0)

/** Incremental parser of one answer: `push` its bytes as they arrive. */
export class Http1Answer {
  head: AnswerHead | undefined
  /** Any of its bytes have arrived. */
  hasBegun = false
  isComplete = false
  /** Bytes arrived after its end, without a request. */
  hasExcessBytes = false
  private state: 'head' | 'body' | 'chunk size' | 'chunk' | 'chunk end' | 'trailers' = 'head'
  private pending = empty
  /** Bytes missing from the current chunk, or from a body with a content-length. */
  private bytesLeft = 0

  /** @param read receives the body as it arrives, without the chunked framing */
  constructor(private readonly read: (body: Buffer) => void) {}

  /**
   * Parses the next bytes of the connection.
   * @throws NotHttpError
   */
  push(bytes: Buffer): void {
    if (bytes.length > 0) this.hasBegun = true
    let chunk = this.pending.length === 0 ? bytes : Buffer.concat([this.pending, bytes])
    this.pending = empty
    while (chunk.length > 0) {
      if (this.isComplete) {
        this.hasExcessBytes = true
        return
      }
      const remainder = this.parseElement(chunk)
      if (remainder === undefined) {
        this.pending = Buffer.from(chunk)
        return
      }
      chunk = remainder
    }
  }

  /** Handles the end of the connection. True when it completes the answer. */
  handleConnectionEnd(): boolean {
    if (this.state === 'body' && this.head?.body === 'to the end') this.isComplete = true
    return this.isComplete
  }

  /**
   * Parses the next element (head, part of a body, line of a chunked body) and returns the bytes
   * after it; undefined while the element is incomplete.
   */
  private parseElement(chunk: Buffer): Buffer | undefined {
    switch (this.state) {
      case 'head':
        return this.readHead(chunk)
      case 'body': {
        if (this.head!.body === 'to the end') {
          this.read(chunk)
          return empty
        }
        const remainder = this.readBodyPart(chunk)
        this.isComplete = this.bytesLeft === 0
        return remainder
      }
      case 'chunk': {
        const remainder = this.readBodyPart(chunk)
        if (this.bytesLeft === 0) this.state = 'chunk end'
        return remainder
      }
      default: {
        const end = chunk.indexOf(0x0a)
        if (end < 0) {
          if (chunk.length > maxLineBytes)
            throw new NotHttpError('a line of a chunked body without end')
          return undefined
        }
        this.parseLine(chunk.toString('latin1', 0, end).trim())
        return chunk.subarray(end + 1)
      }
    }
  }

  private readBodyPart(chunk: Buffer): Buffer {
    const part = chunk.length <= this.bytesLeft ? chunk : chunk.subarray(0, this.bytesLeft)
    this.bytesLeft -= part.length
    if (part.length > 0) this.read(part)
    return chunk.subarray(part.length)
  }

  /** Parses a line of a chunked body: a chunk size, the end of a chunk, or a trailer. */
  private parseLine(text: string): void {
    if (this.state === 'chunk end') {
      if (text !== '') throw new NotHttpError('a chunk longer than it says')
      this.state = 'chunk size'
    } else if (this.state === 'chunk size') {
      const [, size] = /^([\da-f]{1,12})\s*(?:;|$)/i.exec(text) ?? []
      if (size === undefined) throw new NotHttpError(`the chunk size '${text.slice(0, 20)}'`)
      this.bytesLeft = Number.parseInt(size, 16)
      this.state = this.bytesLeft === 0 ? 'trailers' : 'chunk'
    } else this.isComplete = text === ''
  }

  private readHead(chunk: Buffer): Buffer | undefined {
    let end = chunk.indexOf('\r\n\r\n')
    let separatorLength = 4
    if (end < 0) {
      // Lines may end with LF alone (section 2.2).
      end = chunk.indexOf('\n\n')
      separatorLength = 2
    }
    if (end < 0) {
      if (
        chunk.length > maxHeadBytes ||
        !versionPrefix.startsWith(chunk.toString('latin1', 0, versionPrefix.length))
      )
        throw new NotHttpError(
          `an answer that begins with '${chunk.toString('latin1', 0, 20).replace(/[^ -~]/g, '.')}'`,
        )
      return undefined
    }
    const head = parseHeadCached(chunk.toString('latin1', 0, end))
    const remainder = chunk.subarray(end + separatorLength)
    // Interim answers: the final one follows (RFC 9110, section 15.2).
    if (head.status >= 100 && head.status < 200 && head.status !== 101) return remainder
    this.head = head
    if (head.body === 'chunked') this.state = 'chunk size'
    else {
      this.state = 'body'
      if (head.body === 0) this.isComplete = true
      else if (head.body !== 'to the end') this.bytesLeft = head.body
    }
    return remainder
  }
}

let lastText = ''
let lastHead: AnswerHead | undefined

/** Memoises the last parsed head, because the answers of a server mostly have equal heads. */
function parseHeadCached(text: string): AnswerHead {
  if (text === lastText && lastHead !== undefined) return lastHead
  lastHead = parseHead(text)
  lastText = text
  return lastHead
}

/**
 * Parses the status line and the header fields.
 * @throws NotHttpError
 */
function parseHead(text: string): AnswerHead {
  const [statusLine = '', ...lines] = text.replace(/\r?\n[ \t]+/g, ' ').split(/\r?\n/)
  const [, minor, code] = /^HTTP\/1\.(\d) (\d{3})(?: |$)/.exec(statusLine) ?? []
  if (code === undefined)
    throw new NotHttpError(
      `an answer that begins with '${statusLine.slice(0, 20).replace(/[^ -~]/g, '.')}'`,
    )
  const fields = new Map<string, string>()
  for (const line of lines) {
    const colon = line.indexOf(':')
    if (colon < 1) throw new NotHttpError(`the header line '${line.slice(0, 40)}'`)
    const name = line.slice(0, colon).trim().toLowerCase()
    const value = line.slice(colon + 1).trim()
    const earlier = fields.get(name)
    fields.set(name, earlier === undefined ? value : `${earlier}, ${value}`)
  }
  const status = Number(code)
  const body = resolveBodyLength(status, fields)
  const connection = (fields.get('connection') ?? '').toLowerCase().split(/\s*,\s*/)
  const [, idleS] = /timeout\s*=\s*"?(\d+)/i.exec(fields.get('keep-alive') ?? '') ?? []
  return {
    status,
    body,
    encoding: fields.get('content-encoding'),
    isPersistent:
      body !== 'to the end' &&
      status !== 101 &&
      !connection.includes('close') &&
      (minor !== '0' || connection.includes('keep-alive')),
    idleMs: idleS === undefined ? undefined : 1000 * Number(idleS),
  }
}

/** Framing of the body (RFC 9112, section 6.3). */
function resolveBodyLength(
  status: number,
  fields: ReadonlyMap<string, string>,
): AnswerHead['body'] {
  if (status < 200 || status === 204 || status === 304) return 0
  const coding = fields.get('transfer-encoding')
  if (coding !== undefined) return /(^|,)\s*chunked\s*$/i.test(coding) ? 'chunked' : 'to the end'
  const lengths = fields.get('content-length')
  if (lengths === undefined) return 'to the end'
  const [length, ...others] = new Set(lengths.split(/\s*,\s*/))
  if (!/^\d{1,15}$/.test(length!) || others.length > 0)
    throw new NotHttpError(`the content-length '${lengths.slice(0, 40)}'`)
  return Number(length)
}
