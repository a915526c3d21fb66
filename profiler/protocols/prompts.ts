import { PayloadError } from '../profiler-errors.ts'
import type { LengthDistribution, PromptSpec } from '../prompt-spec.ts'
import { normal, seeded, type Uniform } from '../seeded-random.ts'
import { commonWord } from './payload-pool.ts'
import { type CountTokens, tokenCounter } from './tokenizer.ts'

export interface Prompt {
  readonly text: string
  readonly inputTokens: number
  /** Output tokens to ask for. */
  readonly outputTokens: number
}

/** Chat-like lengths, about those of ShareGPT's conversations (Kwon et al., SOSP 2023, section 6.1). */
export const defaultPrompts: PromptSpec = {
  inputTokens: { kind: 'lognormal', median: 120, sigma: 0.9 },
  outputTokens: { kind: 'lognormal', median: 160, sigma: 0.7 },
}

/**
 * Prompts of drawn lengths, of common English words. With a tokenizer each has exactly so many of its tokens. Without one a token is a word, which tokenizers
 * of today keep whole but for a few: the server's own count (`usage`) may differ by some per cent. What a server's chat template adds comes on top.
 * @throws PayloadError for a tokenizer that cannot be read, or with which no text has that length
 */
export function makePrompts(spec: PromptSpec, seed: number, count: number): Prompt[] {
  if (!Number.isInteger(count) || count < 1) throw new PayloadError(`a payload pool needs at least one prompt, not ${count}`)
  const uniform = seeded(seed)
  const text = spec.tokenizer === undefined ? words : exactText(tokenCounter(spec.tokenizer))
  const shared = spec.sharedPrefixTokens ?? 0
  const prefixes = Array.from({ length: shared > 0 ? (spec.prefixes ?? 1) : 0 }, () => text(uniform, shared, ''))
  return Array.from({ length: count }, (_, i) => {
    const [tokens, outputTokens] = spec.recorded?.[i % spec.recorded.length] ?? [drawLength(spec.inputTokens, uniform), undefined]
    const prefix = prefixes[i % Math.max(1, prefixes.length)]
    const ownTokens = Math.max(1, tokens - (prefix === undefined ? 0 : shared))
    const inputTokens = ownTokens + (prefix === undefined ? 0 : shared)
    return {
      text: text(uniform, inputTokens, prefix ?? '', ownTokens),
      inputTokens,
      outputTokens: outputTokens ?? drawLength(spec.outputTokens, uniform),
    }
  })
}

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
      if (missing < 0 && drawn.length > -whole && whole < 0) text = cut(text, beginning, drawn.slice(0, drawn.length + whole))
      else if (missing < 0) text = text.slice(0, Math.max(beginning.length + 1, text.length - 1))
      else if (whole > 1) text += ` ${words(uniform, whole - 1, '')}`
      else text += `${missing > 1 ? ' ' : ''}${odd[tried % odd.length]}`
    }
    throw new PayloadError(`no text has exactly ${tokens} tokens by this tokenizer`, 'ask for longer prompts, or leave the tokenizer out')
  }

const cut = (text: string, beginning: string, kept: readonly string[]): string =>
  `${beginning}${text[beginning.length] === ' ' ? ' ' : ''}${kept.join(' ')}`

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
  return Math.min(distribution.most ?? 32_768, Math.max(1, Math.round(draw())))
}
