/**
 * Speculative decoding: a draft proposes γ tokens of each answer, one step of the model verifies
 * them all, and the first that it would not have said ends what is kept (Leviathan, Kalman, Matias,
 * ICML 2023; Chen et al., 2023). Each draft token is taken to be accepted by itself, with one
 * probability α.
 */
import { type Architecture, architectureOf, type Decoder } from '../../devices/architecture.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'
import type { SpeculativeMethod } from './speculative-methods.ts'

export interface Speculation {
  /** γ: tokens that are drafted for an answer in each of its steps; at least 1. */
  readonly tokens: number
  /**
   * α: probability that a draft token is accepted, 0-1. Nobody measured it: the user's word, or an
   * assumption.
   */
  readonly acceptance: number
  /** The model that drafts; absent: a look-up, which is taken to cost nothing. */
  readonly draft?: Decoder
}

/** P(a step keeps more than j tokens) = α^j, up to γ + 1 of them. */
const keepsMore = ({ tokens, acceptance }: Pick<Speculation, 'tokens' | 'acceptance'>): number[] =>
  Array.from({ length: tokens + 1 }, (_, j) => acceptance ** j)

/**
 * Tokens that a step adds to an answer, on average: (1 − α^(γ+1)) / (1 − α), Leviathan et al., eq.
 * 1, written as the sum that it is.
 */
export const meanTokens = (speculation: Pick<Speculation, 'tokens' | 'acceptance'>): number =>
  keepsMore(speculation).reduce((sum, p) => sum + p, 0)

/** Their variance: E[k²] = Σ (2j + 1) P(k > j). */
export function tokensVariance(speculation: Pick<Speculation, 'tokens' | 'acceptance'>): number {
  const squared = keepsMore(speculation).reduce((sum, p, j) => sum + (2 * j + 1) * p, 0)
  return squared - meanTokens(speculation) ** 2
}

/**
 * α of which a server's count of accepted tokens follows: `meanTokens` the other way round, by
 * bisection.
 * @param accepted draft tokens that a step kept of each answer, on average, 0 to `tokens`
 */
export function acceptanceOf(accepted: number, tokens: number): number {
  let [low, high] = [0, 1]
  while (high - low > 1e-4) {
    const acceptance = (low + high) / 2
    if (meanTokens({ tokens, acceptance }) - 1 < accepted) low = acceptance
    else high = acceptance
  }
  return (low + high) / 2
}

/** Of EAGLE-3's published drafts for Llama 3: the words that they choose among. */
const eagleVocabulary = 32_000

/**
 * What drafts for a model: of `eagle3` one of the model's own layers with a vocabulary of its own
 * (Li et al., EAGLE-3, 2025), of `draft` the model that is named, by its architecture's name or its
 * name on the Hub; nothing of `ngram`.
 * @throws DeviceModelError where a draft model is not named, or not known
 */
export function draftOf(
  method: SpeculativeMethod,
  of: Decoder,
  named: string | undefined,
  own: readonly Architecture[] = [],
): Decoder | undefined {
  if (method === 'ngram') return undefined
  if (method === 'eagle3') {
    const { experts, ...dense } = of
    const [intermediate, vocabulary] = [
      of.intermediate * (experts?.active ?? 1),
      Math.min(of.vocabulary, eagleVocabulary),
    ]
    return { ...dense, name: `EAGLE-3 of ${of.name}`, layers: 1, intermediate, vocabulary }
  }
  if (named === undefined)
    throw new DeviceModelError(
      'speculativeMethod draft without a draft model',
      'pin it: speculativeModel: llama-3.2-1b',
    )
  const draft = architectureOf(architectureNamed(named), own)
  if (draft.kind !== 'decoder')
    throw new DeviceModelError(
      `speculativeModel ${named} is not a language model`,
      'choose a language model such as llama-3.2-1b',
    )
  return draft
}

/**
 * 'meta-llama/Llama-3.2-1B-Instruct' → 'llama-3.2-1b': how it was trained further changes no
 * dimension.
 */
const architectureNamed = (place: string): string =>
  place
    .split('/')
    .at(-1)!
    .toLowerCase()
    .replace(/-(instruct|chat|it|base)$/, '')
