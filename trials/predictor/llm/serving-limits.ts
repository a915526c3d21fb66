/** A language model's server as it is set up: device, cache, and what its scheduler may do. Emulated and simulated servers are made of it alike. */
import type { Decoder } from '../../devices/architecture.ts'
import { engineProfiles, type LlmEngineName, profiledStepTimes } from './engine-profile.ts'
import type { SchedulerLimits } from './scheduler.ts'
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
  /** Share of each GPU's memory, 0-1 (gpu-memory-utilization, times the share of the GPU that is held). */
  readonly memoryShare: number
  readonly queueLimit: number
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
}

/**
 * @throws OutOfMemoryError where weights and one sequence do not fit
 * @throws DeviceModelError for what the GPU does not have
 */
export function llmServer(architecture: Decoder, serving: LlmServing): LlmServer {
  const { engine, maxSequences, maxBatchedTokens, memoryShare, queueLimit, ...rest } = serving
  const device: LlmDevice = { architecture, ...rest }
  const profile = engineProfiles[engine]
  const maxModelLength = Math.min(serving.maxModelLength, architecture.maxSequenceLength)
  const { tokens, memoryMiB } = cacheSize(device, memoryShare, maxBatchedTokens, maxModelLength)
  const limits = { maxSequences, maxBatchedTokens, cacheTokens: tokens, queueLimit, ...profile.order }
  return { engine, device, limits, maxModelLength, memoryMiB, stepMs: profiledStepTimes(device, profile), frontMs: profile.hostMs.front }
}
