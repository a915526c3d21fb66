/**
 * Plans a language-model server: device, cache size, and scheduler limits. Used by emulated and
 * simulated servers.
 */
import type { Architecture, Decoder } from '../../devices/architecture.ts'
import {
  engineProfiles,
  type LlmEngineName,
  predictDraftTimes,
  predictStepTimes,
} from './engine-profile.ts'
import type { SchedulerLimits } from './scheduler.ts'
import { resolveDraft, type Speculation } from './speculation.ts'
import { assumedAcceptance, defaultMethod, type SpeculativeMethod } from './speculative-methods.ts'
import { computeCacheSize } from './step-costs.ts'
import type { LlmDevice, StepWork } from './step-model.ts'

/** Tunable settings, by vLLM's names. */
interface LlmServingOptions extends Omit<LlmDevice, 'architecture'> {
  /** The server whose scheduling and host costs apply. */
  readonly engine: LlmEngineName
  /** Maximum of concurrent sequences (max-num-seqs). */
  readonly maxSequences: number
  /** Tokens of one step (max-num-batched-tokens). */
  readonly maxBatchedTokens: number
  /** Longest sequence, prompt and answer (max-model-len). */
  readonly maxModelLength: number
  /**
   * Share of each GPU's memory, 0-1 (gpu-memory-utilization, times the reserved share of the GPU).
   */
  readonly memoryShare: number
  readonly queueLimit: number
  /** Prefix caching (enable-prefix-caching). */
  readonly prefixCaching: boolean
  /** Drafts; absent: none. */
  readonly speculation?: Speculation
}

/** Defaults: those of vLLM, except the length. */
export const llmDefaults = {
  maxNumSeqs: 256,
  maxNumBatchedTokens: 2048,
  maxModelLen: 4096,
  gpuMemoryUtilization: 0.9,
  precision: 'fp16',
  quantization: 'none',
  kvCacheDtype: 'auto',
  enablePrefixCaching: 'on',
  speculativeTokens: 0,
  speculativeMethod: defaultMethod,
  engine: 'vllm',
} as const

export interface LlmServer {
  readonly engine: LlmEngineName
  readonly device: LlmDevice
  readonly limits: SchedulerLimits
  readonly maxModelLength: number
  /** GPU memory of each GPU that is used, MiB. */
  readonly memoryMiB: number
  readonly stepMs: (work: StepWork) => number
  /** Host time of each request before the scheduler, ms. */
  readonly hostMs: number
  readonly prefixCaching: boolean
}

/**
 * @throws OutOfMemoryError if weights and one sequence do not fit
 * @throws DeviceModelError for features that the GPU lacks
 */
export function planLlmServer(architecture: Decoder, serving: LlmServingOptions): LlmServer {
  const {
    engine,
    maxSequences,
    maxBatchedTokens,
    memoryShare,
    queueLimit,
    prefixCaching,
    speculation,
    ...rest
  } = serving
  const device: LlmDevice = { architecture, ...rest }
  const profile = engineProfiles[engine]
  const maxModelLength = Math.min(serving.maxModelLength, architecture.maxSequenceLength)
  const { tokens, memoryMiB } = computeCacheSize(
    device,
    memoryShare,
    maxBatchedTokens,
    maxModelLength,
    speculation?.draft,
  )
  const limits = {
    maxSequences,
    maxBatchedTokens,
    cacheTokens: tokens,
    queueLimit,
    ...profile.order,
    ...(speculation && { speculation }),
  }
  const ownMs = predictStepTimes(device, profile)
  const draftMs =
    speculation?.draft && predictDraftTimes(device, speculation.draft, speculation.tokens, profile)
  const stepMs = draftMs === undefined ? ownMs : (work: StepWork) => ownMs(work) + draftMs(work)
  return {
    engine,
    device,
    limits,
    maxModelLength,
    memoryMiB,
    stepMs,
    hostMs: profile.hostMs.front,
    prefixCaching,
  }
}

/** Settings of speculative decoding. */
interface DraftingOptions {
  /** Draft tokens per step; 0: no speculative decoding. */
  readonly tokens: number
  readonly method: SpeculativeMethod
  /** The draft model, if the method needs a named one. */
  readonly model?: string
  /** Acceptance probability of draft tokens; absent: the assumption for the method. */
  readonly acceptance?: number
}

/**
 * Plans speculative decoding; undefined without drafts.
 * @throws DeviceModelError for a draft model that is not named, or not known
 */
export function planSpeculation(
  { tokens, method, model, acceptance = assumedAcceptance[method] }: DraftingOptions,
  architecture: Decoder,
  own: readonly Architecture[] = [],
): Speculation | undefined {
  if (tokens === 0) return undefined
  const draft = resolveDraft(method, architecture, model, own)
  return { tokens, acceptance, ...(draft && { draft }) }
}
