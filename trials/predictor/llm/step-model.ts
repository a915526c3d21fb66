/**
 * Cost of one step of a language model on its GPUs: one forward pass over the tokens of prompts and
 * one token of each decoding sequence.
 *
 * Calibrated on per-operation latencies that ai-dynamo/aiconfigurator (Apache-2.0) measured,
 * composed into whole steps for llama-3.1-8b and qwen2.5-14b on A100, H100, H200, B200 and L40S,
 * alone and in groups of 2 to 8 (search/bench/tables/llm-composed). The tables do not name lengths:
 * 256 output tokens follow from their rates, 1,024 input tokens are assumed. The overhead of whole
 * servers is in their profile.
 */
import {
  countAttentionWeights,
  countFeedForwardWeights,
  countKvElementsPerToken,
  type Decoder,
} from '../../devices/architecture.ts'
import type { Gpu, Precision } from '../../devices/catalogue.ts'
import { getBytesPerElement } from '../../devices/convnets.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'

/**
 * Weights in fewer bits than the arithmetic. `fp8`: both in 8 bits where the GPU has them, else
 * weights alone; `awq`, `gptq`: weights in 4 bits.
 */
export const quantizations = ['none', 'fp8', 'awq', 'gptq'] as const
export type Quantization = (typeof quantizations)[number]

/** Numbers of the cache of keys and values: `auto` as the arithmetic has them, 16 bits at least. */
export const kvCacheDtypes = ['auto', 'fp8', 'fp8_e4m3', 'fp8_e5m2'] as const
export type KvCacheDtype = (typeof kvCacheDtypes)[number]

export interface LlmDevice {
  readonly architecture: Decoder
  readonly gpu: Gpu
  readonly precision: Precision
  readonly quantization?: Quantization
  readonly kvCacheDtype?: KvCacheDtype
  /** GPUs that share every layer. */
  readonly tensorParallel: number
}

/**
 * Work of one step: new prompt tokens, and one token of each running sequence, with its draft
 * tokens.
 */
export interface StepWork {
  readonly prefillTokens: number
  readonly decodes: number
  /** Tokens in the cache of the decoding sequences, all together. */
  readonly decodeContext: number
  /** Number of sequences with prompt tokens. Default 1 if there are any. */
  readonly prompts?: number
  /** Tokens of those prompts that are in the cache already, all together. */
  readonly promptContext?: number
  /** Sequences whose decoding waits for this step. */
  readonly delayedDecodes?: number
  /** Draft tokens of the decoding sequences that it verifies, all together. */
  readonly drafts?: number
}

/** Parts of a step on each GPU of the group, in ms at datasheet rates. */
export interface StepParts {
  readonly layers: number
  readonly weights: number
  /** Reading the weights if they are in 8 bits, else 0. */
  readonly weights8: number
  readonly cache: number
  readonly flops16: number
  readonly flops8: number
  /** Hidden states of the tokens, read or written once in each layer, in 16 bits. */
  readonly activations: number
  /** All-reduces, and their bytes over the link. */
  readonly exchanges: number
  readonly exchanged: number
}

/**
 * How much longer each takes than by the datasheet in the composed tables. Fitted by relative least
 * squares; the test of this file fits them again.
 */
export const stepCoefficients = {
  /** ms of launches and small kernels a layer. */
  layers: 0.0446,
  weights: 1.1145,
  weights8: 0.1984,
  cache: 2.871,
  flops16: 1.0522,
  flops8: 2.1849,
} as const

/**
 * Latency of one all-reduce, ms, and its bandwidth. NVLink is fitted; for PCIe the tables are
 * inconsistent, hence its larger error.
 */
export const links = {
  nvlink: { ms: 0.0076, gbPerS: 200 },
  pcie: { ms: 0.0436, gbPerS: 7 },
} as const

/** Whether GPUs of one machine reach each other over NVLink. */
export const hasNvlink = (gpu: Gpu): boolean =>
  /^(V100$|V100-32GB|P100-SXM2|A100-\d|H100$|H200|B\d)/.test(gpu.name)

/** Additional standard deviation of ln(time) for a group of GPUs, by its link. */
export const splitError = (gpu: Gpu): number => (hasNvlink(gpu) ? 0.3 : 0.6)

/** Storage and arithmetic of the numbers on a device. */
interface Arithmetic {
  readonly weightBytes: number
  /** Peak, 10^12 operations per second, and whether it is that of 8 bits. */
  readonly tflops: number
  readonly isEightBit: boolean
  /**
   * Time of the products against that of 16-bit weights: 4-bit weights have to be widened first.
   */
  readonly widening: number
}

/**
 * Groups of 128 weights with a scale and a zero point, both 16 bits (Lin et al., AWQ, MLSys 2024;
 * Frantar et al., GPTQ, ICLR 2023).
 */
export const fourBitBytes = 0.5 + 4 / 128
/**
 * Products of prompts with 4-bit weights run at about this much longer than with 16-bit ones
 * (Frantar et al., MARLIN, PPoPP 2025). An assumption, not calibrated.
 */
const fourBitWidening = 1.1

/**
 * Resolves the arithmetic precision and rate of a device.
 * @throws DeviceModelError for a precision or quantisation that the GPU lacks
 */
export function resolveArithmetic({
  gpu,
  precision,
  quantization = 'none',
}: Omit<LlmDevice, 'architecture' | 'tensorParallel'>): Arithmetic {
  const computePrecision: Precision =
    precision === 'fp8' || precision === 'int8' ? 'fp16' : precision
  const tflops = gpu.peakTflops[computePrecision] ?? gpu.peakTflops.fp16 ?? gpu.peakTflops.fp32!
  const createKernelError = (what: string) =>
    new DeviceModelError(
      `${gpu.name} (${gpu.generation}) has no kernels for ${what}`,
      'use quantization none, or a Turing or later GPU',
    )
  if (quantization === 'awq' || quantization === 'gptq') {
    if (gpu.peakTflops.int8 === undefined || isBeforeGeneration('Turing', gpu))
      throw createKernelError(quantization)
    return { weightBytes: fourBitBytes, tflops, isEightBit: false, widening: fourBitWidening }
  }
  const eightBitPrecision =
    quantization === 'fp8'
      ? 'fp8'
      : precision === 'fp8' || precision === 'int8'
        ? precision
        : undefined
  if (eightBitPrecision === undefined)
    return {
      weightBytes: computePrecision === 'fp32' || computePrecision === 'tf32' ? 4 : 2,
      tflops,
      isEightBit: false,
      widening: 1,
    }
  const peak = gpu.peakTflops[eightBitPrecision]
  if (peak !== undefined) return { weightBytes: 1, tflops: peak, isEightBit: true, widening: 1 }
  if (quantization !== 'fp8')
    throw new DeviceModelError(
      `${gpu.name} has no ${eightBitPrecision}`,
      'use precision fp16, or quantization fp8, which applies to weights only',
    )
  if (isBeforeGeneration('Ampere', gpu)) throw createKernelError('fp8 weights')
  return { weightBytes: 1, tflops, isEightBit: false, widening: 1 }
}

const generations = [
  'Kepler',
  'Maxwell',
  'Pascal',
  'Volta',
  'Turing',
  'Ampere',
  'Ada',
  'Hopper',
  'Blackwell',
]
const isBeforeGeneration = (generation: string, gpu: Gpu): boolean => {
  const gpuIndex = generations.indexOf(gpu.generation)
  return gpuIndex >= 0 && gpuIndex < generations.indexOf(generation)
}

/**
 * Counts the weights of the layers' products, which quantisation narrows. Embeddings and the last
 * product are unchanged.
 */
export const countLayerWeights = (a: Decoder): number =>
  a.layers * countAttentionWeights(a) + countFeedForwardWeights(a)

/** Counts the weights that a token is multiplied with. */
const countActiveWeights = (a: Decoder): number =>
  a.layers * countAttentionWeights(a) + countFeedForwardWeights(a, a.experts?.active)

/** Counts the layer weights that a number of tokens reads. Experts are chosen uniformly. */
function readWeights(a: Decoder, tokens: number): number {
  if (a.experts === undefined) return countLayerWeights(a)
  const { count, active } = a.experts
  return (
    a.layers * countAttentionWeights(a) +
    countFeedForwardWeights(a, count * (1 - (1 - active / count) ** tokens))
  )
}

/**
 * Counts the bytes of one number of the cache.
 * @throws DeviceModelError if the GPU cannot read it
 */
export function countCacheBytes({
  gpu,
  precision,
  kvCacheDtype = 'auto',
}: Pick<LlmDevice, 'gpu' | 'precision' | 'kvCacheDtype'>): number {
  if (kvCacheDtype === 'auto') return Math.max(2, getBytesPerElement(precision))
  if (isBeforeGeneration('Ampere', gpu))
    throw new DeviceModelError(
      `${gpu.name} (${gpu.generation}) has no kernels for a cache in ${kvCacheDtype}`,
      'use kvCacheDtype auto, or an Ampere or later GPU',
    )
  return 1
}

/** Computes the parts of steps on a device. */
export function computeStepParts(device: LlmDevice): (work: StepWork) => StepParts {
  const { architecture: a, gpu, tensorParallel } = device
  const { weightBytes, tflops, isEightBit, widening } = resolveArithmetic(device)
  const tflops16 = gpu.peakTflops.fp16 ?? gpu.peakTflops.fp32!
  const bytesPerMs = gpu.bandwidthGBs * 1e6 * tensorParallel
  const head = a.vocabulary * a.hidden
  const weights = countActiveWeights(a)
  const kvBytes = countKvElementsPerToken(a) * countCacheBytes(device)
  const link = hasNvlink(gpu) ? links.nvlink : links.pcie
  return ({
    prefillTokens,
    decodes,
    decodeContext,
    prompts = 1,
    promptContext = 0,
    drafts = 0,
  }) => {
    const tokens = prefillTokens + decodes + drafts
    const readMs = (readWeights(a, tokens) * weightBytes + 2 * head) / bytesPerMs
    const products = (2 * weights * tokens * widening) / (tflops * 1e9 * tensorParallel)
    // Only the last token of a prompt is unembedded, but every candidate token of an answer. The
    // context is read once for all. Causal attention: half of all pairs within a piece, and all
    // with what went before it.
    const pairs =
      prefillTokens === 0 ? 0 : (prefillTokens * (prefillTokens / 2 + promptContext)) / prompts
    const others =
      (2 * head * (decodes + drafts + (prefillTokens > 0 ? prompts : 0)) +
        4 * a.layers * a.heads * a.headSize * pairs) /
      (tflops16 * 1e9 * tensorParallel)
    const bytes = (2 * (tensorParallel - 1) * tokens * a.hidden * 2) / tensorParallel
    return {
      layers: a.layers,
      weights: readMs,
      weights8: isEightBit ? readMs : 0,
      cache: (kvBytes * (decodeContext + promptContext)) / bytesPerMs,
      flops16: others + (isEightBit ? 0 : products),
      flops8: isEightBit ? products : 0,
      activations: (2 * a.layers * a.hidden * tokens) / (gpu.bandwidthGBs * 1e6),
      exchanges: tensorParallel === 1 ? 0 : 2 * a.layers * link.ms,
      exchanged: (2 * a.layers * bytes) / (link.gbPerS * 1e6),
    }
  }
}
