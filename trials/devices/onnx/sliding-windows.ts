/**
 * Shapes that convolutions, pools and their inverses make (operators Conv, ConvTranspose, MaxPool,
 * AveragePool of the ONNX specification).
 */
import type { GraphNode } from './graph.ts'
import { numberOf, numbersOf, one, type Rule, textOf } from './known-tensor.ts'

interface Window {
  readonly kernel: readonly number[]
  readonly strides: readonly number[]
  readonly dilations: readonly number[]
  /** Begins, then ends. */
  readonly pads: readonly number[]
  readonly autoPad: string
}

function windowOf(node: GraphNode, kernel: readonly number[]): Window {
  const ones = kernel.map(() => 1)
  return {
    kernel: numbersOf(node, 'kernel_shape') ?? kernel,
    strides: numbersOf(node, 'strides') ?? ones,
    dilations: numbersOf(node, 'dilations') ?? ones,
    pads: numbersOf(node, 'pads') ?? kernel.flatMap(() => [0, 0]),
    autoPad: textOf(node, 'auto_pad') ?? 'NOTSET',
  }
}

/** Spatial sizes after a window slid over them; undefined where it does not fit in. */
function slid(
  node: GraphNode,
  spatial: readonly number[],
  kernelShape: readonly number[],
): number[] | undefined {
  const { kernel, strides, dilations, pads, autoPad } = windowOf(node, kernelShape)
  const up = numberOf(node, 'ceil_mode', 0) === 1
  const sizes = spatial.map((size, i) => {
    const stride = strides[i]!
    if (autoPad.startsWith('SAME')) return Math.ceil(size / stride)
    const reach = dilations[i]! * (kernel[i]! - 1) + 1
    const [before, after] = autoPad === 'VALID' ? [0, 0] : [pads[i]!, pads[i + spatial.length]!]
    const steps = (before + size + after - reach) / stride
    // A last window that begins behind the input is none.
    return up && Math.ceil(steps) * stride < before + size
      ? Math.ceil(steps) + 1
      : Math.floor(steps) + 1
  })
  return sizes.every((size) => size > 0) ? sizes : undefined
}

/** Spatial sizes before a window would have slid to these: a transposed convolution. */
function unslid(
  node: GraphNode,
  spatial: readonly number[],
  kernelShape: readonly number[],
): number[] {
  const { kernel, strides, dilations, pads, autoPad } = windowOf(node, kernelShape)
  const more = numbersOf(node, 'output_padding') ?? spatial.map(() => 0)
  const asked = numbersOf(node, 'output_shape')
  return spatial.map((size, i) => {
    if (asked !== undefined) return asked.at(i - spatial.length)!
    if (autoPad.startsWith('SAME')) return size * strides[i]!
    return (
      strides[i]! * (size - 1) +
      more[i]! +
      dilations[i]! * (kernel[i]! - 1) +
      1 -
      pads[i]! -
      pads[i + spatial.length]!
    )
  })
}

export const convolution = (weightsAt = 1): Rule =>
  one((node, { shape: [batch, , ...spatial] }, inputs) => {
    const weights = inputs[weightsAt]?.shape
    const sizes = weights && slid(node, spatial, weights.slice(2))
    return sizes && { shape: [batch!, weights[0]!, ...sizes] }
  })
export const transposedConvolution: Rule = one(
  (node, { shape: [batch, , ...spatial] }, [, weights]) => {
    if (weights === undefined) return undefined
    const [, out, ...kernel] = weights.shape
    return { shape: [batch!, out! * numberOf(node, 'group', 1), ...unslid(node, spatial, kernel)] }
  },
)
export const pool: Rule = one((node, { shape: [batch, channels, ...spatial] }) => {
  const sizes = slid(node, spatial, numbersOf(node, 'kernel_shape') ?? spatial)
  return sizes && { shape: [batch!, channels!, ...sizes] }
})
export const globalPool: Rule = one((_, { shape }) => ({
  shape: shape.map((size, i) => (i < 2 ? size : 1)),
}))
