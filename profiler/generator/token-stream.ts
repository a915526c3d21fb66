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

/** A chunk with text. */
interface TokenChunk {
  readonly atMs: number
  readonly text: string
  /** Where the server says how many tokens it carries. */
  readonly tokens: number | undefined
}

/** Beyond what any answer has: a server's word is not to fill the memory. A character of UTF-16 is three bytes at most, and a token one at least. */
const mostTokens = 1_000_000
const mostTokensPerCharacter = 3

function countIn(usage: unknown, name: string): number | undefined {
  const count = field(usage, name)
  return Number.isSafeInteger(count) && (count as number) >= 0 && (count as number) <= mostTokens ? (count as number) : undefined
}

/** Tokens that a chunk lists: `token_ids` (vLLM's return_token_ids), or log probabilities of chat or completions. */
function tokensTold(choice: unknown): number | undefined {
  const logprobs = field(choice, 'logprobs')
  const listed = [field(choice, 'token_ids'), field(logprobs, 'content'), field(logprobs, 'tokens')].find(Array.isArray)
  return listed !== undefined && listed.length > 0 ? listed.length : undefined
}

/**
 * How many tokens each chunk carries: as it says; else one, and what the server's count has beyond that shared out by the length of the texts. One
 * token more than chunks is the end of the text, which is counted and has no chunk.
 */
function tokensOfChunks(chunks: readonly TokenChunk[], counted: number | undefined): number[] {
  const told = chunks.map(({ tokens }) => tokens ?? 1)
  const open = chunks.map(({ text, tokens }) => (tokens === undefined ? text.length : 0))
  const length = open.reduce((sum, n) => sum + n, 0)
  const spare = Math.min((counted ?? 0) - told.reduce((sum, n) => sum + n, 0), mostTokensPerCharacter * length)
  if (spare <= 1 || length === 0) return told
  let [before, given] = [0, 0]
  return told.map((tokens, i) => {
    before += open[i]!
    const due = Math.round((spare * before) / length) - given
    given += due
    return tokens + due
  })
}

/** Names and arguments of the tools that a chunk calls: tokens like any other. */
function calledIn(delta: unknown): string {
  const calls = field(delta, 'tool_calls')
  const functions = [...(Array.isArray(calls) ? calls.map((call) => field(call, 'function')) : []), field(delta, 'function_call')]
  return functions.flatMap((each) => [field(each, 'name'), field(each, 'arguments')].filter(isText)).join('')
}

/** One streamed completion: when its tokens came, and whether it came to its end. */
export class TokenStream {
  private readonly parser = new SseParser()
  private readonly chunks: TokenChunk[] = []
  private counted: number | undefined
  private prompted: number | undefined
  /** Every chunk with text so far has said how many tokens there are up to it. */
  private countedEach = true
  private finished = false
  private done = false
  private wrong: string | undefined
  private endless = false

  /** True once any token has come. */
  get started(): boolean {
    return this.chunks.length > 0
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
    const before = this.counted ?? 0
    this.counted = countIn(usage, 'completion_tokens') ?? this.counted
    this.prompted = countIn(usage, 'prompt_tokens') ?? this.prompted
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
      const running = countIn(usage, 'completion_tokens')
      this.countedEach &&= running !== undefined
      const since = this.countedEach ? Math.min(running! - before, mostTokensPerCharacter * said.length) : 0
      this.chunks.push({ atMs, text: said, tokens: tokensTold(choice) ?? (since > 0 ? since : undefined) })
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
    return this.chunks.map(({ text }) => text).join('')
  }

  /** Undefined without a token. */
  get times(): StreamTimes | undefined {
    const { chunks, counted } = this
    const [first] = chunks
    if (first === undefined) return undefined
    const each = tokensOfChunks(chunks, counted)
    return {
      firstTokenMs: first.atMs,
      lastTokenMs: chunks.at(-1)!.atMs,
      tokens: counted ?? each.reduce((sum, n) => sum + n, 0),
      ...(this.prompted !== undefined && { inputTokens: this.prompted }),
      gapsMs: chunks.slice(1).flatMap(({ atMs }, i) => {
        const tokens = each[i + 1]!
        return new Array<number>(tokens).fill((atMs - chunks[i]!.atMs) / tokens)
      }),
    }
  }
}
