/**
 * Estimates GPU memory: context + weights + workspace + activations × batch (+ key-value cache).
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

const mebibyte = 2 ** 20
/** Workspace that a compiled engine reserves for its kernels. */
const engineWorkspaceMiB = 64

export interface MemoryShape extends CallShape {
  readonly architecture: Architecture
  readonly gpu: Gpu
  /** Frameworks before 2017 store every layer's output; compiled engines reuse the memory. */
  readonly storesActivations?: boolean
  /** Eager frameworks free an output after use, but reserve more than is alive at once. */
  readonly framework?: boolean
}

/**
 * PyTorch 2.11 on an H200: memory of a BERT-base process without its weights at batch 1.
 */
const frameworkContextMiB = 750
/**
 * Memory that PyTorch reserves for activations over that of the live ones. On that H200: 1.2 to 2.4
 * (BERT, ResNet-50, VGG-16, MobileNetV2).
 */
const frameworkReserve = 2

/** Estimates MiB by part, for batches of the size in `shape`. */
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
  const before2017 = ['Kepler', 'Maxwell', 'Pascal'].includes(shape.gpu.generation)
  return {
    contextMiB: Math.max(
      before2017 ? coefficients.contextUpToPascalMiB : coefficients.contextMiB,
      shape.framework ? frameworkContextMiB : 0,
    ),
    weightsMiB: (countParameters(architecture) * bytes) / mebibyte,
    workspaceMiB: shape.storesActivations
      ? (countIm2colElements(architecture) * bytes) / mebibyte
      : engineWorkspaceMiB,
    activationsMiB:
      (shape.storesActivations
        ? coefficients.keptActivations * countStoredActivations(shape) * bytes
        : (shape.framework ? frameworkReserve : 1) *
          countLiveActivations(shape) *
          Math.max(bytes, architecture.kind === 'convnet' ? 1 : 2)) *
      (batch / mebibyte),
    cacheMiB:
      architecture.kind === 'decoder'
        ? (countKvBytesPerToken(architecture, precision) *
            batch *
            (shape.sequenceLength ?? defaultSequenceLength)) /
          mebibyte
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
          (sum, l) => sum + (l.outputs + l.normalised) * scale,
          0,
        )
      )
    }
    case 'encoder':
      return (
        architecture.layers *
        sequenceLength *
        (9 * architecture.hidden +
          2 * architecture.intermediate +
          2 * architecture.heads * sequenceLength)
      )
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

/** Live activations are multiplied by this for fragmentation. */
const fragmentationFactor = 1.5

/**
 * Counts the activations alive at once, for one item: inputs and outputs of a kernel, and a
 * residual, with fragmentation.
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
