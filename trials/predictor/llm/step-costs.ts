/** How many tokens the cache of a language model holds. */
import {
  type Decoder,
  kvBytesPerToken,
  kvElementsPerToken,
  parameterCount,
} from '../../devices/architecture.ts'
import { usableMemoryMiB } from '../../devices/catalogue.ts'
import { bytesPerElement } from '../../devices/convnets.ts'
import { gpuMemoryMiB } from '../../devices/device-model.ts'
import { OutOfMemoryError } from '../engine.ts'
import { arithmeticOf, cacheBytes, type LlmDevice, layerWeights } from './step-model.ts'

interface CacheSize {
  /** Tokens whose keys and values fit. */
  readonly tokens: number
  /** GPU memory of each GPU that is used, MiB. */
  readonly memoryMiB: number
}

/**
 * What is left for keys and values once weights, context and the activations of the largest step
 * are in place, as vLLM profiles it.
 * @param utilization share of each GPU's memory that may be used, 0-1
 * @param draft model that drafts beside it: its weights, in 16 bits, and its own keys and values of
 * every token
 * @throws OutOfMemoryError when no sequence of `maxModelLength` tokens fits
 */
export function cacheSize(
  device: LlmDevice,
  utilization: number,
  maxBatchedTokens: number,
  maxModelLength: number,
  draft?: Decoder,
): CacheSize {
  const { architecture, gpu, precision, tensorParallel } = device
  const memoryMiB = usableMemoryMiB(gpu) * utilization
  const kvElements =
    kvElementsPerToken(architecture) + (draft === undefined ? 0 : kvElementsPerToken(draft))
  const perToken = (kvElements * cacheBytes(device)) / 2 ** 20
  const length = Math.min(maxBatchedTokens, architecture.maxSequenceLength)
  const { mib } = gpuMemoryMiB({
    architecture,
    gpu,
    precision,
    batch: 1,
    sequenceLength: length,
    phase: 'prefill',
  })
  const whole =
    mib - (kvBytesPerToken(architecture, precision) / 2 ** 20) * length - savedMiB(device)
  const context = gpuContextMiB(device)
  const draftMiB = draft === undefined ? 0 : (2 * parameterCount(draft)) / 2 ** 20
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
 * What quantisation saves of the weights in the arithmetic's precision; embeddings stay in 16 bits.
 */
function savedMiB(device: LlmDevice): number {
  const { architecture, precision } = device
  const { weightBytes } = arithmeticOf(device)
  const layers = layerWeights(architecture)
  const others = parameterCount(architecture) - layers
  return (
    (layers * (bytesPerElement(precision) - weightBytes) +
      others * (bytesPerElement(precision) - Math.max(2, weightBytes))) /
    2 ** 20
  )
}

/** What each process holds whatever the model: what a model of no size needs. */
function gpuContextMiB({ gpu, precision }: LlmDevice): number {
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
  return gpuMemoryMiB({
    architecture: empty,
    gpu,
    precision,
    batch: 1,
    sequenceLength: 1,
    phase: 'decode',
  }).mib
}
