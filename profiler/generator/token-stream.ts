import type { StreamTimes } from './sender.ts'
import { SseParser } from './sse.ts'

/** What is read of a chunk: https://platform.openai.com/docs/api-reference/chat-streaming, and of completions. */
interface Chunk {
  readonly error?: unknown
  readonly choices?: readonly {
    readonly text?: string
    readonly delta?: { readonly content?: string | null; readonly reasoning_content?: string | null; readonly reasoning?: string | null }
    readonly finish_reason?: string | null
  }[]
  readonly usage?: { readonly completion_tokens?: number } | null
}

/** One streamed completion: when its tokens came, and whether it came to its end. */
export class TokenStream {
  private readonly parser = new SseParser()
  private readonly atMs: number[] = []
  private counted: number | undefined
  private finished = false
  private done = false
  private wrong: string | undefined
  private endless = false

  /** True once any token has come. */
  get started(): boolean {
    return this.atMs.length > 0
  }

  /** @param atMs when the chunk came, ms from the send */
  push(chunk: Uint8Array, atMs: number): void {
    if (this.endless) return
    let events: string[] = []
    try {
      events = this.parser.push(chunk)
    } catch {
      this.endless = true
      this.wrong ??= 'bad answer' // An event without end.
    }
    for (const data of events) {
      if (data.trim() === '[DONE]') this.done = true
      else this.read(data, atMs)
    }
  }

  private read(data: string, atMs: number): void {
    let chunk: Chunk
    try {
      chunk = JSON.parse(data) as Chunk
    } catch {
      this.wrong ??= 'bad answer' // A chunk that is not JSON.
      return
    }
    if (chunk.error !== undefined && chunk.error !== null) this.wrong ??= 'error in stream'
    this.counted = chunk.usage?.completion_tokens ?? this.counted
    const choice = chunk.choices?.[0]
    if (choice === undefined) return
    if (choice.text || choice.delta?.content || choice.delta?.reasoning_content || choice.delta?.reasoning) this.atMs.push(atMs)
    if (choice.finish_reason) this.finished = true
  }

  /** The class of the error once the answer has ended; undefined for a good one. */
  get fault(): string | undefined {
    if (this.wrong !== undefined) return this.wrong
    if (!this.done && !this.finished) return this.started ? 'cut stream' : 'bad answer'
    return this.started ? undefined : 'no token'
  }

  /** Undefined without a token. */
  get times(): StreamTimes | undefined {
    const [first] = this.atMs
    if (first === undefined) return undefined
    return {
      firstTokenMs: first,
      lastTokenMs: this.atMs.at(-1)!,
      tokens: this.counted ?? this.atMs.length,
      gapsMs: this.atMs.slice(1).map((at, i) => at - this.atMs[i]!),
    }
  }
}
