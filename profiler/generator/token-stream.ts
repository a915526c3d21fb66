import { isRecord } from '../plain-record.ts'
import type { StreamTimes } from './sender.ts'
import { SseParser } from './sse.ts'

/** What is read of a chunk: https://platform.openai.com/docs/api-reference/chat-streaming, and of completions. It is the server's word, of any type. */
interface Chunk {
  readonly error?: unknown
  readonly choices?: unknown
  readonly usage?: unknown
}

const field = (value: unknown, name: string): unknown => (isRecord(value) ? value[name] : undefined)
const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''

/** Names and arguments of the tools that a chunk calls: tokens like any other. */
function calledIn(delta: unknown): string {
  const calls = field(delta, 'tool_calls')
  const functions = [...(Array.isArray(calls) ? calls.map((call) => field(call, 'function')) : []), field(delta, 'function_call')]
  return functions.flatMap((each) => [field(each, 'name'), field(each, 'arguments')].filter(isText)).join('')
}

/** One streamed completion: when its tokens came, and whether it came to its end. */
export class TokenStream {
  private readonly parser = new SseParser()
  private readonly atMs: number[] = []
  private readonly texts: string[] = []
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
    let chunk: unknown
    try {
      chunk = JSON.parse(data)
    } catch {
      chunk = undefined // No JSON.
    }
    if (!isRecord(chunk)) {
      this.wrong ??= 'bad answer'
      return
    }
    const { error, choices, usage } = chunk as Chunk
    if (error !== undefined && error !== null) this.wrong ??= 'error in stream'
    const counted = field(usage, 'completion_tokens')
    if (Number.isSafeInteger(counted) && (counted as number) >= 0) this.counted = counted as number
    const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
    const delta = field(choice, 'delta')
    const texts = [
      field(choice, 'text'),
      field(delta, 'content'),
      field(delta, 'reasoning_content'),
      field(delta, 'reasoning'),
      field(delta, 'refusal'),
    ]
    const said = [...texts, calledIn(delta)].find(isText)
    if (said !== undefined) {
      this.atMs.push(atMs)
      this.texts.push(said)
    }
    if (field(choice, 'finish_reason')) this.finished = true
  }

  /** The class of the error once the answer has ended; undefined for a good one. */
  get fault(): string | undefined {
    if (this.wrong !== undefined) return this.wrong
    if (!this.done && !this.finished) return this.started ? 'cut stream' : 'bad answer'
    return this.started ? undefined : 'no token'
  }

  /** What it said so far. */
  get text(): string {
    return this.texts.join('')
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
