import { usualCount } from '../payload-source.ts'
import { PayloadError } from '../profiler-errors.ts'
import {
  type LengthDistribution,
  type PromptSpec,
  type RecordedPrompt,
  recordedBlockTokens,
} from '../prompt-spec.ts'
import { normal, seeded, type Uniform } from '../seeded-random.ts'
import { type ContextFit, fits, lengthsWithin, longestPrompt } from './context-fit.ts'
import { type Exchange, readConversations } from './conversations.ts'
import { commonWord } from './payload-pool.ts'
import { drawClasses } from './request-classes.ts'
import { type CountTokens, counterOf, tokenCounter } from './tokenizer.ts'

export interface Prompt {
  /** All of it. */
  readonly text: string
  /**
   * What the user and the model said in turn, the last of it the user's: joined by spaces, the
   * text.
   */
  readonly said: readonly string[]
  readonly inputTokens: number
  /** Output tokens to ask for. */
  readonly outputTokens: number
  /** Name of its class, where the spec has classes. */
  readonly requestClass?: string
  /** Its lengths are not those that were drawn, for the context. */
  readonly fitted?: 'cut'
  /** Conversations that the context ended, or left out, before this one. */
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
 * Prompts of drawn lengths, of common English words. With a tokenizer each has exactly so many of
 * its tokens. Without one a token is a word, which tokenizers of today keep whole but for a few:
 * the server's own count (`usage`) may differ by some per cent. What a server's chat template adds
 * comes on top. Recorded conversations are as they were said, fewer than `count` where the file has
 * fewer.
 * @param fit what prompt and answer must keep within together; absent: they are as they are drawn
 * @throws PayloadError for a tokenizer or a file that cannot be read, and where no text has that
 * length
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
    fit === undefined ? Number.POSITIVE_INFINITY : longestPrompt(fit) - 1,
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

/** What all prompts of a pool are made with. */
interface Making {
  readonly beginning: (i: number) => Beginning
  readonly count: number
  readonly uniform: Uniform
  readonly text: MakeText
  readonly fit: ContextFit | undefined
}

/**
 * What was said before a prompt: of a conversation in turn, or a beginning that prompts have in
 * common.
 */
interface Beginning {
  readonly said: readonly string[]
  readonly text: string
  readonly tokens: number
}

/** Beginnings that prompts share are counted in their input tokens. */
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
 * Conversations side by side, each of as many turns as it draws, or as fit into the longest
 * sequence; where one ends another begins.
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
    if (one.left === 0 || ends || asks + outputTokens > longestDrawn) {
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
 * Recorded conversations side by side, in the order of their file, each as long as it was, or as
 * `turns` draws. The context ends a conversation: what was said is not cut.
 */
function asSaid(
  spec: PromptSpec,
  file: string,
  { count, uniform, fit }: Pick<Making, 'count' | 'uniform' | 'fit'>,
): Prompt[] {
  const tokensIn = counterOf(spec.tokenizer)
  const conversations = readConversations(file)
  const isOver = ({ inputTokens, outputTokens, said }: Prompt) =>
    inputTokens + outputTokens > longestDrawn ||
    (fit !== undefined && !fits(fit, inputTokens, outputTokens, said.length))
  let ended = 0
  /**
   * The prompts of the next conversation that has one which fits; undefined at the end of the file.
   */
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
 * A prompt for each exchange: all that was said before, and what is asked; its answer as long as it
 * was.
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
 * The blocks that a recorded prompt begins with: those of one number are the same text in all. The
 * last one, which is seldom full, is the request's own.
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
    const whole = blocks.slice(0, Math.max(0, Math.floor((inputTokens - leastOwn) / blockTokens)))
    return {
      said: [],
      text: whole.map((id) => block(id, blockTokens)).join(' '),
      tokens: whole.length * blockTokens,
    }
  }
}

/**
 * Where blocks meet a tokenizer may count some tokens more or fewer: what follows them makes up for
 * it.
 */
const leastOwn = 32

/** So many tokens in all, `own` of them after the beginning. */
type MakeText = (uniform: Uniform, tokens: number, beginning: string, own?: number) => string

const words: MakeText = (uniform, tokens, beginning, own = tokens) => {
  const drawn = Array.from({ length: own }, () => commonWord(uniform)).join(' ')
  return beginning === '' ? drawn : `${beginning} ${drawn}`
}

/** Most attempts to come to a length, the last token by single letters. */
const mostTries = 200
/** Letters that seldom stand together, so that tokenizers have few of their pairs. */
const odd = 'qxzj'

const exactText =
  (count: CountTokens): MakeText =>
  (uniform, tokens, beginning, own = tokens) => {
    const before = beginning === '' ? 0 : count(beginning)
    let text = words(uniform, tokens, beginning, own)
    for (let tried = 0; tried < mostTries; tried++) {
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

const longestDrawn = 32_768

/** A whole number of tokens, at least 1 and at most `most` where that is said. */
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
  return Math.min(distribution.most ?? longestDrawn, Math.max(1, Math.round(draw())))
}
