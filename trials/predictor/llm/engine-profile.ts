/**
 * Profiles of language-model servers relative to the step model: host time while the GPU waits,
 * kernel efficiency, and scheduling order. Fitted to published measurements of whole servers
 * (trials/devices/tables: llm-servers.csv of LLM-Pilot, llm-bench.csv of gpustack,
 * llm-throughput.csv of NVIDIA); `npm run bench:devices -- --llm` reports the errors on held-out
 * rows.
 */
import type { Decoder } from '../../devices/architecture.ts'
import type { Gpu } from '../../devices/catalogue.ts'
import { calibratedCoefficients } from '../../devices/coefficients.ts'
import { limitTflopsByPower } from '../../devices/device-physics.ts'
import type { SchedulerLimits } from './scheduler.ts'
import {
  computeStepParts,
  hasNvlink,
  type LlmDevice,
  type StepWork,
  splitError,
  stepCoefficients,
} from './step-model.ts'

export const llmEngineNames = ['vllm', 'sglang', 'tgi', 'tensorrt-llm'] as const
export type LlmEngineName = (typeof llmEngineNames)[number]

export interface EngineProfile {
  readonly order: Pick<SchedulerLimits, 'separatePrefill' | 'reserves'>
  /** Times of the host, ms. */
  readonly hostMs: {
    /**
     * Serial host time for each request before the scheduler, during which the GPU works on. All
     * other times delay the GPU.
     */
    readonly front: number
    /** Added to every step. */
    readonly step: number
    /** Added to a step that several GPUs share. */
    readonly split: number
    /** Added for each sequence of a step. */
    readonly sequence: number
    /** Added to a step with prompts. */
    readonly prefill: number
    /** Added for each prompt of a step. */
    readonly prompt: number
    /** Added for each decoding sequence that a step with prompts delays. */
    readonly join: number
  }
  /**
   * Slowdown relative to the step model: reading weights, reading the cache, and arithmetic
   * relative to the peak, or to the rate that the board's power sustains.
   */
  readonly level: {
    readonly weights: number
    readonly cache: number
    readonly flops: number
    /** Slowdown of arithmetic in 8 bits. */
    readonly flops8: number
    /**
     * Memory transfers of a token's hidden state in each layer, in addition to those in the
     * arithmetic level.
     */
    readonly activations: number
    /** Communication of GPUs that share a model, over either link. */
    readonly nvlink: number
    readonly pcie: number
  }
}

/**
 * Fits for the servers of the tables: vLLM 0.11.0, SGLang 0.5, TGIS (IBM's branch of TGI) of
 * October 2023, TensorRT-LLM 0.14 to 1.2.
 */
export const engineProfiles: Readonly<Record<LlmEngineName, EngineProfile>> = {
  vllm: {
    order: {},
    hostMs: {
      front: 9.18,
      step: 0.635,
      split: 0.5,
      sequence: 0.0112,
      prefill: 17.5,
      prompt: 12.1,
      join: 0.05,
    },
    level: {
      weights: 0.984,
      cache: 1.01,
      flops: 1.46,
      flops8: 1.46,
      activations: 0,
      nvlink: 1,
      pcie: 1,
    },
  },
  sglang: {
    order: { separatePrefill: { waitingShare: 0, decodingSteps: 0 }, reserves: true },
    hostMs: {
      front: 6.92,
      step: 0.677,
      split: 0.5,
      sequence: 0.00801,
      prefill: 4.61,
      prompt: 0.142,
      join: 0.157,
    },
    level: {
      weights: 0.981,
      cache: 0.974,
      flops: 1.98,
      flops8: 1.98,
      activations: 0,
      nvlink: 1,
      pcie: 1,
    },
  },
  tgi: {
    order: { separatePrefill: { waitingShare: 0.2, decodingSteps: 6 }, reserves: true },
    hostMs: {
      front: 1.72,
      step: 3.62,
      split: 2.35,
      sequence: 0.411,
      prefill: 5.52,
      prompt: 0.175,
      join: 2.89,
    },
    level: {
      weights: 0.951,
      cache: 1.19,
      flops: 1.86,
      flops8: 1.86,
      activations: 0,
      nvlink: 1,
      pcie: 1,
    },
  },
  'tensorrt-llm': {
    order: { reserves: true },
    hostMs: {
      front: 1.81,
      step: 0.666,
      split: 0.525,
      sequence: 0.00332,
      prefill: 2.14,
      prompt: 0.086,
      join: 0.05,
    },
    level: {
      weights: 0.957,
      cache: 0.435,
      flops: 1.22,
      flops8: 0.882,
      activations: 31.5,
      nvlink: 0.804,
      pcie: 0.471,
    },
  },
}

interface EngineErrors {
  /** GPUs on which the server was measured. */
  readonly gpus: readonly string[]
  /** Whether measurements include GPUs that share a model. */
  readonly split: boolean
  /** Standard deviations of ln(simulated / measured) for a held-out model, and a held-out GPU. */
  readonly otherModel: number
  readonly otherGpu: number
}

/**
 * Each covers two thirds of the rows of the worst metric (tokens per second, time to first token,
 * time between tokens), widened for the small number of GPUs and models (`npm run bench:devices --
 * --llm`).
 */
export const engineErrors: Readonly<Record<LlmEngineName, EngineErrors>> = {
  vllm: { gpus: ['A100-80GB', 'H100'], split: false, otherModel: 0.3, otherGpu: 0.36 },
  sglang: { gpus: ['A100-80GB', 'H100'], split: false, otherModel: 0.51, otherGpu: 0.65 },
  tgi: { gpus: ['A100-40GB', 'H100', 'A10', 'T4'], split: true, otherModel: 0.69, otherGpu: 0.36 },
  'tensorrt-llm': {
    gpus: ['A100-80GB', 'A100-PCIe-80GB', 'H100', 'H200', 'L40S'],
    split: true,
    otherModel: 0.24,
    otherGpu: 0.26,
  },
}
/** Error of today's TGI, which no table measured: that of TGIS predicted by its operations only. */
const successorError = 1.1

/** Relative error (standard deviation) of step times. */
export function getEngineError(
  engine: LlmEngineName,
  { gpu, tensorParallel }: { readonly gpu: Gpu; readonly tensorParallel: number },
): number {
  const { gpus, split, otherModel, otherGpu } = engineErrors[engine]
  return Math.expm1(
    Math.hypot(
      otherModel,
      gpus.includes(gpu.name) ? 0 : otherGpu,
      engine === 'tgi' ? successorError : 0,
      tensorParallel > 1 && !split ? splitError(gpu) : 0,
    ),
  )
}

/**
 * Slowdown of arithmetic under continuous load, when the power limit lowers the clock. The tables
 * of single operations do not include it. Fitted on GPUs up to Hopper; later ones are assumed to
 * sustain their peak.
 */
function slowForSustainedLoad(
  { gpu }: LlmDevice,
  peak: number | undefined,
  precision: 'fp16' | 'fp8',
): number {
  return peak === undefined || gpu.generation === 'Blackwell'
    ? 1
    : Math.max(1, peak / limitTflopsByPower(gpu, precision, calibratedCoefficients.physics))
}

/**
 * Time that drafting adds to a step, ms: a pass of the draft model for each draft token, and one
 * over the prompts to fill its cache. It runs on the same GPUs in 16 bits. Host time is assumed to
 * be in the step already (not calibrated).
 */
export function predictDraftTimes(
  device: LlmDevice,
  draft: Decoder,
  tokens: number,
  { order, level }: EngineProfile,
): (work: StepWork) => number {
  const passMs = predictStepTimes(
    { ...device, architecture: draft, quantization: 'none' },
    { order, level, hostMs: noHost },
  )
  return ({ prefillTokens, prompts, promptContext, decodes, decodeContext, drafts = 0 }) =>
    (drafts > 0 ? tokens * passMs({ prefillTokens: 0, decodes, decodeContext }) : 0) +
    passMs({ prefillTokens, prompts, promptContext, decodes: 0, decodeContext: 0 })
}

const noHost: EngineProfile['hostMs'] = {
  front: 0,
  step: 0,
  split: 0,
  sequence: 0,
  prefill: 0,
  prompt: 0,
  join: 0,
}

/**
 * Time of a server's step, ms; 0 for one without tokens.
 * @throws DeviceModelError for arithmetic or a quantisation that the GPU does not have
 */
export function predictStepTimes(
  device: LlmDevice,
  { hostMs, level }: EngineProfile,
): (work: StepWork) => number {
  const parts = computeStepParts(device)
  const c = stepCoefficients
  const { fp16, fp8, int8 } = device.gpu.peakTflops
  const [wide, narrow] = [
    slowForSustainedLoad(device, fp16, 'fp16'),
    slowForSustainedLoad(device, fp8 ?? int8, 'fp8'),
  ]
  const split = device.tensorParallel > 1 ? hostMs.split : 0
  const exchange = hasNvlink(device.gpu) ? level.nvlink : level.pcie
  return (work) => {
    const { prefillTokens, decodes, prompts = prefillTokens > 0 ? 1 : 0, delayedDecodes = 0 } = work
    if (prefillTokens + decodes === 0) return 0
    const p = parts(work)
    return (
      hostMs.step +
      split +
      (prefillTokens > 0 ? hostMs.prefill : 0) +
      hostMs.prompt * prompts +
      hostMs.join * delayedDecodes +
      hostMs.sequence * (decodes + prompts) +
      c.layers * p.layers +
      level.weights * (c.weights * p.weights + c.weights8 * p.weights8) +
      level.cache * c.cache * p.cache +
      level.flops * wide * p.flops16 +
      level.flops8 * narrow * p.flops8 +
      level.activations * p.activations +
      p.exchanges +
      exchange * p.exchanged
    )
  }
}
