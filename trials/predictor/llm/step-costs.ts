/** Computes the capacity of a language model's cache. */
import {
  countKvBytesPerToken,
  countKvElementsPerToken,
  countParameters,
  type Decoder,
} from '../../devices/architecture.ts'
import { computeUsableMemoryMiB } from '../../devices/catalogue.ts'
import { getBytesPerElement } from '../../devices/convnets.ts'
import { predictGpuMemory } from '../../devices/device-model.ts'
import { OutOfMemoryError } from '../engine.ts'
import {
  countCacheBytes,
  countLayerWeights,
  type LlmDevice,
  resolveArithmetic,
} from './step-model.ts'

interface CacheSize {
  /** Capacity in tokens. */
  readonly tokens: number
  /** GPU memory of each GPU that is used, MiB. */
  readonly memoryMiB: number
}

/**
 * Memory for keys and values after weights, context and the activations of the largest step, as
 * vLLM profiles it.
 * @param utilization share of each GPU's memory that may be used, 0-1
 * @param draft draft model: its weights in 16 bits, and its keys and values of every token
 * @throws OutOfMemoryError if no sequence of `maxModelLength` tokens fits
 */
export function computeCacheSize(
  device: LlmDevice,
  utilization: number,
  maxBatchedTokens: number,
  maxModelLength: number,
  draft?: Decoder,
): CacheSize {
  const { architecture, gpu, precision, tensorParallel } = device
  const memoryMiB = computeUsableMemoryMiB(gpu) * utilization
  const kvElements =
    countKvElementsPerToken(architecture) +
    (draft === undefined ? 0 : countKvElementsPerToken(draft))
  const perToken = (kvElements * countCacheBytes(device)) / 2 ** 20
  const length = Math.min(maxBatchedTokens, architecture.maxSequenceLength)
  const { mib } = predictGpuMemory({
    architecture,
    gpu,
    precision,
    batch: 1,
    sequenceLength: length,
    phase: 'prefill',
  })
  const whole =
    mib -
    (countKvBytesPerToken(architecture, precision) / 2 ** 20) * length -
    computeSavedMiB(device)
  const context = getGpuContextMiB(device)
  const draftMiB = draft === undefined ? 0 : (2 * countParameters(draft)) / 2 ** 20
  const needed = context + (whole - context + draftMiB) / tensorParallel
  const tokens = Math.floor((memoryMiB - needed) / (perToken / tensorParallel))
  if (tokens < maxModelLength)
    throw new OutOfMemoryError(
      `CUDA out of memory (emulated): ${architecture.name}${draft === undefined ? '' : ` and ${draft.name} as draft model`} needs ${Math.ceil(needed)} MiB on each of ${tensorParallel} ${gpu.name} before the cache; ` +
        `${Math.floor(memoryMiB)} MiB leave room for ${Math.max(0, tokens)} tokens, fewer than max-model-len ${maxModelLength}`,
    )
  return { tokens, memoryMiB }
}

/**
 * Memory that quantised weights save relative to the arithmetic precision; embeddings stay in 16
 * bits.
 */
function computeSavedMiB(device: LlmDevice): number {
  const { architecture, precision } = device
  const { weightBytes } = resolveArithmetic(device)
  const layers = countLayerWeights(architecture)
  const others = countParameters(architecture) - layers
  return (
    (layers * (getBytesPerElement(precision) - weightBytes) +
      others * (getBytesPerElement(precision) - Math.max(2, weightBytes))) /
    2 ** 20
  )
}

/** Memory of a process independent of the model: that of a model of size 0. */
function getGpuContextMiB({ gpu, precision }: LlmDevice): number {
  const empty: Decoder = {
    kind: 'decoder',
    name: 'empty',
    layers: 0,
    hidden: 1,
    heads: 1,
    kvHeads: 1,
    headSize: 1,
    intermediate: 1,
    vocabulary: 1,
    maxSequenceLength: 2,
  }
  return predictGpuMemory({
    architecture: empty,
    gpu,
    precision,
    batch: 1,
    sequenceLength: 1,
    phase: 'decode',
  }).mib
}
