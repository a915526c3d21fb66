import { usualCount } from '../payload-source.ts'
import { PayloadError } from '../profiler-errors.ts'
import {
  type LengthDistribution,
  type PromptSpec,
  type RecordedPrompt,
  recordedBlockTokens,
} from '../prompt-spec.ts'
import { normal, seeded, type Uniform } from '../seeded-random.ts'
import { type ContextFit, fits, lengthsWithin, maxPromptTokens } from './context-fit.ts'
import { type Exchange, readConversations } from './conversations.ts'
import { commonWord } from './payload-pool.ts'
import { drawClasses } from './request-classes.ts'
import { type CountTokens, counterOf, tokenCounter } from './tokenizer.ts'

export interface Prompt {
  /** The whole text. */
  readonly text: string
  /**
   * Messages of user and model in turn, the last one by the user; joined by spaces, they are the
   * text.
   */
  readonly said: readonly string[]
  readonly inputTokens: number
  /** Requested output tokens. */
  readonly outputTokens: number
  /** Name of its class, where the spec has classes. */
  readonly requestClass?: string
  /** Its lengths were cut to fit the context. */
  readonly fitted?: 'cut'
  /** Conversations before this one that the context ended or left out. */
  readonly ended?: number
}

/**
 * Chat-like lengths, about those of ShareGPT's conversations (Kwon et al., SOSP 2023, section 6.1).
 */
export const defaultPrompts: PromptSpec = {
  inputTokens: { kind: 'lognormal', median: 120, sigma: 0.9 },
  outputTokens: { kind: 'lognormal', median: 160, sigma: 0.7 },
}

/**
 * Generates prompts of random lengths from common English words. With a tokenizer each prompt has
 * exactly its number of tokens. Without one a token is a word, which most tokenizers keep whole, so
 * the server's own count (`usage`) may differ by some per cent. The server's chat template adds
 * more. Recorded conversations are used as they are, fewer than `count` where the file has fewer.
 * @param fit context that prompt and answer must fit; absent: lengths stay as drawn
 * @throws PayloadError for an unreadable tokenizer or file, and where no text has the length
 */
export function makePrompts(
  spec: PromptSpec,
  seed: number,
  count: number = usualCount.prompts,
  fit?: ContextFit,
): Prompt[] {
  if (!Number.isInteger(count) || count < 1)
    throw new PayloadError(`a payload pool needs at least one prompt, not ${count}`)
  const uniform = seeded(seed)
  if (spec.file !== undefined) return asSaid(spec, spec.file, { count, uniform, fit })
  const text = spec.tokenizer === undefined ? words : exactText(tokenCounter(spec.tokenizer))
  const shared = Math.min(
    spec.sharedPrefixTokens ?? 0,
    fit === undefined ? Number.POSITIVE_INFINITY : maxPromptTokens(fit) - 1,
  )
  const prefixes = Array.from({ length: shared > 0 ? (spec.prefixes ?? 1) : 0 }, () =>
    text(uniform, shared, ''),
  )
  const beginning = (i: number): Beginning => ({
    said: [],
    text: prefixes[i % Math.max(1, prefixes.length)] ?? '',
    tokens: prefixes.length > 0 ? shared : 0,
  })
  const make: Making = { beginning, count, uniform, text, fit }
  if (spec.recorded !== undefined) return asRecorded(spec.recorded, blocksBefore(seed, text), make)
  if (spec.classes !== undefined)
    return drawClasses(spec.classes, count, uniform).map((of, i) => ({
      ...firstPrompt(of, beginning(i), make),
      requestClass: of.name,
    }))
  return spec.turns === undefined
    ? Array.from({ length: count }, (_, i) => firstPrompt(spec, beginning(i), make))
    : inTurns(spec, spec.turns, make)
}

/** What all prompts of a pool share. */
interface Making {
  readonly beginning: (i: number) => Beginning
  readonly count: number
  readonly uniform: Uniform
  readonly text: MakeText
  readonly fit: ContextFit | undefined
}

/** Text before a prompt: the conversation so far, or a prefix that prompts share. */
interface Beginning {
  readonly said: readonly string[]
  readonly text: string
  readonly tokens: number
}

/** Shared prefixes count as input tokens. */
function firstPrompt(
  drawn: Pick<PromptSpec, 'inputTokens' | 'outputTokens'>,
  beginning: Beginning,
  { uniform, text, fit }: Making,
): Prompt {
  const asked = Math.max(beginning.tokens + 1, drawLength(drawn.inputTokens, uniform))
  const lengths = lengthsWithin(fit, asked, drawLength(drawn.outputTokens, uniform))
  return { ...lengths, ...prompt(beginning, lengths.inputTokens - beginning.tokens, uniform, text) }
}

function prompt(
  { said, text: before, tokens }: Beginning,
  own: number,
  uniform: Uniform,
  text: MakeText,
) {
  const all = text(uniform, tokens + own, before, own)
  const last = said.length === 0 ? all : all.slice(before.length).trimStart()
  return { text: all, said: [...said, last], inputTokens: tokens + own }
}

/**
 * Interleaves conversations, each with a random number of turns, or as many as fit into the longest
 * sequence. A new one starts where one ends.
 */
function inTurns(
  spec: PromptSpec,
  turns: LengthDistribution,
  { beginning, count, uniform, text, fit }: Making,
): Prompt[] {
  const side = Array.from({ length: spec.conversations ?? defaultConversations }, () => ({
    left: 0,
    before: beginning(0),
  }))
  let begun = 0
  return Array.from({ length: count }, (_, i) => {
    const one = side[i % side.length]!
    const [own, outputTokens] = [
      drawLength(spec.inputTokens, uniform),
      drawLength(spec.outputTokens, uniform),
    ]
    const asks = one.before.tokens + own
    const ends =
      fit !== undefined &&
      one.left > 0 &&
      !fits(fit, asks, outputTokens, one.before.said.length + 1)
    if (one.left === 0 || ends || asks + outputTokens > maxDrawnTokens) {
      one.left = drawLength(turns, uniform)
      one.before = beginning(begun++)
    }
    const first = one.before.said.length === 0
    const lengths = first
      ? lengthsWithin(fit, Math.max(one.before.tokens + 1, own), outputTokens)
      : { inputTokens: one.before.tokens + own, outputTokens }
    const asked = prompt(one.before, lengths.inputTokens - one.before.tokens, uniform, text)
    const answered = prompt(
      { said: asked.said, text: asked.text, tokens: asked.inputTokens },
      lengths.outputTokens,
      uniform,
      text,
    )
    one.left--
    one.before = { said: answered.said, text: answered.text, tokens: answered.inputTokens }
    return { ...asked, ...(ends && { ended: 1 }), ...lengths }
  })
}

const defaultConversations = 32

/**
 * Interleaves recorded conversations in the order of their file, each with its own number of turns
 * or a random one. The context ends a conversation: messages are not cut.
 */
function asSaid(
  spec: PromptSpec,
  file: string,
  { count, uniform, fit }: Pick<Making, 'count' | 'uniform' | 'fit'>,
): Prompt[] {
  const tokensIn = counterOf(spec.tokenizer)
  const conversations = readConversations(file)
  const isOver = ({ inputTokens, outputTokens, said }: Prompt) =>
    inputTokens + outputTokens > maxDrawnTokens ||
    (fit !== undefined && !fits(fit, inputTokens, outputTokens, said.length))
  let ended = 0
  /** Prompts of the next conversation that fits; undefined at the end of the file. */
  const next = (): Prompt[] | undefined => {
    for (;;) {
      const { value } = conversations.next()
      if (value === undefined) return undefined
      const [first, ...others] = saidIn(
        value.slice(0, spec.turns && drawLength(spec.turns, uniform)),
        tokensIn,
      )
      const before = ended
      const over = [first!, ...others].findIndex(isOver)
      ended = over < 0 ? 0 : over === 0 ? ended + 1 : 1
      if (over !== 0)
        return [
          { ...first!, ...(before > 0 && { ended: before }) },
          ...(over < 0 ? others : others.slice(0, over - 1)),
        ]
    }
  }
  const side: Prompt[][] = Array.from(
    { length: spec.conversations ?? defaultConversations },
    () => [],
  )
  const prompts: Prompt[] = []
  while (side.length > 0 && prompts.length < count) {
    const one = side.shift()!
    const [prompt, ...left] = one.length > 0 ? one : (next() ?? [])
    if (prompt === undefined) continue
    prompts.push(prompt)
    side.push(left)
  }
  conversations.return(undefined)
  if (prompts.length === 0)
    throw new PayloadError(
      `no conversation of ${file} is short enough`,
      'a longer context, or another file',
    )
  return prompts
}

/**
 * A prompt for each exchange: the conversation so far and the next message; its answer has the
 * recorded length.
 */
function saidIn(exchanges: readonly Exchange[], tokensIn: CountTokens): Prompt[] {
  let before: Beginning = { said: [], text: '', tokens: 0 }
  return exchanges.map(({ asked, answered }) => {
    const said = [...before.said, asked]
    const prompt = {
      said,
      text: said.join(' '),
      inputTokens: before.tokens + tokensIn(asked),
      outputTokens: tokensIn(answered),
    }
    before = {
      said: [...said, answered],
      text: '',
      tokens: prompt.inputTokens + prompt.outputTokens,
    }
    return prompt
  })
}

function asRecorded(
  recorded: readonly RecordedPrompt[],
  before: ReturnType<typeof blocksBefore>,
  { beginning, count, uniform, text, fit }: Making,
): Prompt[] {
  return Array.from({ length: count }, (_, i) => {
    const [input, output, blocks, blockTokens] = recorded[i % recorded.length]!
    const shared = blocks === undefined ? beginning(i) : undefined
    const lengths = lengthsWithin(fit, Math.max(input, (shared?.tokens ?? 0) + 1), output)
    const from = shared ?? before(lengths.inputTokens, blocks!, blockTokens)
    return { ...lengths, ...prompt(from, lengths.inputTokens - from.tokens, uniform, text) }
  })
}

/**
 * Blocks at the start of a recorded prompt. Blocks of the same number have the same text
 * everywhere. The last block, which is seldom full, belongs to the request.
 */
function blocksBefore(
  seed: number,
  text: MakeText,
): (inputTokens: number, blocks: readonly number[], blockTokens?: number) => Beginning {
  const known = new Map<number, string>()
  const block = (id: number, blockTokens: number): string => {
    const found = known.get(id) ?? text(seeded(seed + 1 + id), blockTokens, '')
    known.set(id, found)
    return found
  }
  return (inputTokens, blocks, blockTokens = recordedBlockTokens) => {
    const whole = blocks.slice(
      0,
      Math.max(0, Math.floor((inputTokens - minOwnTokens) / blockTokens)),
    )
    return {
      said: [],
      text: whole.map((id) => block(id, blockTokens)).join(' '),
      tokens: whole.length * blockTokens,
    }
  }
}

/**
 * Where blocks meet, a tokenizer may count some tokens more or fewer, which the following text
 * makes up for.
 */
const minOwnTokens = 32

/** Makes a text of a number of tokens, `own` of them after the prefix. */
type MakeText = (uniform: Uniform, tokens: number, beginning: string, own?: number) => string

const words: MakeText = (uniform, tokens, beginning, own = tokens) => {
  const drawn = Array.from({ length: own }, () => commonWord(uniform)).join(' ')
  return beginning === '' ? drawn : `${beginning} ${drawn}`
}

/** Attempts to reach a length; the last token is tried letter by letter. */
const maxTries = 200
/** Letters that seldom stand together, so tokenizers have few pairs of them. */
const odd = 'qxzj'

const exactText =
  (count: CountTokens): MakeText =>
  (uniform, tokens, beginning, own = tokens) => {
    const before = beginning === '' ? 0 : count(beginning)
    let text = words(uniform, tokens, beginning, own)
    for (let tried = 0; tried < maxTries; tried++) {
      const counted = count(text)
      const missing = tokens - counted
      if (missing === 0) return text
      const drawn = text.slice(beginning.length).trim().split(' ')
      const perWord = Math.max(1, (counted - before) / drawn.length)
      const whole = Math.round(missing / perWord)
      if (missing < 0 && drawn.length > -whole && whole < 0)
        text = cut(text, beginning, drawn.slice(0, drawn.length + whole))
      else if (missing < 0) text = text.slice(0, Math.max(beginning.length + 1, text.length - 1))
      else if (whole > 1) text += ` ${words(uniform, whole - 1, '')}`
      else text += `${missing > 1 ? ' ' : ''}${odd[tried % odd.length]}`
    }
    throw new PayloadError(
      `no text has exactly ${tokens} tokens by this tokenizer`,
      'ask for longer prompts, or leave the tokenizer out',
    )
  }

const cut = (text: string, beginning: string, kept: readonly string[]): string =>
  `${beginning}${text[beginning.length] === ' ' ? ' ' : ''}${kept.join(' ')}`

const maxDrawnTokens = 32_768

/** Draws a whole number of tokens, at least 1 and at most `most`, if given. */
export function drawLength(distribution: LengthDistribution, uniform: Uniform): number {
  const draw = () => {
    switch (distribution.kind) {
      case 'fixed':
        return distribution.tokens
      case 'uniform':
        return distribution.from + Math.floor(uniform() * (distribution.to - distribution.from + 1))
      case 'normal':
        return distribution.mean + distribution.deviation * normal(uniform)
      case 'lognormal':
        return distribution.median * Math.exp(distribution.sigma * normal(uniform))
    }
  }
  return Math.min(distribution.most ?? maxDrawnTokens, Math.max(1, Math.round(draw())))
}
