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
 * Finds the error reported by a chunk; undefined or null without one. A chunk with `message` or
 * `detail`, but with neither choices nor usage, is an error too.
 */
function findError(chunk: Chunk): unknown {
  if (chunk.error !== undefined && chunk.error !== null) return chunk.error
  const isAnswer = chunk.choices !== undefined || chunk.usage !== undefined
  const hasErrorText = [getField(chunk, 'message'), getField(chunk, 'detail')].some(isText)
  return chunk.object === 'error' || (!isAnswer && hasErrorText) ? chunk : undefined
}

const getField = (value: unknown, name: string): unknown =>
  isRecord(value) ? value[name] : undefined
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
  readonly finishReason: string | undefined
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
 * A single chunk with more characters, or with white space between words, has several tokens. Used
 * where the server reports no count.
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

function readCount(usage: unknown, name: string): number | undefined {
  const count = getField(usage, name)
  return Number.isSafeInteger(count) && (count as number) >= 0 && (count as number) <= maxTokens
    ? (count as number)
    : undefined
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, n) => all + n, 0)

/**
 * Counts the tokens listed in a chunk: `token_ids` (vLLM's return_token_ids), or log probabilities
 * of chat or completions.
 */
function countListedTokens(choice: unknown): number | undefined {
  const logprobs = getField(choice, 'logprobs')
  const list = [
    getField(choice, 'token_ids'),
    getField(logprobs, 'content'),
    getField(logprobs, 'tokens'),
  ].find(Array.isArray)
  return list !== undefined && list.length > 0 ? list.length : undefined
}

/**
 * Infers the number of tokens of each chunk:
 * 1. A chunk with a reported count keeps it. Another one has 1 token if it has text, else 0.
 * 2. If the server counts more tokens in all, chunks without text get one of them each.
 * 3. The chunk that ends the answer gets one for the end token, if it has no text.
 * 4. The remaining tokens are shared among the texts in proportion to their lengths.
 * 5. But a single remaining token is the end token, for which there is no chunk.
 * @param reportedTokens tokens of the answer, as the server counts them
 */
function inferTokens(chunks: readonly AnswerChunk[], reportedTokens: number): number[] {
  const perChunk = chunks.map(({ text, tokens }) => tokens ?? (text === '' ? 0 : 1))
  let unassignedTokens = reportedTokens - sum(perChunk)
  // 2.
  const withoutText = chunks.flatMap(({ text, tokens }, i) =>
    tokens === undefined && text === '' ? [i] : [],
  )
  const emptyChunks = withoutText.filter((i) => chunks[i]!.finishReason === undefined)
  for (const i of emptyChunks.slice(0, Math.max(0, unassignedTokens))) perChunk[i] = 1
  unassignedTokens -= Math.min(emptyChunks.length, Math.max(0, unassignedTokens))
  // 3. An answer of the requested length (finish reason 'length') normally has no end token. But if
  // exactly one token is unassigned, it is an end token.
  const endChunk = withoutText.find(
    (i) =>
      chunks[i]!.finishReason !== undefined &&
      (unassignedTokens === 1 || chunks[i]!.finishReason !== 'length'),
  )
  if (endChunk !== undefined && unassignedTokens > 0) {
    perChunk[endChunk] = 1
    unassignedTokens--
  }
  // 4.
  const textLengths = chunks.map(({ text, tokens }) => (tokens === undefined ? text.length : 0))
  const totalLength = sum(textLengths)
  const sharedTokens = Math.min(unassignedTokens, maxTokensPerCharacter * totalLength)
  if (sharedTokens <= 1) return perChunk // 5.
  let lengthSoFar = 0
  let assignedTokens = 0
  return perChunk.map((tokens, i) => {
    lengthSoFar += textLengths[i]!
    const share = Math.round((sharedTokens * lengthSoFar) / totalLength) - assignedTokens
    assignedTokens += share
    return tokens + share
  })
}

/** Joins the names and arguments of tool calls, which consist of tokens, too. */
function joinToolCallTexts(delta: unknown): string {
  const calls = getField(delta, 'tool_calls')
  const functions = [
    ...(Array.isArray(calls) ? calls.map((call) => getField(call, 'function')) : []),
    getField(delta, 'function_call'),
  ]
  return functions
    .flatMap((call) => [getField(call, 'name'), getField(call, 'arguments')].filter(isText))
    .join('')
}

/** Finds the reasoning text; some servers send it twice, under an old and a new name. */
const findReasoningText = (delta: unknown): unknown =>
  [getField(delta, 'reasoning_content'), getField(delta, 'reasoning')].find(isText)

/** Reads the number of reasoning tokens, as OpenAI and SGLang report it. */
const readReasoningTokens = (usage: unknown): number | undefined =>
  readCount(getField(usage, 'completion_tokens_details'), 'reasoning_tokens') ??
  readCount(usage, 'reasoning_tokens')

/** One streamed completion: the times of its tokens, and whether it is complete. */
export class TokenStream {
  private readonly parser = new SseParser()
  private readonly chunks: AnswerChunk[] = []
  private reportedTokens: number | undefined
  private promptTokens: number | undefined
  private reasoningTokens = 0
  /** The reasoning is streamed, not only counted. */
  private streamsReasoning = false
  /** Every chunk with text so far carried a cumulative `completion_tokens` that had increased. */
  private hasRunningCount = true
  private hasFinishReason = false
  private hasDoneMarker = false
  private firstFailure: string | undefined
  private isEventTooLong = false

  /** Error reported by the server: a text, or an object with its message. */
  serverError: unknown

  /** Whether any text has arrived. */
  hasText = false

  /** @param atMs arrival of the chunk, ms from the send */
  push(chunk: Uint8Array, atMs: number): void {
    if (this.isEventTooLong) return
    let events: string[] = []
    try {
      events = this.parser.push(chunk)
    } catch {
      this.isEventTooLong = true
      this.firstFailure ??= 'bad answer' // An event without end.
    }
    for (const data of events) {
      if (data.trim() === '[DONE]') this.hasDoneMarker = true
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
      this.firstFailure ??= 'bad answer'
      return
    }
    const chatChunk = isResponseEvent(chunk) ? toChatChunk(chunk) : chunk
    if (chatChunk === undefined) return
    const { choices, usage } = chatChunk as Chunk
    const error = findError(chatChunk as Chunk)
    if (error !== undefined && error !== null) {
      this.firstFailure ??= 'error in stream'
      this.serverError ??= error
    }
    const countedBefore = this.reportedTokens ?? 0
    this.reportedTokens = readCount(usage, 'completion_tokens') ?? this.reportedTokens
    this.promptTokens = readCount(usage, 'prompt_tokens') ?? this.promptTokens
    this.reasoningTokens = readReasoningTokens(usage) ?? this.reasoningTokens
    const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
    if (isRecord(choice)) this.readChoice(choice, atMs, (this.reportedTokens ?? 0) - countedBefore)
  }

  /**
   * @param countedSinceLast increase of the server's cumulative token count since the last chunk
   */
  private readChoice(
    choice: Record<string, unknown>,
    atMs: number,
    countedSinceLast: number,
  ): void {
    const { delta } = choice
    const reasoning = findReasoningText(delta)
    this.streamsReasoning ||= reasoning !== undefined
    const text = [
      choice.text,
      reasoning,
      getField(delta, 'content'),
      getField(delta, 'refusal'),
      joinToolCallTexts(delta),
    ]
      .filter(isText)
      .join('')
    const reason = choice.finish_reason
    const finishReason = isText(reason) ? reason : undefined
    if (abortReasons.has(finishReason)) this.firstFailure ??= 'aborted'
    this.hasFinishReason ||= Boolean(reason)
    if (text !== '') this.hasRunningCount &&= countedSinceLast > 0
    const newTokens = this.hasRunningCount
      ? Math.min(countedSinceLast, Math.max(1, maxTokensPerCharacter * text.length))
      : 0
    const tokens = countListedTokens(choice) ?? (newTokens > 0 ? newTokens : undefined)
    this.hasText ||= text !== ''
    // The first chunk of many servers only names the role, before any token.
    const namesRoleOnly =
      this.chunks.length === 0 &&
      text === '' &&
      tokens === undefined &&
      isText(getField(delta, 'role'))
    if (!namesRoleOnly || finishReason !== undefined)
      this.chunks.push({ atMs, text, tokens, finishReason })
  }

  /** Error class once the answer has ended; undefined for a good one. */
  get failure(): string | undefined {
    if (this.firstFailure !== undefined) return this.firstFailure
    if (!this.hasDoneMarker && !this.hasFinishReason)
      return this.hasText ? 'cut stream' : 'bad answer'
    return this.hasText || this.times !== undefined ? undefined : 'no token'
  }

  /** Text so far. */
  get text(): string {
    return this.chunks.map(({ text }) => text).join('')
  }

  /** Undefined without a token. Times start at the first observed token. */
  get times(): StreamTimes | undefined {
    const { chunks, reportedTokens } = this
    const textChunkCount = chunks.filter(({ text }) => text !== '').length
    // Reasoning tokens that were counted but not streamed. At most the reported count minus one
    // token per chunk with text.
    const unsentReasoningTokens = this.streamsReasoning
      ? 0
      : Math.min(this.reasoningTokens, Math.max(0, (reportedTokens ?? 0) - textChunkCount))
    const perChunk = inferTokens(chunks, (reportedTokens ?? 0) - unsentReasoningTokens)
    const firstText = chunks.findIndex(({ text }) => text !== '')
    const first = firstText >= 0 ? firstText : perChunk.findIndex((tokens) => tokens > 0)
    if (first < 0) return undefined
    const hiddenTokens = unsentReasoningTokens + sum(perChunk.slice(0, first))
    const gapsMs: number[] = []
    let lastTokenMs = chunks[first]!.atMs
    for (let i = first + 1; i < chunks.length; i++) {
      const [{ atMs }, tokens] = [chunks[i]!, perChunk[i]!]
      for (let token = 0; token < tokens; token++) gapsMs.push((atMs - lastTokenMs) / tokens)
      if (tokens > 0) lastTokenMs = atMs
    }
    const arrivedAtOnce = this.hasArrivedAtOnce(perChunk, first)
    return {
      firstTokenMs: chunks[first]!.atMs,
      lastTokenMs,
      tokens: reportedTokens ?? sum(perChunk),
      ...(hiddenTokens > 0 && { hiddenTokens }),
      ...(this.promptTokens !== undefined && { inputTokens: this.promptTokens }),
      gapsMs: arrivedAtOnce ? [] : gapsMs,
      ...(arrivedAtOnce && { arrivedAtOnce }),
    }
  }

  /**
   * Whether several tokens arrived without time between them. The end token may arrive later, also
   * after an answer in one piece.
   */
  private hasArrivedAtOnce(perChunk: readonly number[], first: number): boolean {
    const { chunks, reportedTokens } = this
    const arrivals = chunks.flatMap(({ atMs, text, finishReason }, i) =>
      i >= first && perChunk[i]! > 0 && (text !== '' || finishReason === undefined)
        ? [{ atMs, tokens: perChunk[i]! }]
        : [],
    )
    const tokens = sum(arrivals.map((chunk) => chunk.tokens))
    const text = this.text.trim()
    // Not counted by the server: the text shows whether the only chunk is several tokens.
    if (reportedTokens === undefined && arrivals.length === 1 && tokens === 1)
      return /\s/.test(text) || text.length > maxTokenChars
    const tookMs = tokens < 2 ? 0 : arrivals.at(-1)!.atMs - arrivals[0]!.atMs
    return tokens > 1 && tookMs <= minTokenMs * (tokens - 1)
  }
}
