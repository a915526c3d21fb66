/**
 * Speculative decoding: a draft proposes γ tokens of each answer, one step of the model verifies
 * them, and the first rejected one ends the accepted ones (Leviathan, Kalman, Matias, ICML 2023;
 * Chen et al., 2023). Each draft token is assumed to be accepted independently with probability α.
 */
import { type Architecture, type Decoder, findArchitecture } from '../../devices/architecture.ts'
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

/** P(a step yields more than j tokens) = α^j, up to γ + 1 tokens. */
const listKeepProbabilities = ({
  tokens,
  acceptance,
}: Pick<Speculation, 'tokens' | 'acceptance'>): number[] =>
  Array.from({ length: tokens + 1 }, (_, j) => acceptance ** j)

/**
 * Tokens that a step adds to an answer, on average: (1 − α^(γ+1)) / (1 − α), Leviathan et al., eq.
 * 1, written as the sum that it is.
 */
export const computeMeanTokens = (
  speculation: Pick<Speculation, 'tokens' | 'acceptance'>,
): number => listKeepProbabilities(speculation).reduce((sum, p) => sum + p, 0)

/** Their variance: E[k²] = Σ (2j + 1) P(k > j). */
export function computeTokensVariance(
  speculation: Pick<Speculation, 'tokens' | 'acceptance'>,
): number {
  const squared = listKeepProbabilities(speculation).reduce((sum, p, j) => sum + (2 * j + 1) * p, 0)
  return squared - computeMeanTokens(speculation) ** 2
}

/**
 * Infers the α that explains a server's accepted tokens: inverts `computeMeanTokens` by bisection.
 * @param accepted mean accepted draft tokens of a step, 0 to `tokens`
 */
export function inferAcceptance(accepted: number, tokens: number): number {
  let [low, high] = [0, 1]
  while (high - low > 1e-4) {
    const acceptance = (low + high) / 2
    if (computeMeanTokens({ tokens, acceptance }) - 1 < accepted) low = acceptance
    else high = acceptance
  }
  return (low + high) / 2
}

/** Vocabulary size of EAGLE-3's published draft models for Llama 3. */
const eagleVocabulary = 32_000

/**
 * Resolves the draft model: for `eagle3` one of the model's layers with its own vocabulary (Li et
 * al., EAGLE-3, 2025); for `draft` the named model, by its architecture or its name on the Hub;
 * none for `ngram`.
 * @throws DeviceModelError for a missing or unknown draft model
 */
export function resolveDraft(
  method: SpeculativeMethod,
  model: Decoder,
  draftName: string | undefined,
  ownArchitectures: readonly Architecture[] = [],
): Decoder | undefined {
  if (method === 'ngram') return undefined
  if (method === 'eagle3') {
    // A dense layer as wide as the experts that a token goes through.
    const { experts, ...dense } = model
    const [intermediate, vocabulary] = [
      model.intermediate * (experts?.active ?? 1),
      Math.min(model.vocabulary, eagleVocabulary),
    ]
    return { ...dense, name: `EAGLE-3 of ${model.name}`, layers: 1, intermediate, vocabulary }
  }
  if (draftName === undefined)
    throw new DeviceModelError(
      'speculativeMethod draft without a draft model',
      'pin it: speculativeModel: llama-3.2-1b',
    )
  const draft = findArchitecture(parseArchitectureName(draftName), ownArchitectures)
  if (draft.kind !== 'decoder')
    throw new DeviceModelError(
      `speculativeModel ${draftName} is not a language model`,
      'choose a language model such as llama-3.2-1b',
    )
  return draft
}

/** 'meta-llama/Llama-3.2-1B-Instruct' → 'llama-3.2-1b': fine-tuning does not change dimensions. */
const parseArchitectureName = (modelName: string): string =>
  modelName
    .split('/')
    .at(-1)!
    .toLowerCase()
    .replace(/-(instruct|chat|it|base)$/, '')
