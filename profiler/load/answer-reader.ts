/** Checks answers as they arrive, without keeping them in memory. */
import type { StreamTimes } from './sender.ts'

/** Reads one answer with a 2xx status. */
export interface AnswerReader {
  /** The chunk belongs to the reader during the call only. */
  read(chunk: Buffer): void
  /** Ends the answer: the class of an error, undefined for a good answer. */
  end(): { readonly failure: string | undefined; readonly stream?: StreamTimes | undefined }
  /** Error class of an interrupted answer; undefined where that of the connection applies. */
  classifyInterruption(): string | undefined
}

/** Accepts an answer that contains `expect`. */
export class ExpectedTextReader implements AnswerReader {
  private isFound: boolean
  /** Last bytes so far, which may be the beginning of the string. */
  private tail = Buffer.alloc(0)

  constructor(private readonly expect: string | undefined) {
    this.isFound = expect === undefined
  }

  read(chunk: Buffer): void {
    if (this.isFound) return
    const text = this.tail.length === 0 ? chunk : Buffer.concat([this.tail, chunk])
    this.isFound = text.includes(this.expect!)
    if (!this.isFound)
      this.tail = Buffer.from(
        text.subarray(Math.max(0, text.length - Buffer.byteLength(this.expect!) + 1)),
      )
  }

  end() {
    return { failure: this.isFound ? undefined : 'bad answer' }
  }

  classifyInterruption(): undefined {}
}

/** Error class of an answer that exceeds the size limit. */
export const answerTooLarge = 'answer too large'

/** Error class of an answer with a wrong or unknown content encoding. */
export const badEncoding = 'bad encoding'

/** Resolves the outcome of a complete answer: an error class by its status, else by its reader. */
export const resolveOutcome = (
  status: number,
  reader: AnswerReader,
): ReturnType<AnswerReader['end']> =>
  status < 200 || status > 299 ? { failure: `status ${status}` } : reader.end()
