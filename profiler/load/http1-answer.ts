/**
 * Parses HTTP/1.1 and HTTP/1.0 answers from a connection (RFC 9112), one at a time, from chunks of
 * any size.
 */

/** Head of an answer. */
interface AnswerHead {
  readonly status: number
  /** The connection can carry another request (section 9.3). */
  readonly persistent: boolean
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

const maxHeadBytes = 64 * 1024
const maxLineBytes = 4096
const empty = Buffer.alloc(0)

/** One answer. */
export class Http1Answer {
  head: AnswerHead | undefined
  /** Any of its bytes have arrived. */
  begun = false
  complete = false
  /** Bytes arrived after its end, without a request. */
  excess = false
  private state: 'head' | 'body' | 'chunk size' | 'chunk' | 'chunk end' | 'trailers' = 'head'
  private pending = empty
  private left = 0

  constructor(private readonly read: (body: Buffer) => void) {}

  /** Throws a NotHttpError. */
  push(bytes: Buffer): void {
    if (bytes.length > 0) this.begun = true
    let chunk = this.pending.length === 0 ? bytes : Buffer.concat([this.pending, bytes])
    this.pending = empty
    while (chunk.length > 0) {
      if (this.complete) {
        this.excess = true
        return
      }
      const rest = this.step(chunk)
      if (rest === undefined) {
        this.pending = Buffer.from(chunk)
        return
      }
      chunk = rest
    }
  }

  /** Handles the end of the connection. True when it completes the answer. */
  ended(): boolean {
    if (this.state === 'body' && this.head?.body === 'to the end') this.complete = true
    return this.complete
  }

  /** Parses the next part and returns the rest; undefined until the part is complete. */
  private step(chunk: Buffer): Buffer | undefined {
    switch (this.state) {
      case 'head':
        return this.readHead(chunk)
      case 'body': {
        if (this.head!.body === 'to the end') {
          this.read(chunk)
          return empty
        }
        const rest = this.take(chunk)
        this.complete = this.left === 0
        return rest
      }
      case 'chunk': {
        const rest = this.take(chunk)
        if (this.left === 0) this.state = 'chunk end'
        return rest
      }
      default: {
        const end = chunk.indexOf(0x0a)
        if (end < 0) {
          if (chunk.length > maxLineBytes)
            throw new NotHttpError('a line of a chunked body without end')
          return undefined
        }
        this.line(chunk.toString('latin1', 0, end).trim())
        return chunk.subarray(end + 1)
      }
    }
  }

  private take(chunk: Buffer): Buffer {
    const part = chunk.length <= this.left ? chunk : chunk.subarray(0, this.left)
    this.left -= part.length
    if (part.length > 0) this.read(part)
    return chunk.subarray(part.length)
  }

  /** Parses a line of a chunked body: a chunk size, the end of a chunk, or a trailer. */
  private line(text: string): void {
    if (this.state === 'chunk end') {
      if (text !== '') throw new NotHttpError('a chunk longer than it says')
      this.state = 'chunk size'
    } else if (this.state === 'chunk size') {
      const [, size] = /^([\da-f]{1,12})\s*(?:;|$)/i.exec(text) ?? []
      if (size === undefined) throw new NotHttpError(`the chunk size '${text.slice(0, 20)}'`)
      this.left = Number.parseInt(size, 16)
      this.state = this.left === 0 ? 'trailers' : 'chunk'
    } else this.complete = text === ''
  }

  private readHead(chunk: Buffer): Buffer | undefined {
    let end = chunk.indexOf('\r\n\r\n')
    let length = 4
    if (end < 0) {
      // Lines may end with LF alone (section 2.2).
      end = chunk.indexOf('\n\n')
      length = 2
    }
    if (end < 0) {
      if (
        chunk.length > maxHeadBytes ||
        !/^H?T?T?P?/.test(chunk.toString('latin1', 0, 4)) ||
        !'HTTP/1.'.startsWith(chunk.toString('latin1', 0, 7))
      )
        throw new NotHttpError(
          `an answer that begins with '${chunk.toString('latin1', 0, 20).replace(/[^ -~]/g, '.')}'`,
        )
      return undefined
    }
    const head = headOf(chunk.toString('latin1', 0, end))
    const rest = chunk.subarray(end + length)
    // Interim answers: the final one follows (RFC 9110, section 15.2).
    if (head.status >= 100 && head.status < 200 && head.status !== 101) return rest
    this.head = head
    if (head.body === 'chunked') this.state = 'chunk size'
    else {
      this.state = 'body'
      if (head.body === 0) this.complete = true
      else if (head.body !== 'to the end') this.left = head.body
    }
    return rest
  }
}

let lastText = ''
let lastHead: AnswerHead | undefined

/** Caches parsed heads, as the answers of a server mostly begin alike. */
function headOf(text: string): AnswerHead {
  if (text === lastText && lastHead !== undefined) return lastHead
  lastHead = parsed(text)
  lastText = text
  return lastHead
}

function parsed(text: string): AnswerHead {
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
    const before = fields.get(name)
    fields.set(name, before === undefined ? value : `${before}, ${value}`)
  }
  const status = Number(code)
  const body = bodyOf(status, fields)
  const connection = (fields.get('connection') ?? '').toLowerCase().split(/\s*,\s*/)
  const [, idleS] = /timeout\s*=\s*"?(\d+)/i.exec(fields.get('keep-alive') ?? '') ?? []
  return {
    status,
    body,
    encoding: fields.get('content-encoding'),
    persistent:
      body !== 'to the end' &&
      status !== 101 &&
      !connection.includes('close') &&
      (minor !== '0' || connection.includes('keep-alive')),
    idleMs: idleS === undefined ? undefined : 1000 * Number(idleS),
  }
}

function bodyOf(status: number, fields: ReadonlyMap<string, string>): AnswerHead['body'] {
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
