/**
 * Times the tokens of a streamed completion, and decides whether the stream is a good answer.
 * Servers differ in what a chunk carries, so the number of its tokens is inferred where it is not
 * reported.
 */
import { isRecord } from '../plain-record.ts'
import { isResponseEvent, toChatChunk } from './response-events.ts'
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

/**
 * Error reported by a chunk; undefined or null without one. A chunk with a message but without
 * choices and usage is an error, too.
 */
function errorIn(chunk: Chunk): unknown {
  if (chunk.error !== undefined && chunk.error !== null) return chunk.error
  const isAnswer = chunk.choices !== undefined || chunk.usage !== undefined
  const hasWords = [field(chunk, 'message'), field(chunk, 'detail')].some(isText)
  return chunk.object === 'error' || (!isAnswer && hasWords) ? chunk : undefined
}

const field = (value: unknown, name: string): unknown => (isRecord(value) ? value[name] : undefined)
const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''

/**
 * A chunk of the answer. Its token may have no text: it is half of a character, may start a stop
 * sequence, or is an ignored end token.
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
 * Limit on tokens, so that a wrong count cannot fill the memory. A UTF-16 character has at most
 * three bytes in UTF-8, and a token has at least one byte.
 */
const maxTokens = 1_000_000
const maxTokensPerCharacter = 3

/**
 * Tokens closer together than this did not arrive as they were generated: a proxy or the server
 * buffers the answer. The fastest servers take about 300 µs per token.
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
const abortReasons: ReadonlySet<unknown> = new Set([
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
function countListedTokens(choice: unknown): number | undefined {
  const logprobs = field(choice, 'logprobs')
  const listed = [
    field(choice, 'token_ids'),
    field(logprobs, 'content'),
    field(logprobs, 'tokens'),
  ].find(Array.isArray)
  return listed !== undefined && listed.length > 0 ? listed.length : undefined
}

/**
 * Infers the number of tokens of each chunk: as reported, else one where it has text. Where the
 * server counts more tokens in all, chunks without text get one each, and the rest is shared in
 * proportion to the length of the texts. A single remaining token is the end token, which has no
 * chunk.
 * @param counted tokens of the answer, as the server counts them
 */
function inferTokens(chunks: readonly AnswerChunk[], counted: number): number[] {
  const perChunk = chunks.map(({ text, tokens }) => tokens ?? (text === '' ? 0 : 1))
  let left = counted - sum(perChunk)
  const withoutText = chunks.flatMap(({ text, tokens }, i) =>
    tokens === undefined && text === '' ? [i] : [],
  )
  const beforeEnd = withoutText.filter((i) => chunks[i]!.finish === undefined)
  for (const i of beforeEnd.slice(0, Math.max(0, left))) perChunk[i] = 1
  left -= Math.min(beforeEnd.length, Math.max(0, left))
  // An answer of the requested length ends without an end token, unless that is the missing one.
  const end = withoutText.find(
    (i) => chunks[i]!.finish !== undefined && (left === 1 || chunks[i]!.finish !== 'length'),
  )
  if (end !== undefined && left > 0) {
    perChunk[end] = 1
    left--
  }
  const open = chunks.map(({ text, tokens }) => (tokens === undefined ? text.length : 0))
  const length = sum(open)
  const spare = Math.min(left, maxTokensPerCharacter * length)
  if (spare <= 1) return perChunk
  let [lengthSoFar, assigned] = [0, 0]
  return perChunk.map((tokens, i) => {
    lengthSoFar += open[i]!
    const due = Math.round((spare * lengthSoFar) / length) - assigned
    assigned += due
    return tokens + due
  })
}

/** Names and arguments of tool calls, which consist of tokens too. */
function toolCallText(delta: unknown): string {
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
const reasoningText = (delta: unknown): unknown =>
  [field(delta, 'reasoning_content'), field(delta, 'reasoning')].find(isText)

/** Reasoning tokens, as OpenAI and SGLang report them. */
const countReasoning = (usage: unknown): number | undefined =>
  countIn(field(usage, 'completion_tokens_details'), 'reasoning_tokens') ??
  countIn(usage, 'reasoning_tokens')

/** One streamed completion: the times of its tokens, and whether it is complete. */
export class TokenStream {
  private readonly parser = new SseParser()
  private readonly chunks: AnswerChunk[] = []
  private counted: number | undefined
  private prompted: number | undefined
  private reasoningTokens = 0
  /** The reasoning is streamed, not only counted. */
  private streamsReasoning = false
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
    const chatChunk = isResponseEvent(chunk) ? toChatChunk(chunk) : chunk
    if (chatChunk === undefined) return
    const { choices, usage } = chatChunk as Chunk
    const error = errorIn(chatChunk as Chunk)
    if (error !== undefined && error !== null) {
      this.wrong ??= 'error in stream'
      this.error ??= error
    }
    const before = this.counted ?? 0
    this.counted = countIn(usage, 'completion_tokens') ?? this.counted
    this.prompted = countIn(usage, 'prompt_tokens') ?? this.prompted
    this.reasoningTokens = countReasoning(usage) ?? this.reasoningTokens
    const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
    if (isRecord(choice))
      this.readChoice(choice, atMs, (countIn(usage, 'completion_tokens') ?? before) - before)
  }

  /** @param more tokens that the server has counted since the chunk before */
  private readChoice(choice: Record<string, unknown>, atMs: number, more: number): void {
    const { delta } = choice
    const reasoning = reasoningText(delta)
    this.streamsReasoning ||= reasoning !== undefined
    const text = [
      choice.text,
      reasoning,
      field(delta, 'content'),
      field(delta, 'refusal'),
      toolCallText(delta),
    ]
      .filter(isText)
      .join('')
    const reason = choice.finish_reason
    const finish = isText(reason) ? reason : undefined
    if (abortReasons.has(finish)) this.wrong ??= 'aborted'
    this.finished ||= Boolean(reason)
    if (text !== '') this.countedEach &&= more > 0
    const since = this.countedEach
      ? Math.min(more, Math.max(1, maxTokensPerCharacter * text.length))
      : 0
    const tokens = countListedTokens(choice) ?? (since > 0 ? since : undefined)
    this.started ||= text !== ''
    // The first chunk of many servers only names the role, before any token.
    const namesRoleOnly =
      this.chunks.length === 0 &&
      text === '' &&
      tokens === undefined &&
      isText(field(delta, 'role'))
    if (!namesRoleOnly || finish !== undefined) this.chunks.push({ atMs, text, tokens, finish })
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
    const hidden = this.streamsReasoning
      ? 0
      : Math.min(this.reasoningTokens, Math.max(0, (counted ?? 0) - withText))
    const each = inferTokens(chunks, (counted ?? 0) - hidden)
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
    const inOnePiece = this.arrivedAtOnce(each, first)
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
  private arrivedAtOnce(each: readonly number[], first: number): boolean {
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
