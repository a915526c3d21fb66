/** Model architectures by their dimensions. */

import { suggestNames } from '../near-names.ts'
import type { Precision } from './catalogue.ts'
import { type Convnet, convnets, getBytesPerElement, listConvolutions } from './convnets.ts'
import { DeviceModelError } from './device-model-error.ts'
import type { GraphArchitecture } from './onnx/graph-architecture.ts'
import type { InputKind } from './onnx/graph-inputs.ts'

/** A stack of bidirectional transformer layers over embeddings (Devlin et al. 2018, section 3). */
export interface Encoder {
  readonly kind: 'encoder'
  readonly name: string
  readonly layers: number
  readonly hidden: number
  readonly heads: number
  readonly intermediate: number
  readonly vocabulary: number
  readonly maxSequenceLength: number
  /** Width of the embedding table where it is factorised (ALBERT); `hidden` otherwise. */
  readonly embedding?: number
  /** All layers share one set of weights (ALBERT). */
  readonly sharedLayers?: boolean
}

/** A decoder-only language model with grouped-query attention and a gated feed-forward part. */
export interface Decoder {
  readonly kind: 'decoder'
  readonly name: string
  readonly layers: number
  readonly hidden: number
  readonly heads: number
  readonly kvHeads: number
  readonly headSize: number
  /** Width of the feed-forward part, or of each expert. */
  readonly intermediate: number
  readonly vocabulary: number
  readonly maxSequenceLength: number
  /** Input and output embeddings are one table. */
  readonly tiedEmbeddings?: boolean
  /**
   * A mixture of experts: each token goes through `active` of `count`, and through the shared part
   * where there is one.
   */
  readonly experts?: {
    readonly count: number
    readonly active: number
    readonly sharedIntermediate?: number
    /** Layers without experts, of `denseIntermediate`. Default 0. */
    readonly denseLayers?: number
    readonly denseIntermediate?: number
  }
  /** Quantisation method that the model's file declares: awq, gptq, fp8, mxfp4, ... */
  readonly quantizationMethod?: string
}

export type Architecture = Encoder | Decoder | Convnet | GraphArchitecture

/** Gets the kind of input that requests for the architecture contain. */
export const getInputKind = (architecture: Architecture): InputKind =>
  architecture.kind === 'graph'
    ? architecture.inputKind
    : architecture.kind === 'convnet'
      ? 'image'
      : 'text'

/**
 * The size of one call. `sequenceLength`: tokens of each text (encoder), of each prompt (prefill),
 * or in the cache (decode).
 */
export interface CallShape {
  readonly batch: number
  readonly sequenceLength?: number
  /** Side of square images; the architecture's own when absent. */
  readonly imageSize?: number
  readonly phase?: 'prefill' | 'decode'
}

export const defaultSequenceLength = 128

const encoder = (
  name: string,
  layers: number,
  hidden: number,
  heads: number,
  more: Partial<Encoder> = {},
): Encoder => ({
  kind: 'encoder',
  name,
  layers,
  hidden,
  heads,
  intermediate: 4 * hidden,
  vocabulary: 30522,
  maxSequenceLength: 512,
  ...more,
})
/** Gated, three products in its feed-forward part. */
export const decoder = (
  name: string,
  [layers, hidden, heads, kvHeads, intermediate, vocabulary]: readonly [
    number,
    number,
    number,
    number,
    number,
    number,
  ],
  more: Partial<Decoder> = {},
): Decoder => ({
  kind: 'decoder',
  name,
  layers,
  hidden,
  heads,
  kvHeads,
  headSize: hidden / heads,
  intermediate,
  vocabulary,
  maxSequenceLength: 32768,
  ...more,
})

/**
 * Dimensions from each model's published configuration (Hugging Face config.json of the named
 * model).
 */
export const architectures: readonly Architecture[] = [
  encoder('bert-base', 12, 768, 12),
  encoder('bert-large', 24, 1024, 16),
  encoder('bert-medium', 8, 512, 8),
  encoder('bert-small', 4, 512, 8),
  encoder('bert-mini', 4, 256, 4),
  encoder('bert-tiny', 2, 128, 2),
  encoder('distilbert', 6, 768, 12),
  encoder('albert', 12, 768, 12, { embedding: 128, sharedLayers: true, vocabulary: 30000 }),
  encoder('roberta-base', 12, 768, 12, { vocabulary: 50265, maxSequenceLength: 514 }),
  encoder('minilm', 6, 384, 12),
  decoder('llama-3.1-8b', [32, 4096, 32, 8, 14336, 128256], { maxSequenceLength: 131072 }),
  decoder('llama-3.1-70b', [80, 8192, 64, 8, 28672, 128256], { maxSequenceLength: 131072 }),
  decoder('llama-3.1-405b', [126, 16384, 128, 8, 53248, 128256], { maxSequenceLength: 131072 }),
  decoder('llama-3.2-1b', [16, 2048, 32, 8, 8192, 128256], {
    maxSequenceLength: 131072,
    tiedEmbeddings: true,
  }),
  decoder('llama-3.2-3b', [28, 3072, 24, 8, 8192, 128256], {
    maxSequenceLength: 131072,
    tiedEmbeddings: true,
  }),
  decoder('llama-2-7b', [32, 4096, 32, 32, 11008, 32000], { maxSequenceLength: 4096 }),
  decoder('llama-2-70b', [80, 8192, 64, 8, 28672, 32000], { maxSequenceLength: 4096 }),
  decoder('mistral-7b', [32, 4096, 32, 8, 14336, 32000]),
  decoder('qwen2.5-0.5b', [24, 896, 14, 2, 4864, 151936], { tiedEmbeddings: true }),
  decoder('qwen2.5-7b', [28, 3584, 28, 4, 18944, 152064]),
  decoder('qwen2.5-14b', [48, 5120, 40, 8, 13824, 152064]),
  decoder('qwen2.5-32b', [64, 5120, 40, 8, 27648, 152064]),
  decoder('qwen2.5-72b', [80, 8192, 64, 8, 29568, 152064]),
  decoder('qwen3-4b', [36, 2560, 32, 8, 9728, 151936], {
    headSize: 128,
    maxSequenceLength: 40960,
    tiedEmbeddings: true,
  }),
  decoder('qwen3-8b', [36, 4096, 32, 8, 12288, 151936], { maxSequenceLength: 40960 }),
  decoder('qwen3-14b', [40, 5120, 40, 8, 17408, 151936], { maxSequenceLength: 40960 }),
  decoder('qwen3-32b', [64, 5120, 64, 8, 25600, 151936], {
    headSize: 128,
    maxSequenceLength: 40960,
  }),
  decoder('qwen3-30b-a3b', [48, 2048, 32, 4, 768, 151936], {
    headSize: 128,
    maxSequenceLength: 40960,
    experts: { count: 128, active: 8 },
  }),
  decoder('qwen3-235b-a22b', [94, 4096, 64, 4, 1536, 151936], {
    headSize: 128,
    maxSequenceLength: 40960,
    experts: { count: 128, active: 8 },
  }),
  decoder('mixtral-8x7b', [32, 4096, 32, 8, 14336, 32000], { experts: { count: 8, active: 2 } }),
  decoder('mixtral-8x22b', [56, 6144, 48, 8, 16384, 32768], {
    experts: { count: 8, active: 2 },
    maxSequenceLength: 65536,
  }),
  decoder('mistral-small-24b', [40, 5120, 32, 8, 32768, 131072], { headSize: 128 }),
  decoder('phi-4', [40, 5120, 40, 10, 17920, 100352], { maxSequenceLength: 16384 }),
  decoder('gemma-2-9b', [42, 3584, 16, 8, 14336, 256000], {
    headSize: 256,
    maxSequenceLength: 8192,
    tiedEmbeddings: true,
  }),
  decoder('gemma-2-27b', [46, 4608, 32, 16, 36864, 256000], {
    headSize: 128,
    maxSequenceLength: 8192,
    tiedEmbeddings: true,
  }),
  ...convnets,
]

const aliases: Readonly<Record<string, string>> = {
  bert: 'bert-base',
  'bert-base-uncased': 'bert-base',
  'bert-large-uncased': 'bert-large',
  'distilbert-base-uncased': 'distilbert',
  'albert-base-v2': 'albert',
  roberta: 'roberta-base',
  resnet: 'resnet50',
  'resnet-50': 'resnet50',
  mobilenetv1: 'mobilenet',
  'llama-3-1-8b': 'llama-3.1-8b',
  'llama-3.3-70b': 'llama-3.1-70b',
  'qwen2-5-14b': 'qwen2.5-14b',
}

/**
 * Finds the architecture of a model name or alias ('bert' is bert-base).
 * @throws DeviceModelError for an unknown name, naming close ones.
 */
export function findArchitecture(
  modelName: string,
  own: readonly Architecture[] = [],
): Architecture {
  const normalisedName = modelName.toLowerCase().replace(/_/g, '-')
  const canonical = aliases[normalisedName] ?? normalisedName
  const knownArchitectures = [...own, ...architectures]
  const architecture = knownArchitectures.find((a) => a.name === canonical || a.name === modelName)
  if (architecture) return architecture
  const names = [...knownArchitectures.map((a) => a.name), ...Object.keys(aliases)]
  // Names on the Hugging Face Hub begin with their owner, which does not help a search.
  throw new DeviceModelError(
    `unknown model architecture '${modelName}'`,
    suggestNames(modelName.split('/').at(-1)!, names),
  )
}

/**
 * Weights in memory, count. Encoders: embeddings, layers with biases and norms, pooler. Decoders:
 * no biases.
 */
export function countParameters(architecture: Architecture): number {
  switch (architecture.kind) {
    case 'encoder': {
      const { vocabulary, maxSequenceLength, hidden, intermediate, layers } = architecture
      const embedding = architecture.embedding ?? hidden
      const table = (vocabulary + maxSequenceLength + 2) * embedding + 2 * embedding
      const projection = embedding === hidden ? 0 : (embedding + 1) * hidden
      const layer =
        4 * hidden * (hidden + 1) + 2 * hidden * intermediate + intermediate + hidden + 4 * hidden
      return (
        table +
        projection +
        (architecture.sharedLayers ? 1 : layers) * layer +
        hidden * (hidden + 1)
      )
    }
    case 'decoder':
      return (
        architecture.vocabulary * architecture.hidden * (architecture.tiedEmbeddings ? 1 : 2) +
        architecture.layers * (countAttentionWeights(architecture) + 2 * architecture.hidden) +
        countFeedForwardWeights(architecture)
      )
    case 'convnet':
      return listConvolutions(architecture).reduce((sum, layer) => sum + layer.weights, 0)
    case 'graph':
      return architecture.parameters
  }
}

/** Weights of the attention projections of one decoder layer. */
export const countAttentionWeights = (a: Decoder): number =>
  a.hidden * a.headSize * (2 * a.heads + 2 * a.kvHeads)

/**
 * Weights of the feed-forward parts of all layers: gated, three products each.
 * @param counted how many experts of a layer, all by default
 */
export function countFeedForwardWeights(
  { hidden, intermediate, experts, layers }: Decoder,
  counted = experts?.count ?? 1,
): number {
  const { denseLayers = 0, denseIntermediate = intermediate } = experts ?? {}
  const layerWithExperts =
    3 * hidden * (intermediate * counted + (experts?.sharedIntermediate ?? 0)) +
    hidden * (experts?.count ?? 0)
  return (layers - denseLayers) * layerWithExperts + denseLayers * 3 * hidden * denseIntermediate
}

/** Elements that one token occupies in the key-value cache. */
export const countKvElementsPerToken = (a: Decoder): number => 2 * a.layers * a.kvHeads * a.headSize

/** Bytes of the same. By default servers cache 16 bits even where weights are narrower. */
export const countKvBytesPerToken = (a: Decoder, precision: Precision): number =>
  countKvElementsPerToken(a) * Math.max(2, getBytesPerElement(precision))
