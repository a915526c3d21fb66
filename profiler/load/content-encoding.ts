/**
 * Decodes compressed bodies (RFC 9110, section 8.4) chunk by chunk, so that streams are read as
 * they arrive.
 */
import { pipeline } from 'node:stream/promises'
import {
  type BrotliDecompress,
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  type Gunzip,
  type Inflate,
} from 'node:zlib'

/** Flushes after each chunk, and accepts a body that ends early. */
const gzipFlush = { flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH }
const decoders: Readonly<Record<string, () => Gunzip | Inflate | BrotliDecompress>> = {
  gzip: () => createGunzip(gzipFlush),
  'x-gzip': () => createGunzip(gzipFlush),
  deflate: () => createInflate(gzipFlush),
  br: () =>
    createBrotliDecompress({
      flush: constants.BROTLI_OPERATION_FLUSH,
      finishFlush: constants.BROTLI_OPERATION_FLUSH,
    }),
}

const createDecoder = (encoding: string) => decoders[encoding.trim().toLowerCase()]?.()

export const isEncoded = (encoding: string | undefined): encoding is string =>
  encoding !== undefined && encoding.trim() !== '' && encoding.trim().toLowerCase() !== 'identity'

/** Decodes one body. The chunks of a plain body are passed on synchronously. */
export class BodyDecoder {
  private readonly decoder: ReturnType<typeof createDecoder>
  private isInvalid = false
  private hasEnded = false
  private onEnd: ((isInvalid: boolean) => void) | undefined

  /** @param read not called after `end` has reported, or after `abandon` */
  constructor(
    encoding: string | undefined,
    private readonly read: (chunk: Buffer) => void,
  ) {
    if (!isEncoded(encoding)) return
    this.decoder = createDecoder(encoding)
    this.isInvalid = this.decoder === undefined
    this.decoder?.on('data', (chunk: Buffer) => {
      if (!this.hasEnded) read(chunk)
    })
    this.decoder?.on('end', () => this.report())
    this.decoder?.on('error', () => {
      this.isInvalid = true
      this.report()
    })
  }

  write(chunk: Buffer): void {
    if (this.hasEnded || this.isInvalid) return
    // The decoder reads it later, while the connection may reuse its memory.
    if (this.decoder !== undefined) this.decoder.write(Buffer.from(chunk))
    else this.read(chunk)
  }

  /**
   * @param onEnd called once, with whether the body violated its encoding; at once for a plain body
   */
  end(onEnd: (isInvalid: boolean) => void): void {
    this.onEnd = onEnd
    if (this.decoder === undefined || this.isInvalid) this.report()
    else this.decoder.end()
  }

  abandon(): void {
    this.hasEnded = true
    this.decoder?.destroy()
  }

  private report(): void {
    const { onEnd } = this
    if (onEnd === undefined || this.hasEnded) return
    this.hasEnded = true
    onEnd(this.isInvalid)
  }
}

/**
 * Decodes a whole body. Rejects with an Error for a body that violates its encoding, and for
 * unknown encodings.
 */
export function decodeBody(
  body: AsyncIterable<Uint8Array>,
  encoding: string | undefined,
): AsyncIterable<Uint8Array> {
  return isEncoded(encoding) ? decodeChunks(body, encoding) : body
}

async function* decodeChunks(
  body: AsyncIterable<Uint8Array>,
  encoding: string,
): AsyncGenerator<Uint8Array> {
  const decoder = createDecoder(encoding)
  if (decoder === undefined) throw new Error(`the body is not valid ${encoding}`)
  let sourceError: { readonly error: unknown } | undefined
  async function* source() {
    try {
      yield* body
    } catch (error) {
      sourceError = { error }
      throw error
    }
  }
  // Each chunk is decoded once the last one was consumed, so a reader can stop a decompression
  // bomb.
  const ended = pipeline(source, decoder).catch(() => {})
  try {
    yield* decoder
  } catch {
    throw sourceError ? sourceError.error : new Error(`the body is not valid ${encoding}`)
  } finally {
    decoder.destroy()
    await ended
  }
}
