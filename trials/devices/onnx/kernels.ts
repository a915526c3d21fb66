/**
 * A graph's operators as the kernels that a compiled engine makes of them: what is elementwise
 * joins the product before it.
 */
import type { Product } from '../call-work.ts'
import type { GraphNode } from './graph.ts'
import {
  type Known,
  type KnownTensor,
  numberOf,
  sizeOf,
  stepsAndItems,
  textOf,
  turnedAsAsked,
} from './known-tensor.ts'

/** What an operator does that takes a kernel of its own. */
export interface NodeWork {
  readonly products: readonly Product[]
  /** Of matrices none of which is a weight: that of each head of each item. */
  readonly blocks?: { readonly blocks: number; readonly flopsPerBlock: number }
  /** Steps that wait for one another. */
  readonly steps?: number
}

/** Weights of a convolution by operator, among its inputs. */
const convolutionWeights: Readonly<Record<string, number>> = {
  Conv: 1,
  'com.microsoft:FusedConv': 1,
  ConvInteger: 1,
  QLinearConv: 3,
}
const matrixSecond: Readonly<Record<string, number>> = {
  MatMul: 1,
  MatMulInteger: 1,
  'com.microsoft:FusedMatMul': 1,
  'com.microsoft:DynamicQuantizeMatMul': 1,
  'com.microsoft:MatMulIntegerToFloat': 1,
  QLinearMatMul: 3,
}

/** Operators that this counts; unknown shapes of their inputs leave work that is not counted. */
export const isCounted = (op: string): boolean =>
  op in convolutionWeights ||
  op in matrixSecond ||
  [
    'ConvTranspose',
    'Gemm',
    'com.microsoft:FusedGemm',
    'com.microsoft:QGemm',
    'com.microsoft:MatMulNBits',
    'Einsum',
    'LSTM',
    'GRU',
    'RNN',
    'com.microsoft:Attention',
    'com.microsoft:MultiHeadAttention',
    'Attention',
  ].includes(op)

/** @returns undefined where shapes are missing */
export function workOfNode(
  node: GraphNode,
  inputs: readonly Known[],
  output: KnownTensor,
): NodeWork | undefined {
  const { op } = node
  const convolved = convolutionWeights[op]
  if (convolved !== undefined)
    return inputs[convolved] && convolution(node, inputs[0], inputs[convolved], output)
  const second = matrixSecond[op]
  if (second !== undefined)
    return (
      inputs[0] &&
      inputs[second] &&
      matrices(turnedAsAsked(node, 'transA', inputs[0]), inputs[second], output)
    )
  if (op === 'ConvTranspose') return inputs[1] && transposed(inputs[0], inputs[1])
  if (op.endsWith('Gemm')) return inputs[0] && gemm(node, inputs[0], output)
  if (op === 'com.microsoft:MatMulNBits') {
    const columns = numberOf(node, 'N', 1)
    return plainProduct(sizeOf(output.shape) / columns, columns, numberOf(node, 'K', 1))
  }
  if (op === 'Einsum') return einsum(node, inputs)
  if (op === 'com.microsoft:Attention')
    return inputs[0] && inputs[1] && packedAttention(inputs[0], inputs[1])
  if (op.endsWith('Attention'))
    return inputs[0] && inputs[1] && attention(node, inputs[0], inputs[1])
  return inputs[0] && inputs[1] && inputs[2] && recurrent(node, inputs[0], inputs[1], inputs[2])
}

const plainProduct = (
  rows: number,
  columns: number,
  depth: number,
  more: Partial<Product> = {},
): NodeWork => ({
  products: [{ rows, columns, depth, count: 1, ...more }],
})

function convolution(
  node: GraphNode,
  x: Known,
  { shape }: KnownTensor,
  output: KnownTensor,
): NodeWork {
  const [columns = 1] = shape
  const strides = node.attributes.strides
  const unit = !Array.isArray(strides) || strides.every((s) => s === 1)
  const winograd =
    shape.length === 4 && shape[2] === 3 && shape[3] === 3 && unit && x?.shape[1] === shape[1]
  return plainProduct(sizeOf(output.shape) / columns, columns, sizeOf(shape) / columns, {
    winograd,
    convolution: true,
  })
}

/** As a product of the input's pixels with the weights of all the outputs that each makes. */
const transposed = (x: Known, { shape }: KnownTensor): NodeWork | undefined =>
  x &&
  plainProduct(sizeOf(x.shape) / x.shape[1]!, sizeOf(shape.slice(1)), x.shape[1]!, {
    convolution: true,
  })

function matrices(a: KnownTensor, b: KnownTensor, output: KnownTensor): NodeWork {
  const depth = a.shape.at(-1) ?? 1
  const columns = b.shape.length < 2 ? 1 : b.shape.at(-1)!
  const outputs = sizeOf(output.shape)
  if (b.constant) {
    const count = sizeOf(b.shape.slice(0, -2))
    return plainProduct(outputs / columns / count, columns, depth, { count })
  }
  if (a.constant) return plainProduct(outputs / (a.shape.at(-2) ?? 1), a.shape.at(-2) ?? 1, depth)
  const rows = a.shape.length < 2 ? 1 : a.shape.at(-2)!
  return {
    products: [],
    blocks: { blocks: outputs / (rows * columns), flopsPerBlock: 2 * rows * columns * depth },
  }
}

function gemm(node: GraphNode, a: KnownTensor, { shape }: KnownTensor): NodeWork {
  return plainProduct(shape[0]!, shape[1]!, a.shape[numberOf(node, 'transA', 0) === 1 ? 0 : 1]!)
}

function einsum(node: GraphNode, inputs: readonly Known[]): NodeWork | undefined {
  const [from = '', to = ''] = (textOf(node, 'equation') ?? '').replace(/\s/g, '').split('->')
  const [left = '', right] = from.split(',')
  const [a, b] = inputs
  if (right === undefined || a === undefined || b === undefined || inputs.length !== 2)
    return undefined
  const sizes = new Map(
    [...left]
      .map((l, i) => [l, a.shape[i]!] as const)
      .concat([...right].map((l, i) => [l, b.shape[i]!] as const)),
  )
  const all = (keep: (letter: string) => boolean) =>
    [...sizes].reduce((total, [letter, size]) => (keep(letter) ? total * size : total), 1)
  const [inA, inB, out] = [
    (l: string) => left.includes(l),
    (l: string) => right.includes(l),
    (l: string) => to.includes(l),
  ]
  const depth = all((l) => inA(l) && inB(l) && !out(l))
  const rows = all((l) => inA(l) && !inB(l))
  const columns = all((l) => inB(l) && !inA(l))
  const around = all((l) => inA(l) && inB(l) && out(l))
  if (a.constant || b.constant)
    return plainProduct(b.constant ? rows : columns, b.constant ? columns : rows, depth, {
      count: around,
    })
  return { products: [], blocks: { blocks: around, flopsPerBlock: 2 * rows * columns * depth } }
}

function packedAttention({ shape }: KnownTensor, weights: KnownTensor): NodeWork {
  const [batch = 1, length = 1, depth = 1] = shape
  const columns = weights.shape[1]!
  const projected = plainProduct(batch * length, columns, depth)
  // Q K^T and its product with V, over all heads together.
  return { ...projected, blocks: { blocks: batch, flopsPerBlock: 4 * length ** 2 * (columns / 3) } }
}

/** Queries of batch × length × width, or batch × heads × length × width. */
function attention(node: GraphNode, queries: KnownTensor, keys: KnownTensor): NodeWork {
  const four = queries.shape.length === 4
  const heads = four
    ? queries.shape[1]!
    : numberOf(node, 'num_heads', numberOf(node, 'q_num_heads', 1))
  const width = four ? queries.shape[3]! : queries.shape.at(-1)! / heads
  const [length, others] = [queries.shape.at(-2)!, keys.shape.at(-2)!]
  return {
    products: [],
    blocks: { blocks: queries.shape[0]! * heads, flopsPerBlock: 4 * length * others * width },
  }
}

/** Inputs of all steps at once, then a small product for each step. */
function recurrent(node: GraphNode, x: KnownTensor, w: KnownTensor, r: KnownTensor): NodeWork {
  const [steps, batch] = stepsAndItems(node, x)
  const [directions = 1, columns = 1] = w.shape
  return {
    products: [
      { rows: steps * batch, columns, depth: w.shape[2]!, count: directions },
      { rows: batch, columns, depth: r.shape[2]!, count: directions * steps },
    ],
    steps: directions * steps,
  }
}

/** How an operator that multiplies nothing is run. */
type Role = 'elementwise' | 'view' | 'joined' | 'reduction' | 'lookup' | 'kernel'

const listed = (role: Role, list: string): [string, Role][] =>
  list.split(' ').map((op) => [op, role])
const roles: ReadonlyMap<string, Role> = new Map([
  ...listed(
    'view',
    'Reshape Flatten Squeeze Unsqueeze Identity Transpose Split Slice Dropout Shape Size Cast CastLike',
  ),
  ...listed('joined', 'Concat com.microsoft:QLinearConcat'),
  ...listed(
    'reduction',
    'ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSumExp',
  ),
  ...listed('lookup', 'Gather GatherElements GatherND'),
  ...listed(
    'kernel',
    'MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool Resize Upsample GridSample LayerNormalization SimplifiedLayerNormalization ' +
      'InstanceNormalization GroupNormalization RMSNormalization LpNormalization MeanVarianceNormalization Softmax LogSoftmax LRN TopK ArgMax ArgMin CumSum ' +
      'DepthToSpace SpaceToDepth ScatterND ScatterElements Pad Tile com.microsoft:SkipLayerNormalization com.microsoft:EmbedLayerNormalization ' +
      'com.microsoft:SkipSimplifiedLayerNormalization com.microsoft:QLinearGlobalAveragePool com.microsoft:QLinearAveragePool com.microsoft:QLinearSoftmax',
  ),
])
export const roleOf = (op: string): Role => roles.get(op) ?? 'elementwise'
