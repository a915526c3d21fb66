import { performance } from 'node:perf_hooks'
import type { HttpTarget } from '../model/target.ts'
import type { AnswerReader } from './answer-reader.ts'
import { HttpSender } from './http-sender.ts'
import { Http2Sender } from './http2-sender.ts'
import type { Sender, StreamActivity } from './sender.ts'
import { TokenStream } from './token-stream.ts'

/**
 * Number of prompts that this process has sent. Each load continues where the last one ended,
 * because a repeated prompt would be served from the server's prefix cache.
 */
let sentPrompts = 0

/** Arrival of bytes by target, over all its connections and loads. */
const activityByTarget = new WeakMap<HttpTarget, StreamActivity>()

/** Streamed completions of the OpenAI protocol; tokens are timed as their chunks arrive. */
export function createSseSender(target: HttpTarget): Sender {
  const activity = activityByTarget.get(target) ?? {
    lastByteMs: Number.NEGATIVE_INFINITY,
    longestGapMs: 0,
  }
  activityByTarget.set(target, activity)
  const sender: Sender = new (target.http2 ? Http2Sender : HttpSender)(
    target,
    () => new StreamedAnswer(activity),
  )
  return {
    get counts() {
      return sender.counts
    },
    get activity() {
      return activity.longestGapMs > 0 ? activity : undefined
    },
    connect: () => sender.connect(),
    send: (_index, onEnd) => {
      const number = sentPrompts++
      const { inputTokens, requestClass } = target.bodies[number % target.bodies.length]!
      const request = sender.send(number, (failure, stream) =>
        onEnd(failure, stream && { ...(inputTokens !== undefined && { inputTokens }), ...stream }),
      )
      return { abandon: () => request.abandon(), ...(requestClass && { requestClass }) }
    },
    takeSamples: () => sender.takeSamples(),
    close: () => sender.close(),
  }
}

class StreamedAnswer implements AnswerReader {
  private readonly sentMs = performance.now()
  private readonly tokens = new TokenStream()
  private lastByteMs = this.sentMs

  constructor(private readonly activity: StreamActivity) {}

  read(chunk: Buffer): void {
    const nowMs = performance.now()
    this.activity.longestGapMs = Math.max(this.activity.longestGapMs, nowMs - this.lastByteMs)
    this.activity.lastByteMs = nowMs
    this.lastByteMs = nowMs
    this.tokens.push(chunk, nowMs - this.sentMs)
  }

  end() {
    return { failure: this.tokens.failure, stream: this.tokens.times }
  }

  classifyInterruption(): string | undefined {
    return this.tokens.hasText ? 'cut stream' : undefined
  }
}
