import type { StreamTimes } from './sender.ts'

/** Reads one answer with a 2xx status. */
export interface AnswerReader {
  /** The chunk is the reader's for the time of the call alone. */
  read(chunk: Buffer): void
  /** Its end: the class of an error, undefined for a good answer. */
  end(): { readonly failure: string | undefined; readonly stream?: StreamTimes | undefined }
  /** The class of an error that is the answer's rather than the connection's, which broke. */
  broken(): string | undefined
}

/** Good with the string that every good answer contains. */
export class WholeAnswer implements AnswerReader {
  private found: boolean
  /** As many bytes as may begin the string. */
  private tail = Buffer.alloc(0)

  constructor(private readonly expect: string | undefined) {
    this.found = expect === undefined
  }

  read(chunk: Buffer): void {
    if (this.found) return
    const text = this.tail.length === 0 ? chunk : Buffer.concat([this.tail, chunk])
    this.found = text.includes(this.expect!)
    if (!this.found)
      this.tail = Buffer.from(
        text.subarray(Math.max(0, text.length - Buffer.byteLength(this.expect!) + 1)),
      )
  }

  end() {
    return { failure: this.found ? undefined : 'bad answer' }
  }

  broken(): undefined {}
}

/** Error class of an answer longer than may be read. */
export const tooLarge = 'answer too large'

/** Error class of an answer that is not compressed as it says, or in a way that is not known. */
export const badEncoding = 'bad encoding'

/**
 * What an answer that came to its end is: an error class by its status, else what its reader says.
 */
export const outcomeOf = (status: number, reader: AnswerReader): ReturnType<AnswerReader['end']> =>
  status < 200 || status > 299 ? { failure: `status ${status}` } : reader.end()
