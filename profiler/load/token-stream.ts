import { isRecord } from '../plain-record.ts'
import { chunkOf, isResponseEvent } from './response-events.ts'
import type { StreamTimes } from './sender.ts'
import { SseParser } from './sse.ts'

/**
 * Parsed chunk: https://platform.openai.com/docs/api-reference/chat-streaming, or a completion.
 * Sent by the server, so fields may have any type.
 */
interface Chunk {
  readonly error?: unknown
  /** 'error' of older servers, whose error is the chunk itself. */
  readonly object?: unknown
  readonly choices?: unknown
  readonly usage?: unknown
}

/** Error in a chunk; undefined or null without one. A chunk of an answer has choices or counts. */
function errorIn(chunk: Chunk): unknown {
  if (chunk.error !== undefined && chunk.error !== null) return chunk.error
  const isAnswer = chunk.choices !== undefined || chunk.usage !== undefined
  const hasWords = [field(chunk, 'message'), field(chunk, 'detail')].some(isText)
  return chunk.object === 'error' || (!isAnswer && hasWords) ? chunk : undefined
}

const field = (value: unknown, name: string): unknown => (isRecord(value) ? value[name] : undefined)
const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''

/**
 * A chunk of the answer. It may carry a token without text: half of a character, the possible start
 * of a stop sequence, an ignored end token.
 */
interface AnswerChunk {
  readonly atMs: number
  readonly text: string
  /** Number of tokens, where the server reports it. */
  readonly tokens: number | undefined
  /** Finish reason, where the answer ends with this chunk. */
  readonly finish: string | undefined
}

/**
 * Limit on tokens, so that a server cannot fill the memory. A UTF-16 character has three bytes at
 * most, a token one at least.
 */
const maxTokens = 1_000_000
const maxTokensPerCharacter = 3

/**
 * Tokens closer together than this were not generated one after the other: something collects the
 * answer before it reaches us. The fastest servers take about 300 µs per token.
 */
const minTokenMs = 0.05
/**
 * Longest text of a single token, without a second word, where the server does not count tokens.
 */
const maxTokenChars = 20

/**
 * Finish reasons of answers that the server gave up: vLLM, SGLang, LMDeploy, TensorRT-LLM,
 * OpenRouter, DeepSeek.
 */
const givenUp: ReadonlySet<unknown> = new Set([
  'abort',
  'error',
  'cancelled',
  'timeout',
  'insufficient_system_resource',
])

function countIn(usage: unknown, name: string): number | undefined {
  const count = field(usage, name)
  return Number.isSafeInteger(count) && (count as number) >= 0 && (count as number) <= maxTokens
    ? (count as number)
    : undefined
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, n) => all + n, 0)

/**
 * Tokens listed in a chunk: `token_ids` (vLLM's return_token_ids), or log probabilities of chat or
 * completions.
 */
function tokensTold(choice: unknown): number | undefined {
  const logprobs = field(choice, 'logprobs')
  const listed = [
    field(choice, 'token_ids'),
    field(logprobs, 'content'),
    field(logprobs, 'tokens'),
  ].find(Array.isArray)
  return listed !== undefined && listed.length > 0 ? listed.length : undefined
}

/**
 * Number of tokens in each chunk: as reported, else one where it has text. Further tokens in the
 * server's count are assigned to chunks without text, one each; the rest is shared by the length of
 * the texts. One token more than chunks is the end token, which is counted without a chunk.
 */
function tokensOfChunks(chunks: readonly AnswerChunk[], counted: number): number[] {
  const told = chunks.map(({ text, tokens }) => tokens ?? (text === '' ? 0 : 1))
  let left = counted - sum(told)
  const silent = chunks.flatMap(({ text, tokens }, i) =>
    tokens === undefined && text === '' ? [i] : [],
  )
  const within = silent.filter((i) => chunks[i]!.finish === undefined)
  for (const i of within.slice(0, Math.max(0, left))) told[i] = 1
  left -= Math.min(within.length, Math.max(0, left))
  // An answer of the requested length ends without an end token, unless that is the missing one.
  const end = silent.find(
    (i) => chunks[i]!.finish !== undefined && (left === 1 || chunks[i]!.finish !== 'length'),
  )
  if (end !== undefined && left > 0) {
    told[end] = 1
    left--
  }
  const open = chunks.map(({ text, tokens }) => (tokens === undefined ? text.length : 0))
  const length = sum(open)
  const spare = Math.min(left, maxTokensPerCharacter * length)
  if (spare <= 1) return told
  let [before, given] = [0, 0]
  return told.map((tokens, i) => {
    before += open[i]!
    const due = Math.round((spare * before) / length) - given
    given += due
    return tokens + due
  })
}

/** Names and arguments of tool calls, which consist of tokens too. */
function calledIn(delta: unknown): string {
  const calls = field(delta, 'tool_calls')
  const functions = [
    ...(Array.isArray(calls) ? calls.map((call) => field(call, 'function')) : []),
    field(delta, 'function_call'),
  ]
  return functions
    .flatMap((each) => [field(each, 'name'), field(each, 'arguments')].filter(isText))
    .join('')
}

/** Reasoning text; some servers send it twice, under an old and a new name. */
const thoughtIn = (delta: unknown): unknown =>
  [field(delta, 'reasoning_content'), field(delta, 'reasoning')].find(isText)

/** Reasoning tokens, as OpenAI and SGLang report them. */
const thoughtsCounted = (usage: unknown): number | undefined =>
  countIn(field(usage, 'completion_tokens_details'), 'reasoning_tokens') ??
  countIn(usage, 'reasoning_tokens')

/** One streamed completion: the times of its tokens, and whether it is complete. */
export class TokenStream {
  private readonly parser = new SseParser()
  private readonly chunks: AnswerChunk[] = []
  private counted: number | undefined
  private prompted: number | undefined
  private thoughts = 0
  /** Its reasoning is streamed, not only counted. */
  private thinksAloud = false
  /** Every chunk with text so far has reported the number of tokens up to it. */
  private countedEach = true
  private finished = false
  private done = false
  private wrong: string | undefined
  private endless = false

  /** Error reported by the server: a text, or an object with its message. */
  error: unknown

  /** True once any text has arrived. */
  started = false

  /** @param atMs arrival of the chunk, ms from the send */
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
      chunk = undefined // Not JSON.
    }
    if (!isRecord(chunk)) {
      this.wrong ??= 'bad answer'
      return
    }
    const said = isResponseEvent(chunk) ? chunkOf(chunk) : chunk
    if (said === undefined) return
    const { choices, usage } = said as Chunk
    const error = errorIn(said as Chunk)
    if (error !== undefined && error !== null) {
      this.wrong ??= 'error in stream'
      this.error ??= error
    }
    const before = this.counted ?? 0
    this.counted = countIn(usage, 'completion_tokens') ?? this.counted
    this.prompted = countIn(usage, 'prompt_tokens') ?? this.prompted
    this.thoughts = thoughtsCounted(usage) ?? this.thoughts
    const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
    if (isRecord(choice))
      this.readChoice(choice, atMs, (countIn(usage, 'completion_tokens') ?? before) - before)
  }

  /** @param more tokens that the server has counted since the chunk before */
  private readChoice(choice: Record<string, unknown>, atMs: number, more: number): void {
    const { delta } = choice
    const thought = thoughtIn(delta)
    this.thinksAloud ||= thought !== undefined
    const text = [
      choice.text,
      thought,
      field(delta, 'content'),
      field(delta, 'refusal'),
      calledIn(delta),
    ]
      .filter(isText)
      .join('')
    const reason = choice.finish_reason
    const finish = isText(reason) ? reason : undefined
    if (givenUp.has(finish)) this.wrong ??= 'aborted'
    this.finished ||= Boolean(reason)
    if (text !== '') this.countedEach &&= more > 0
    const since = this.countedEach
      ? Math.min(more, Math.max(1, maxTokensPerCharacter * text.length))
      : 0
    const tokens = tokensTold(choice) ?? (since > 0 ? since : undefined)
    this.started ||= text !== ''
    // The first chunk of many servers only names the role, before any token.
    const speaker =
      this.chunks.length === 0 &&
      text === '' &&
      tokens === undefined &&
      isText(field(delta, 'role'))
    if (!speaker || finish !== undefined) this.chunks.push({ atMs, text, tokens, finish })
  }

  /** Error class once the answer has ended; undefined for a good one. */
  get fault(): string | undefined {
    if (this.wrong !== undefined) return this.wrong
    if (!this.done && !this.finished) return this.started ? 'cut stream' : 'bad answer'
    return this.started || this.times !== undefined ? undefined : 'no token'
  }

  /** Text so far. */
  get text(): string {
    return this.chunks.map(({ text }) => text).join('')
  }

  /** Undefined without a token. Times start at the first observed token. */
  get times(): StreamTimes | undefined {
    const { chunks, counted } = this
    const withText = chunks.filter(({ text }) => text !== '').length
    const hidden = this.thinksAloud
      ? 0
      : Math.min(this.thoughts, Math.max(0, (counted ?? 0) - withText))
    const each = tokensOfChunks(chunks, (counted ?? 0) - hidden)
    const shown = chunks.findIndex(({ text }) => text !== '')
    const first = shown >= 0 ? shown : each.findIndex((tokens) => tokens > 0)
    if (first < 0) return undefined
    const unseen = hidden + sum(each.slice(0, first))
    const gapsMs: number[] = []
    let lastTokenMs = chunks[first]!.atMs
    for (let i = first + 1; i < chunks.length; i++) {
      const [{ atMs }, tokens] = [chunks[i]!, each[i]!]
      for (let token = 0; token < tokens; token++) gapsMs.push((atMs - lastTokenMs) / tokens)
      if (tokens > 0) lastTokenMs = atMs
    }
    const inOnePiece = this.cameAtOnce(each, first)
    return {
      firstTokenMs: chunks[first]!.atMs,
      lastTokenMs,
      tokens: counted ?? sum(each),
      ...(unseen > 0 && { unseen }),
      ...(this.prompted !== undefined && { inputTokens: this.prompted }),
      gapsMs: inOnePiece ? [] : gapsMs,
      ...(inOnePiece && { inOnePiece }),
    }
  }

  /**
   * Whether several tokens arrived without time between them. The end token may arrive later, also
   * after an answer in one piece.
   */
  private cameAtOnce(each: readonly number[], first: number): boolean {
    const { chunks, counted } = this
    const came = chunks.flatMap(({ atMs, text, finish }, i) =>
      i >= first && each[i]! > 0 && (text !== '' || finish === undefined)
        ? [{ atMs, tokens: each[i]! }]
        : [],
    )
    const tokens = sum(came.map((chunk) => chunk.tokens))
    const text = this.text.trim()
    if (counted === undefined && came.length === 1 && tokens === 1)
      return /\s/.test(text) || text.length > maxTokenChars
    const tookMs = tokens < 2 ? 0 : came.at(-1)!.atMs - came[0]!.atMs
    return tokens > 1 && tookMs <= minTokenMs * (tokens - 1)
  }
}
