/** GPU memory: context + weights + workspace + activations × batch (+ key-value cache). */
import {
  type Architecture,
  type CallShape,
  defaultSequenceLength,
  kvBytesPerToken,
  parameterCount,
} from './architecture.ts'
import type { Gpu, Precision } from './catalogue.ts'
import type { MemoryCoefficients } from './coefficients.ts'
import { bytesPerElement, convolutionsOf } from './convnets.ts'
import { graphCountOf } from './onnx/graph-architecture.ts'

const mebibyte = 2 ** 20
/** What a compiled engine reserves for its kernels. */
const engineWorkspaceMiB = 64

export interface MemoryShape extends CallShape {
  readonly architecture: Architecture
  readonly gpu: Gpu
  /** Frameworks of before 2017 keep every layer's output; compiled engines reuse the memory. */
  readonly keepsActivations?: boolean
  /**
   * Frameworks that run layer by layer free an output once it is used, and reserve more than lives
   * at once.
   */
  readonly framework?: boolean
}

/**
 * Of PyTorch 2.11 on an H200: a process of BERT-base less its weights at a batch of one; and what a
 * batch adds over what lives at once, 1.2 to 2.4 times by model (BERT, ResNet-50, VGG-16,
 * MobileNetV2), a margin included.
 */
const frameworkContextMiB = 750
const frameworkReserve = 2

/** MiB by part, for batches of the shape's size. */
export function memoryParts(
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
  const bytes = bytesPerElement(precision)
  const before2017 = ['Kepler', 'Maxwell', 'Pascal'].includes(shape.gpu.generation)
  return {
    contextMiB: Math.max(
      before2017 ? coefficients.contextUpToPascalMiB : coefficients.contextMiB,
      shape.framework ? frameworkContextMiB : 0,
    ),
    weightsMiB: (parameterCount(architecture) * bytes) / mebibyte,
    workspaceMiB: shape.keepsActivations
      ? (loweredElements(architecture) * bytes) / mebibyte
      : engineWorkspaceMiB,
    activationsMiB:
      (shape.keepsActivations
        ? coefficients.keptActivations * keptElements(shape) * bytes
        : (shape.framework ? frameworkReserve : 1) *
          liveElements(shape) *
          Math.max(bytes, architecture.kind === 'convnet' ? 1 : 2)) *
      (batch / mebibyte),
    cacheMiB:
      architecture.kind === 'decoder'
        ? (kvBytesPerToken(architecture, precision) *
            batch *
            (shape.sequenceLength ?? defaultSequenceLength)) /
          mebibyte
        : 0,
  }
}

/**
 * The largest convolution's input unfolded into a matrix, for one image: frameworks that convolve
 * by products need it.
 */
function loweredElements(architecture: Architecture): number {
  if (architecture.kind === 'graph') return graphCountOf(architecture, {}).lowered
  if (architecture.kind !== 'convnet') return 0
  return Math.max(
    ...convolutionsOf(architecture).map(({ rows, depth }) => (rows > 1 ? rows * depth : 0)),
  )
}

/** Outputs of every layer, for one item. */
function keptElements({
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
        convolutionsOf(architecture).reduce((sum, l) => sum + (l.outputs + l.normalised) * scale, 0)
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
      return graphCountOf(architecture, { sequenceLength, imageSize }).kept
  }
}

/**
 * What must live at once, for one item: a kernel's inputs and outputs, a residual, and half as much
 * again for fragmentation.
 */
function liveElements({
  architecture,
  sequenceLength = defaultSequenceLength,
  imageSize,
  phase,
}: MemoryShape): number {
  switch (architecture.kind) {
    case 'convnet': {
      const scale = ((imageSize ?? architecture.imageSize) / architecture.imageSize) ** 2
      return (
        1.5 * scale * Math.max(...convolutionsOf(architecture).map((l) => l.inputs + l.outputs))
      )
    }
    case 'encoder':
      return 1.5 * sequenceLength * (3 * architecture.hidden + architecture.intermediate)
    case 'decoder':
      return (
        1.5 *
          (phase === 'decode' ? 1 : sequenceLength) *
          (3 * architecture.hidden + 2 * architecture.intermediate) +
        2 * architecture.vocabulary
      )
    case 'graph':
      return 1.5 * graphCountOf(architecture, { sequenceLength, imageSize }).live
  }
}
