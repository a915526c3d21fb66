import { performance } from 'node:perf_hooks'
import { type AnswerReader, HttpSender } from './http-sender.ts'
import { Http2Sender } from './http2-sender.ts'
import type { HttpTarget } from './messages.ts'
import type { Sender } from './sender.ts'
import { TokenStream } from './token-stream.ts'

/** Streamed completions of the OpenAI protocol, their tokens timed as their chunks come. */
export const sseSender = (target: HttpTarget): Sender => new (target.http2 ? Http2Sender : HttpSender)(target, () => new StreamedAnswer())

class StreamedAnswer implements AnswerReader {
  private readonly sentMs = performance.now()
  private readonly tokens = new TokenStream()

  read(chunk: Buffer): void {
    this.tokens.push(chunk, performance.now() - this.sentMs)
  }

  end() {
    return { failure: this.tokens.fault, stream: this.tokens.times }
  }

  broken(): string | undefined {
    return this.tokens.started ? 'cut stream' : undefined
  }
}
