import { performance } from 'node:perf_hooks'
import type { AnswerReader } from './answer-reader.ts'
import type { HttpTarget } from './child-messages.ts'
import { HttpSender } from './http-sender.ts'
import { Http2Sender } from './http2-sender.ts'
import type { Heard, Sender } from './sender.ts'
import { TokenStream } from './token-stream.ts'

/**
 * Number of prompts that this process has sent. Each load continues where the last one ended,
 * because a repeated prompt would be served from the server's prefix cache.
 */
let sent = 0

/** Arrival of bytes by target, over all its connections and loads. */
const heardByTarget = new WeakMap<HttpTarget, Heard>()

/** Streamed completions of the OpenAI protocol; tokens are timed as their chunks arrive. */
export function sseSender(target: HttpTarget): Sender {
  const heard = heardByTarget.get(target) ?? { lastMs: Number.NEGATIVE_INFINITY, longestWaitMs: 0 }
  heardByTarget.set(target, heard)
  const sender: Sender = new (target.http2 ? Http2Sender : HttpSender)(
    target,
    () => new StreamedAnswer(heard),
  )
  return {
    get counts() {
      return sender.counts
    },
    get heard() {
      return heard.longestWaitMs > 0 ? heard : undefined
    },
    connect: () => sender.connect(),
    send: (_index, ended) => {
      const number = sent++
      const { inputTokens, requestClass } = target.bodies[number % target.bodies.length]!
      const request = sender.send(number, (failure, stream) =>
        ended(failure, stream && { ...(inputTokens !== undefined && { inputTokens }), ...stream }),
      )
      return { abandon: () => request.abandon(), ...(requestClass && { requestClass }) }
    },
    takeSampled: () => sender.takeSampled(),
    close: () => sender.close(),
  }
}

class StreamedAnswer implements AnswerReader {
  private readonly sentMs = performance.now()
  private readonly tokens = new TokenStream()
  private lastMs = this.sentMs

  constructor(private readonly heard: Heard) {}

  read(chunk: Buffer): void {
    const nowMs = performance.now()
    this.heard.longestWaitMs = Math.max(this.heard.longestWaitMs, nowMs - this.lastMs)
    this.heard.lastMs = nowMs
    this.lastMs = nowMs
    this.tokens.push(chunk, nowMs - this.sentMs)
  }

  end() {
    return { failure: this.tokens.fault, stream: this.tokens.times }
  }

  broken(): string | undefined {
    return this.tokens.started ? 'cut stream' : undefined
  }
}
