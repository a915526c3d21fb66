/**
 * Output shapes of convolutions, pools and transposed convolutions (operators Conv, ConvTranspose,
 * MaxPool, AveragePool of the ONNX specification).
 */
import type { GraphNode } from './graph.ts'
import { inferOne, readNumber, readNumbers, readString, type ShapeRule } from './tensor-info.ts'

interface Window {
  readonly kernel: readonly number[]
  readonly strides: readonly number[]
  readonly dilations: readonly number[]
  /** Padding at the start of each axis, then at the end of each axis. */
  readonly pads: readonly number[]
  readonly autoPad: string
}

function readWindow(node: GraphNode, kernel: readonly number[]): Window {
  const ones = kernel.map(() => 1)
  return {
    kernel: readNumbers(node, 'kernel_shape') ?? kernel,
    strides: readNumbers(node, 'strides') ?? ones,
    dilations: readNumbers(node, 'dilations') ?? ones,
    pads: readNumbers(node, 'pads') ?? kernel.flatMap(() => [0, 0]),
    autoPad: readString(node, 'auto_pad') ?? 'NOTSET',
  }
}

/** Output sizes of a sliding window; undefined if the window does not fit. */
function slideWindow(
  node: GraphNode,
  spatial: readonly number[],
  kernelShape: readonly number[],
): number[] | undefined {
  const { kernel, strides, dilations, pads, autoPad } = readWindow(node, kernelShape)
  const shouldRoundUp = readNumber(node, 'ceil_mode', 0) === 1
  const sizes = spatial.map((size, i) => {
    const stride = strides[i]!
    if (autoPad.startsWith('SAME')) return Math.ceil(size / stride)
    const dilatedKernelSize = dilations[i]! * (kernel[i]! - 1) + 1
    const [before, after] = autoPad === 'VALID' ? [0, 0] : [pads[i]!, pads[i + spatial.length]!]
    const strideCount = (before + size + after - dilatedKernelSize) / stride
    // With ceil_mode, a last window that starts in the padding at the end is dropped.
    return shouldRoundUp && Math.ceil(strideCount) * stride < before + size
      ? Math.ceil(strideCount) + 1
      : Math.floor(strideCount) + 1
  })
  return sizes.every((size) => size > 0) ? sizes : undefined
}

/** Output sizes of a transposed convolution. */
function invertWindow(
  node: GraphNode,
  spatial: readonly number[],
  kernelShape: readonly number[],
): number[] {
  const { kernel, strides, dilations, pads, autoPad } = readWindow(node, kernelShape)
  const outputPadding = readNumbers(node, 'output_padding') ?? spatial.map(() => 0)
  const outputShape = readNumbers(node, 'output_shape')
  return spatial.map((size, i) => {
    if (outputShape !== undefined) return outputShape.at(i - spatial.length)!
    if (autoPad.startsWith('SAME')) return size * strides[i]!
    return (
      strides[i]! * (size - 1) +
      outputPadding[i]! +
      dilations[i]! * (kernel[i]! - 1) +
      1 -
      pads[i]! -
      pads[i + spatial.length]!
    )
  })
}

export const convolution = (weightsInput = 1): ShapeRule =>
  inferOne((node, { shape: [batch, , ...spatial] }, inputs) => {
    const weights = inputs[weightsInput]?.shape
    const sizes = weights && slideWindow(node, spatial, weights.slice(2))
    return sizes && { shape: [batch!, weights[0]!, ...sizes] }
  })
export const transposedConvolution: ShapeRule = inferOne(
  (node, { shape: [batch, , ...spatial] }, [, weights]) => {
    if (weights === undefined) return undefined
    const [, out, ...kernel] = weights.shape
    return {
      shape: [batch!, out! * readNumber(node, 'group', 1), ...invertWindow(node, spatial, kernel)],
    }
  },
)
export const pool: ShapeRule = inferOne((node, { shape: [batch, channels, ...spatial] }) => {
  const sizes = slideWindow(node, spatial, readNumbers(node, 'kernel_shape') ?? spatial)
  return sizes && { shape: [batch!, channels!, ...sizes] }
})
export const globalPool: ShapeRule = inferOne((_, { shape }) => ({
  shape: shape.map((size, i) => (i < 2 ? size : 1)),
}))
