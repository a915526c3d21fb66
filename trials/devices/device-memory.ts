/**
 * Estimates the GPU memory of one server process: context + weights + workspace + (activations +
 * key-value cache) × batch.
 */
import {
  type Architecture,
  type CallShape,
  countKvBytesPerToken,
  countParameters,
  defaultSequenceLength,
} from './architecture.ts'
import type { Gpu, Precision } from './catalogue.ts'
import type { MemoryCoefficients } from './coefficients.ts'
import { getBytesPerElement, listConvolutions } from './convnets.ts'
import { countGraphItem } from './onnx/graph-architecture.ts'

const bytesPerMiB = 2 ** 20
/** Workspace that a compiled engine reserves for its kernels. */
const engineWorkspaceMiB = 64

/** Without a flag the model runs as a compiled engine. At most one flag is set. */
export interface MemoryShape extends CallShape {
  readonly architecture: Architecture
  readonly gpu: Gpu
  /**
   * Runs in a framework before 2017, which stores every layer's output; compiled engines reuse the
   * memory.
   */
  readonly storesActivations?: boolean
  /**
   * Runs in an eager framework (PyTorch), which frees an output after use, but reserves more than
   * the live activations.
   */
  readonly isEager?: boolean
}

/**
 * Context of an eager framework: memory of a PyTorch 2.11 process that serves BERT-base on an H200
 * at batch 1, without its weights.
 */
const eagerContextMiB = 750
/**
 * Ratio of the memory that PyTorch reserves for activations to that of the live ones. Measured on
 * that H200: 1.2 to 2.4 (BERT, ResNet-50, VGG-16, MobileNetV2).
 */
const eagerReserveRatio = 2

/** Estimates the memory by part, MiB, for batches of `shape.batch` items. */
export function estimateMemoryParts(
  shape: MemoryShape,
  precision: Precision,
  coefficients: MemoryCoefficients,
): {
  readonly contextMiB: number
  readonly weightsMiB: number
  readonly workspaceMiB: number
  readonly activationsMiB: number
  readonly cacheMiB: number
} {
  const { architecture, batch } = shape
  const bytes = getBytesPerElement(precision)
  // Activations of language models and graphs stay at least 16 bits wide, those of convolutions not.
  const minActivationBytes = architecture.kind === 'convnet' ? 1 : 2
  const isUpToPascal = ['Kepler', 'Maxwell', 'Pascal'].includes(shape.gpu.generation)
  return {
    contextMiB: Math.max(
      isUpToPascal ? coefficients.contextUpToPascalMiB : coefficients.contextMiB,
      shape.isEager ? eagerContextMiB : 0,
    ),
    weightsMiB: (countParameters(architecture) * bytes) / bytesPerMiB,
    workspaceMiB: shape.storesActivations
      ? (countIm2colElements(architecture) * bytes) / bytesPerMiB
      : engineWorkspaceMiB,
    activationsMiB:
      (shape.storesActivations
        ? coefficients.storedActivationRatio * countStoredActivations(shape) * bytes
        : (shape.isEager ? eagerReserveRatio : 1) *
          countLiveActivations(shape) *
          Math.max(bytes, minActivationBytes)) *
      (batch / bytesPerMiB),
    cacheMiB:
      architecture.kind === 'decoder'
        ? (countKvBytesPerToken(architecture, precision) *
            batch *
            (shape.sequenceLength ?? defaultSequenceLength)) /
          bytesPerMiB
        : 0,
  }
}

/**
 * Counts the elements of the largest im2col matrix, for one image: frameworks that convolve by
 * matrix products allocate it.
 */
function countIm2colElements(architecture: Architecture): number {
  if (architecture.kind === 'graph') return countGraphItem(architecture, {}).maxIm2colElements
  if (architecture.kind !== 'convnet') return 0
  // One output pixel is a fully connected layer, which needs no such matrix.
  return Math.max(
    ...listConvolutions(architecture).map(({ rows, depth }) => (rows > 1 ? rows * depth : 0)),
  )
}

/** Counts the outputs of all layers, for one item. */
function countStoredActivations({
  architecture,
  sequenceLength = defaultSequenceLength,
  imageSize,
}: MemoryShape): number {
  switch (architecture.kind) {
    case 'convnet': {
      const side = imageSize ?? architecture.imageSize
      const scale = (side / architecture.imageSize) ** 2
      return (
        3 * side ** 2 +
        listConvolutions(architecture).reduce(
          (sum, layer) => sum + (layer.outputs + layer.normalised) * scale,
          0,
        )
      )
    }
    // For each token and layer: nine outputs of width `hidden`, the feed-forward layer before and
    // after its activation, attention scores before and after the softmax.
    case 'encoder':
      return (
        architecture.layers *
        sequenceLength *
        (9 * architecture.hidden +
          2 * architecture.intermediate +
          2 * architecture.heads * sequenceLength)
      )
    // For each token and layer: eight outputs of width `hidden`, and gate, input and product of the
    // gated feed-forward layer. Attention scores are not stored.
    case 'decoder':
      return (
        architecture.layers *
        sequenceLength *
        (8 * architecture.hidden + 3 * architecture.intermediate)
      )
    case 'graph':
      return countGraphItem(architecture, { sequenceLength, imageSize }).storedElements
  }
}

/**
 * Factor of live activations for fragmentation. Assumed: no published table covers the memory of
 * compiled engines.
 */
const fragmentationFactor = 1.5

/**
 * Counts the activations alive at once, for one item: input and output of the largest kernel and a
 * residual, times the factor for fragmentation. Decoders add the logits of one token, twice.
 */
function countLiveActivations({
  architecture,
  sequenceLength = defaultSequenceLength,
  imageSize,
  phase,
}: MemoryShape): number {
  switch (architecture.kind) {
    case 'convnet': {
      const scale = ((imageSize ?? architecture.imageSize) / architecture.imageSize) ** 2
      return (
        fragmentationFactor *
        scale *
        Math.max(...listConvolutions(architecture).map((l) => l.inputs + l.outputs))
      )
    }
    case 'encoder':
      return (
        fragmentationFactor * sequenceLength * (3 * architecture.hidden + architecture.intermediate)
      )
    case 'decoder':
      return (
        fragmentationFactor *
          (phase === 'decode' ? 1 : sequenceLength) *
          (3 * architecture.hidden + 2 * architecture.intermediate) +
        2 * architecture.vocabulary
      )
    case 'graph':
      return (
        fragmentationFactor *
        countGraphItem(architecture, { sequenceLength, imageSize }).peakLiveElements
      )
  }
}
