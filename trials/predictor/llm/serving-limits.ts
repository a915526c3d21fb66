/**
 * A language model's server as it is set up: device, cache, and what its scheduler may do. Emulated
 * and simulated servers are made of it alike.
 */
import type { Architecture, Decoder } from '../../devices/architecture.ts'
import {
  draftTimes,
  engineProfiles,
  type LlmEngineName,
  profiledStepTimes,
} from './engine-profile.ts'
import type { SchedulerLimits } from './scheduler.ts'
import { draftOf, type Speculation } from './speculation.ts'
import { assumedAcceptance, defaultMethod, type SpeculativeMethod } from './speculative-methods.ts'
import { cacheSize } from './step-costs.ts'
import type { LlmDevice, StepWork } from './step-model.ts'

/** What may be tuned, by the names that vLLM gives it. */
interface LlmServing extends Omit<LlmDevice, 'architecture'> {
  /** Whose schedule and host it has. */
  readonly engine: LlmEngineName
  /** Sequences under way at once (max-num-seqs). */
  readonly maxSequences: number
  /** Tokens of one step (max-num-batched-tokens). */
  readonly maxBatchedTokens: number
  /** Longest sequence, prompt and answer (max-model-len). */
  readonly maxModelLength: number
  /**
   * Share of each GPU's memory, 0-1 (gpu-memory-utilization, times the share of the GPU that is
   * held).
   */
  readonly memoryShare: number
  readonly queueLimit: number
  /** Beginnings that were seen are not computed again (enable-prefix-caching). */
  readonly prefixCaching: boolean
  /** Drafts; absent: none. */
  readonly speculation?: Speculation
}

/** Where nothing is said: vLLM's own, but for the length. */
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
  /** Of each request on the host before the scheduler sees it, ms. */
  readonly frontMs: number
  readonly prefixCaching: boolean
}

/**
 * @throws OutOfMemoryError where weights and one sequence do not fit
 * @throws DeviceModelError for what the GPU does not have
 */
export function llmServer(architecture: Decoder, serving: LlmServing): LlmServer {
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
  const { tokens, memoryMiB } = cacheSize(
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
  const ownMs = profiledStepTimes(device, profile)
  const draftMs =
    speculation?.draft && draftTimes(device, speculation.draft, speculation.tokens, profile)
  const stepMs = draftMs === undefined ? ownMs : (work: StepWork) => ownMs(work) + draftMs(work)
  return {
    engine,
    device,
    limits,
    maxModelLength,
    memoryMiB,
    stepMs,
    frontMs: profile.hostMs.front,
    prefixCaching,
  }
}

/** How drafts are made, as it is told. */
interface Drafting {
  /** 0: none. */
  readonly tokens: number
  readonly method: SpeculativeMethod
  /** The draft model, where the method has one that is named. */
  readonly model?: string
  /** Absent: the assumption for the method. */
  readonly acceptance?: number
}

/**
 * Undefined without drafts.
 * @throws DeviceModelError for a draft model that is not named, or not known
 */
export function speculationOf(
  { tokens, method, model, acceptance = assumedAcceptance[method] }: Drafting,
  architecture: Decoder,
  own: readonly Architecture[] = [],
): Speculation | undefined {
  if (tokens === 0) return undefined
  const draft = draftOf(method, architecture, model, own)
  return { tokens, acceptance, ...(draft && { draft }) }
}
