/**
 * Steady state of continuous batching at a rate λ of requests. In these equations, O is the mean
 * number of tokens of an answer, and k the number that a decoding step adds to each answer.
 *
 * - Little's law: N = λ O T sequences decode concurrently, with T the time per output token.
 * - T = D(N) / k (1 − u): a decoding step takes D(N), and prompts take the share u of the time.
 * - u = λ G(m) / m: prompts are prefilled in batches of m, each of which takes G(m).
 * - m = λ k T: the prompts that arrive during one step form a batch.
 */

import { computeMeanTokens, computeTokensVariance } from '../../predictor/llm/speculation.ts'
import type { LlmLoad } from './llm-load.ts'
import type { ModelledLlm } from './llm-pools.ts'
import { computeMultiServerWaitMs } from './queue-waits.ts'

/** A server and its load. */
export interface LlmQueueing {
  readonly server: Pick<ModelledLlm, 'limits' | 'stepMs' | 'hostMs' | 'pools'>
  readonly load: LlmLoad
}

export interface SteadyState {
  readonly arrivalsPerMs: number
  /** N: sequences that decode concurrently. */
  readonly sequences: number
  /** Maximum of N: by the number of sequences that the server admits, or by its cache. */
  readonly maxSequences: number
  /** T: time per output token, ms. */
  readonly tokenMs: number
  /** u: share of the time that prefill takes. */
  readonly prefillShare: number
  /** m: prompts in a prefill batch. */
  readonly prefillBatchSize: number
  readonly steps: StepTimes
  readonly tokensPerStep: TokensPerStep
}

interface TokensPerStep {
  /** Draft tokens that a step verifies for each answer. */
  readonly drafts: number
  /** k: tokens that a step adds to an answer on average. */
  readonly mean: number
  /** Coefficient of variation, from answer to answer, of the number of steps. */
  readonly stepsCv: number
}

/** Describes steps: with speculative decoding, they verify drafts and accept some of them. */
function describeTokensPerStep(
  { limits: { speculation } }: LlmQueueing['server'],
  meanOutputTokens: number,
): TokensPerStep {
  if (speculation === undefined) return { drafts: 0, mean: 1, stepsCv: 0 }
  const [mean, variance] = [computeMeanTokens(speculation), computeTokensVariance(speculation)]
  // Renewal theory: the last step of an answer overshoots its end by E[k (k − 1)] / 2 E[k] tokens.
  const overshoot = (variance + mean ** 2 - mean) / (2 * mean)
  return {
    drafts: speculation.tokens,
    mean: mean / (1 + overshoot / meanOutputTokens),
    // Renewal theory: the steps of an answer of n tokens have mean n / μ and variance n σ² / μ³.
    stepsCv: Math.sqrt(variance / (mean * meanOutputTokens)),
  }
}

/** Times of steps by the number of sequences that decode. */
interface StepTimes {
  /** D(N): a step without prompts, ms. */
  decodeMs(sequences: number): number
  /**
   * G: time that a prefill batch adds, ms: own steps, or the extension of decoding steps that
   * also compute its prompts (chunked prefill).
   */
  prefillBatchMs(tokens: number, prompts: number, sequences: number): number
}

function createStepTimes({ server, load }: LlmQueueing, drafts: number): StepTimes {
  const { limits, stepMs } = server
  const { separatePrefill, maxBatchedTokens } = limits
  const describeDecoding = (sequences: number) => {
    const decodes = Math.max(1, Math.round(sequences))
    return {
      decodes,
      decodeContext: Math.max(1, sequences) * load.meanCacheTokens,
      drafts: decodes * drafts,
    }
  }
  const decodeMs = (sequences: number) =>
    stepMs({ prefillTokens: 0, ...describeDecoding(sequences) })
  const prefillBatchMs = (tokens: number, prompts: number, sequences: number) => {
    if (tokens === 0) return 0
    const decodingTokens = separatePrefill ? 0 : sequences * (1 + drafts)
    const tokensPerStep = Math.max(1, maxBatchedTokens - decodingTokens)
    const steps = Math.max(1, Math.ceil(tokens / tokensPerStep))
    const work = { prefillTokens: tokens / steps, prompts: Math.max(1, prompts / steps) }
    if (separatePrefill)
      return (
        steps *
        stepMs({ ...work, decodes: 0, decodeContext: 0, delayedDecodes: Math.round(sequences) })
      )
    return steps * (stepMs({ ...work, ...describeDecoding(sequences) }) - decodeMs(sequences))
  }
  return { decodeMs, prefillBatchMs }
}

/**
 * m: the prompts that arrive during one step. A server with separate prefill steps waits for more
 * of them: for a share of the decoding sequences, or for a number of decoding steps.
 */
function computePrefillBatchSize(
  separatePrefill: LlmQueueing['server']['limits']['separatePrefill'],
  arrivalsPerStep: number,
  sequences: number,
): number {
  if (separatePrefill === undefined) return Math.max(1, arrivalsPerStep)
  const byShare = Math.max(arrivalsPerStep, separatePrefill.waitingShare * sequences)
  const bySteps = arrivalsPerStep * Math.max(1, separatePrefill.decodingSteps)
  return Math.max(1, Math.min(byShare, bySteps))
}

/** Solves the equations by damped iteration; undefined beyond saturation. */
export function solveSteadyState(model: LlmQueueing, rateRps: number): SteadyState | undefined {
  const { limits, hostMs } = model.server
  const { meanPromptTokens, meanOutputTokens, meanCacheTokens, meanFinalCacheTokens } = model.load
  const { separatePrefill, maxBatchedTokens } = limits
  const arrivalsPerMs = rateRps / 1000
  if (arrivalsPerMs * hostMs >= 1) return undefined
  const maxSequences = Math.min(
    limits.maxSequences,
    limits.cacheTokens / (limits.reserves ? meanFinalCacheTokens : meanCacheTokens),
  )
  const tokensPerStep = describeTokensPerStep(model.server, meanOutputTokens)
  const steps = createStepTimes(model, tokensPerStep.drafts)
  let sequences = Math.min(
    maxSequences,
    (arrivalsPerMs * meanOutputTokens * steps.decodeMs(1)) / tokensPerStep.mean,
  )
  let [tokenMs, prefillShare, prefillBatchSize] = [
    steps.decodeMs(sequences) / tokensPerStep.mean,
    0,
    1,
  ]
  for (let i = 0; i < 40; i++) {
    const arrivalsPerStep = arrivalsPerMs * tokenMs * tokensPerStep.mean
    prefillBatchSize = computePrefillBatchSize(separatePrefill, arrivalsPerStep, sequences)
    const batchMs = steps.prefillBatchMs(
      prefillBatchSize * meanPromptTokens,
      prefillBatchSize,
      sequences,
    )
    prefillShare = (arrivalsPerMs * batchMs) / prefillBatchSize
    if (prefillShare >= 1) return undefined
    tokenMs = steps.decodeMs(sequences) / tokensPerStep.mean / (1 - prefillShare)
    const next = arrivalsPerMs * meanOutputTokens * tokenMs
    // The iteration diverges.
    if (next > 4 * maxSequences) return undefined
    sequences += 0.5 * (next - sequences)
  }
  if (sequences >= maxSequences) return undefined
  // A step computes the prompts that arrived during the last one, and a token of each sequence.
  const stepTokens =
    arrivalsPerMs * meanPromptTokens * tokenMs * tokensPerStep.mean +
    sequences * (1 + tokensPerStep.drafts)
  if (!separatePrefill && stepTokens >= maxBatchedTokens) return undefined
  return {
    arrivalsPerMs,
    sequences,
    maxSequences,
    tokenMs,
    prefillShare,
    prefillBatchSize,
    steps,
    tokensPerStep,
  }
}

/**
 * Predicts the time per output token, ms, of an answer z standard deviations above the mean.
 * @param prefillExtraMs prefill time per token that such an answer has above the mean
 */
export function predictTpotAtZ(
  { sequences, maxSequences, tokenMs, prefillShare, steps, tokensPerStep }: SteadyState,
  z: number,
  prefillExtraMs = 0,
): number {
  // The number of decoding sequences is modelled as a Poisson variable.
  const crowdedSequences = Math.min(maxSequences, sequences + z * Math.sqrt(sequences))
  const crowdedMs = steps.decodeMs(crowdedSequences) / tokensPerStep.mean / (1 - prefillShare)
  // Crowding and prompts slow all answers alike, so their deviations add up. The number of accepted
  // drafts varies from answer to answer: independent deviations add up in squares.
  const commonMs = crowdedMs + prefillExtraMs - tokenMs
  const draftsMs = z * tokensPerStep.stepsCv * tokenMs
  return tokenMs + Math.sign(z) * Math.hypot(commonMs, draftsMs)
}

/**
 * Predicts quantile q of the wait until a sequence is admitted, ms: a queue with a server for each
 * sequence that can decode concurrently.
 */
export const predictAdmissionMs = (
  { sequences, maxSequences, tokenMs }: SteadyState,
  meanOutputTokens: number,
  q: number,
): number =>
  computeMultiServerWaitMs(
    maxSequences,
    { utilization: sequences / maxSequences, serviceMs: meanOutputTokens * tokenMs },
    q,
  )

/** Predicts quantile q, ms, of what remains of the decoding step under way, if there is one. */
export const predictResidualStepMs = ({ steps, sequences }: SteadyState, q: number): number =>
  steps.decodeMs(sequences) * q * Math.min(1, sequences)
