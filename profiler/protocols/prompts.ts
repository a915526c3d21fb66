/**
 * Generates prompts for language models: random lengths, mixes of classes, lengths from a trace,
 * and conversations, generated or recorded.
 */
import { defaultCounts } from '../payload-source.ts'
import { PayloadError } from '../profiler-errors.ts'
import {
  type LengthDistribution,
  type PromptSpec,
  type RecordedPrompt,
  recordedBlockTokens,
} from '../prompt-spec.ts'
import { createUniform, sampleNormal, type Uniform } from '../seeded-random.ts'
import { type ContextFit, findMaxPromptTokens, fitLengths, fitsContext } from './context-fit.ts'
import { type ConversationTurn, readConversations } from './conversations.ts'
import { drawWord } from './payload-pool.ts'
import { drawClasses } from './request-classes.ts'
import { type CountTokens, createTokenCounter, loadTokenCounter } from './tokenizer.ts'

export interface Prompt {
  /** The whole text. */
  readonly text: string
  /**
   * Messages of user and model in turn, the last one by the user; joined by spaces, they are the
   * text.
   */
  readonly messages: readonly string[]
  readonly inputTokens: number
  /** Requested output tokens. */
  readonly outputTokens: number
  /** Name of its class, where the spec has classes. */
  readonly requestClass?: string
  /** Its lengths were cut to fit the context. */
  readonly isCut?: true
  /**
   * Conversations since the previous prompt that were ended early or skipped to fit the context.
   * Counted here so that they can be summed over the pool.
   */
  readonly endedConversations?: number
}

/**
 * Chat-like lengths, about those of ShareGPT's conversations (Kwon et al., SOSP 2023, section 6.1).
 */
export const defaultPrompts: PromptSpec = {
  inputTokens: { kind: 'lognormal', median: 120, sigma: 0.9 },
  outputTokens: { kind: 'lognormal', median: 160, sigma: 0.7 },
}

/**
 * Generates prompts from common English words. With a tokenizer, each prompt has exactly its number
 * of tokens. Without one a word counts as a token, which most tokenizers keep whole, so the
 * server's own count (`usage`) may differ by a few per cent. The server's chat template adds more.
 * Recorded conversations are used verbatim, fewer than `count` where the file has fewer.
 * @param fit context that prompt and answer must fit; absent: lengths stay as drawn
 * @throws PayloadError for an unreadable tokenizer or file, and where no text has the length
 */
export function makePrompts(
  spec: PromptSpec,
  seed: number,
  count: number = defaultCounts.prompts,
  fit?: ContextFit,
): Prompt[] {
  if (!Number.isInteger(count) || count < 1)
    throw new PayloadError(`a payload pool needs at least one prompt, not ${count}`)
  const uniform = createUniform(seed)
  if (spec.file !== undefined) return replayConversations(spec, spec.file, { count, uniform, fit })
  const makeText =
    spec.tokenizer === undefined ? makeWords : createExactText(loadTokenCounter(spec.tokenizer))
  const prefixTokens = Math.min(
    spec.sharedPrefixTokens ?? 0,
    fit === undefined ? Number.POSITIVE_INFINITY : findMaxPromptTokens(fit) - 1,
  )
  const prefixes = Array.from({ length: prefixTokens > 0 ? (spec.prefixes ?? 1) : 0 }, () =>
    makeText(uniform, prefixTokens, ''),
  )
  const createBeginning = (i: number): PromptBeginning => ({
    messages: [],
    text: prefixes[i % Math.max(1, prefixes.length)] ?? '',
    tokens: prefixes.length > 0 ? prefixTokens : 0,
  })
  const context: PoolContext = { createBeginning, count, uniform, makeText, fit }
  if (spec.recorded !== undefined)
    return replayTrace(spec.recorded, createBlockBuilder(seed, makeText), context)
  if (spec.classes !== undefined)
    return drawClasses(spec.classes, count, uniform).map((promptClass, i) => ({
      ...drawPrompt(promptClass, createBeginning(i), context),
      requestClass: promptClass.name,
    }))
  return spec.turns === undefined
    ? Array.from({ length: count }, (_, i) => drawPrompt(spec, createBeginning(i), context))
    : drawConversations(spec, spec.turns, context)
}

/** What all prompts of a pool share. */
interface PoolContext {
  readonly createBeginning: (i: number) => PromptBeginning
  readonly count: number
  readonly uniform: Uniform
  readonly makeText: MakeText
  readonly fit: ContextFit | undefined
}

/** Text before a prompt: the conversation so far, or a prefix that prompts share. */
interface PromptBeginning {
  readonly messages: readonly string[]
  readonly text: string
  readonly tokens: number
}

/** Draws a prompt that starts a conversation. A shared prefix counts as input tokens. */
function drawPrompt(
  distributions: Pick<PromptSpec, 'inputTokens' | 'outputTokens'>,
  beginning: PromptBeginning,
  { uniform, makeText, fit }: PoolContext,
): Prompt {
  const inputTokens = Math.max(beginning.tokens + 1, drawLength(distributions.inputTokens, uniform))
  const lengths = fitLengths(fit, inputTokens, drawLength(distributions.outputTokens, uniform))
  return {
    ...lengths,
    ...appendMessage(beginning, lengths.inputTokens - beginning.tokens, uniform, makeText),
  }
}

/** Appends a message of `ownTokens` tokens to the conversation so far. */
function appendMessage(
  { messages, text: before, tokens }: PromptBeginning,
  ownTokens: number,
  uniform: Uniform,
  makeText: MakeText,
) {
  const text = makeText(uniform, tokens + ownTokens, before, ownTokens)
  const lastMessage = messages.length === 0 ? text : text.slice(before.length).trimStart()
  return { text, messages: [...messages, lastMessage], inputTokens: tokens + ownTokens }
}

/**
 * Generates interleaved conversations: one turn of each, round robin. Each has a random number of
 * turns, fewer where the context is full. A new conversation replaces one that ends.
 */
function drawConversations(
  spec: PromptSpec,
  turns: LengthDistribution,
  { createBeginning, count, uniform, makeText, fit }: PoolContext,
): Prompt[] {
  const conversations = Array.from({ length: spec.conversations ?? defaultConversations }, () => ({
    turnsLeft: 0,
    before: createBeginning(0),
  }))
  let startedConversations = 0
  return Array.from({ length: count }, (_, i) => {
    const conversation = conversations[i % conversations.length]!
    const [ownTokens, outputTokens] = [
      drawLength(spec.inputTokens, uniform),
      drawLength(spec.outputTokens, uniform),
    ]
    const inputTokens = conversation.before.tokens + ownTokens
    const isContextFull =
      fit !== undefined &&
      conversation.turnsLeft > 0 &&
      !fitsContext(fit, inputTokens, outputTokens, conversation.before.messages.length + 1)
    if (
      conversation.turnsLeft === 0 ||
      isContextFull ||
      inputTokens + outputTokens > maxDrawnTokens
    ) {
      conversation.turnsLeft = drawLength(turns, uniform)
      conversation.before = createBeginning(startedConversations++)
    }
    const { before } = conversation
    const isFirst = before.messages.length === 0
    const lengths = isFirst
      ? fitLengths(fit, Math.max(before.tokens + 1, ownTokens), outputTokens)
      : { inputTokens: before.tokens + ownTokens, outputTokens }
    const request = appendMessage(before, lengths.inputTokens - before.tokens, uniform, makeText)
    // The answer of the model is unknown in advance, so a generated one of its length stands for
    // it.
    const answer = appendMessage(
      { messages: request.messages, text: request.text, tokens: request.inputTokens },
      lengths.outputTokens,
      uniform,
      makeText,
    )
    conversation.turnsLeft--
    conversation.before = {
      messages: answer.messages,
      text: answer.text,
      tokens: answer.inputTokens,
    }
    return { ...request, ...(isContextFull && { endedConversations: 1 }), ...lengths }
  })
}

/** Conversations that are interleaved where the spec gives no number. Assumed. */
const defaultConversations = 32

/**
 * Replays recorded conversations, interleaved, in the order of their file. Each has its recorded
 * number of turns, or at most a random one. A conversation ends where the context is full, because
 * its messages are not cut.
 */
function replayConversations(
  spec: PromptSpec,
  file: string,
  { count, uniform, fit }: Pick<PoolContext, 'count' | 'uniform' | 'fit'>,
): Prompt[] {
  const countTokens = createTokenCounter(spec.tokenizer)
  const conversations = readConversations(file)
  const exceedsContext = ({ inputTokens, outputTokens, messages }: Prompt) =>
    inputTokens + outputTokens > maxDrawnTokens ||
    (fit !== undefined && !fitsContext(fit, inputTokens, outputTokens, messages.length))
  /** Conversations that were skipped or cut, but not yet counted on a prompt. */
  let uncounted = 0
  /** Prompts of the next conversation that fits; undefined at the end of the file. */
  const readNext = (): Prompt[] | undefined => {
    for (;;) {
      const { value } = conversations.next()
      if (value === undefined) return undefined
      const turns = convertTurns(
        value.slice(0, spec.turns && drawLength(spec.turns, uniform)),
        countTokens,
      )
      const firstTooLong = turns.findIndex(exceedsContext)
      // The first turn is too long: skip the conversation, and count it with the next one.
      if (firstTooLong === 0) {
        uncounted++
        continue
      }
      const skipped = uncounted
      uncounted = firstTooLong < 0 ? 0 : 1
      // Cut before the first turn that exceeds the context.
      const [first, ...others] = firstTooLong < 0 ? turns : turns.slice(0, firstTooLong)
      return [{ ...first!, ...(skipped > 0 && { endedConversations: skipped }) }, ...others]
    }
  }
  /** Remaining prompts of each interleaved conversation. */
  const interleaved: Prompt[][] = Array.from(
    { length: spec.conversations ?? defaultConversations },
    () => [],
  )
  const prompts: Prompt[] = []
  while (interleaved.length > 0 && prompts.length < count) {
    const current = interleaved.shift()!
    const [prompt, ...remaining] = current.length > 0 ? current : (readNext() ?? [])
    if (prompt === undefined) continue
    prompts.push(prompt)
    interleaved.push(remaining)
  }
  conversations.return(undefined)
  if (prompts.length === 0)
    throw new PayloadError(
      `no conversation of ${file} is short enough`,
      'increase the context, or use another file',
    )
  return prompts
}

/**
 * Converts a conversation to prompts, one for each exchange: the conversation so far and the next
 * message. The requested answer has the length of the recorded one.
 */
function convertTurns(turns: readonly ConversationTurn[], countTokens: CountTokens): Prompt[] {
  let before: PromptBeginning = { messages: [], text: '', tokens: 0 }
  return turns.map(({ prompt, answer }) => {
    const messages = [...before.messages, prompt]
    const request = {
      messages,
      text: messages.join(' '),
      inputTokens: before.tokens + countTokens(prompt),
      outputTokens: countTokens(answer),
    }
    before = {
      messages: [...messages, answer],
      text: '', // The text is built from the messages.
      tokens: request.inputTokens + request.outputTokens,
    }
    return request
  })
}

/** Generates prompts with the lengths and the shared blocks of a trace of recorded requests. */
function replayTrace(
  trace: readonly RecordedPrompt[],
  buildBeginning: ReturnType<typeof createBlockBuilder>,
  { createBeginning, count, uniform, makeText, fit }: PoolContext,
): Prompt[] {
  return Array.from({ length: count }, (_, i) => {
    const [input, output, blocks, blockTokens] = trace[i % trace.length]!
    const sharedPrefix = blocks === undefined ? createBeginning(i) : undefined
    const lengths = fitLengths(fit, Math.max(input, (sharedPrefix?.tokens ?? 0) + 1), output)
    const beginning = sharedPrefix ?? buildBeginning(lengths.inputTokens, blocks!, blockTokens)
    return {
      ...lengths,
      ...appendMessage(beginning, lengths.inputTokens - beginning.tokens, uniform, makeText),
    }
  })
}

/**
 * Returns a function that builds the beginning of a recorded prompt from its blocks. A block id has
 * the same text in all prompts, so that prefix caches hit as recorded. The last block is seldom
 * full, so its text is unique to the request.
 */
function createBlockBuilder(
  seed: number,
  makeText: MakeText,
): (inputTokens: number, blocks: readonly number[], blockTokens?: number) => PromptBeginning {
  const texts = new Map<number, string>()
  const buildBlock = (id: number, blockTokens: number): string => {
    const text = texts.get(id) ?? makeText(createUniform(seed + 1 + id), blockTokens, '')
    texts.set(id, text)
    return text
  }
  return (inputTokens, blocks, blockTokens = recordedBlockTokens) => {
    const fullBlocks = blocks.slice(
      0,
      Math.max(0, Math.floor((inputTokens - minOwnTokens) / blockTokens)),
    )
    return {
      messages: [],
      text: fullBlocks.map((id) => buildBlock(id, blockTokens)).join(' '),
      tokens: fullBlocks.length * blockTokens,
    }
  }
}

/**
 * Minimum number of tokens after the shared blocks. A tokenizer may merge or split tokens where
 * blocks meet, and this text compensates for the difference.
 */
const minOwnTokens = 32

/**
 * Makes a text of `tokens` tokens that starts with `beginning` and adds `ownTokens` tokens to it.
 */
type MakeText = (uniform: Uniform, tokens: number, beginning: string, ownTokens?: number) => string

/** Counts a word as a token. */
const makeWords: MakeText = (uniform, tokens, beginning, ownTokens = tokens) => {
  const words = Array.from({ length: ownTokens }, () => drawWord(uniform)).join(' ')
  return beginning === '' ? words : `${beginning} ${words}`
}

/** Attempts to reach an exact length; near the end, one letter is added or removed at a time. */
const maxAttempts = 200
/** Letters that are rarely adjacent, so that tokenizers do not merge them: each adds a token. */
const rareLetters = 'qxzj'

/** Makes texts with exactly the requested number of tokens, by trial and correction. */
const createExactText =
  (count: CountTokens): MakeText =>
  (uniform, tokens, beginning, ownTokens = tokens) => {
    const before = beginning === '' ? 0 : count(beginning)
    let text = makeWords(uniform, tokens, beginning, ownTokens)
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      const textTokens = count(text)
      const missing = tokens - textTokens
      if (missing === 0) return text
      const ownWords = text.slice(beginning.length).trim().split(' ')
      const tokensPerWord = Math.max(1, (textTokens - before) / ownWords.length)
      const wordDelta = Math.round(missing / tokensPerWord)
      // Drop whole words.
      if (missing < 0 && ownWords.length > -wordDelta && wordDelta < 0)
        text = replaceOwnWords(text, beginning, ownWords.slice(0, ownWords.length + wordDelta))
      // Drop one letter.
      else if (missing < 0) text = text.slice(0, Math.max(beginning.length + 1, text.length - 1))
      // Append words.
      else if (wordDelta > 1) text += ` ${makeWords(uniform, wordDelta - 1, '')}`
      // Append a rare letter: about one token.
      else text += `${missing > 1 ? ' ' : ''}${rareLetters[attempt % rareLetters.length]}`
    }
    throw new PayloadError(
      `no text has exactly ${tokens} tokens by this tokenizer`,
      'use longer prompts, or no tokenizer',
    )
  }

const replaceOwnWords = (text: string, beginning: string, words: readonly string[]): string =>
  `${beginning}${text[beginning.length] === ' ' ? ' ' : ''}${words.join(' ')}`

/** Limit on a drawn length, and on prompt and answer together, tokens. Assumed. */
const maxDrawnTokens = 32_768

/** Draws a whole number of tokens, at least 1 and at most `maxTokens`. */
export function drawLength(distribution: LengthDistribution, uniform: Uniform): number {
  const draw = () => {
    switch (distribution.kind) {
      case 'fixed':
        return distribution.tokens
      case 'uniform':
        return distribution.from + Math.floor(uniform() * (distribution.to - distribution.from + 1))
      case 'normal':
        return distribution.mean + distribution.deviation * sampleNormal(uniform)
      case 'lognormal':
        return distribution.median * Math.exp(distribution.sigma * sampleNormal(uniform))
    }
  }
  return Math.min(distribution.maxTokens ?? maxDrawnTokens, Math.max(1, Math.round(draw())))
}
