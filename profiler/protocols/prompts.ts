import { PayloadError } from '../profiler-errors.ts'
import type { LengthDistribution, PromptSpec } from '../prompt-spec.ts'
import { normal, seeded, type Uniform } from '../seeded-random.ts'
import { commonWord } from './payload-pool.ts'

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
 * Prompts of drawn lengths. A token is a common English word here, which tokenizers of today keep whole but for a few:
 * the server's own count (`usage`) may differ by some per cent.
 */
export function makePrompts(spec: PromptSpec, seed: number, count: number): Prompt[] {
  if (!Number.isInteger(count) || count < 1) throw new PayloadError(`a payload pool needs at least one prompt, not ${count}`)
  const uniform = seeded(seed)
  const shared = spec.sharedPrefixTokens ?? 0
  const prefixes = Array.from({ length: shared > 0 ? (spec.prefixes ?? 1) : 0 }, () => text(uniform, shared))
  return Array.from({ length: count }, (_, i) => {
    const [tokens, outputTokens] = spec.recorded?.[i % spec.recorded.length] ?? [drawLength(spec.inputTokens, uniform), undefined]
    const prefix = prefixes[i % Math.max(1, prefixes.length)]
    const ownTokens = Math.max(1, tokens - (prefix === undefined ? 0 : shared))
    const own = text(uniform, ownTokens)
    return {
      text: prefix === undefined ? own : `${prefix} ${own}`,
      inputTokens: ownTokens + (prefix === undefined ? 0 : shared),
      outputTokens: outputTokens ?? drawLength(spec.outputTokens, uniform),
    }
  })
}

const text = (uniform: Uniform, tokens: number) => Array.from({ length: tokens }, () => commonWord(uniform)).join(' ')

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
