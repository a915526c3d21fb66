/**
 * Work of the operators of a graph that need their own kernels in a compiled engine; elementwise
 * operators are fused into the kernel that produces their input.
 */
import type { MatrixProduct } from '../call-work.ts'
import type { GraphNode } from './graph.ts'
import {
  applyTransposeAttribute,
  countElements,
  type MaybeTensor,
  readNumber,
  readStepsAndBatch,
  readString,
  type TensorInfo,
} from './tensor-info.ts'

/** Work of an operator that needs its own kernel. */
export interface NodeWork {
  readonly products: readonly MatrixProduct[]
  /**
   * Product of two activations, counted as attention: usually a block for each head of each item.
   */
  readonly attention?: { readonly blocks: number; readonly flopsPerBlock: number }
  /** Steps that run one after another, each as a kernel, as in a recurrent network. */
  readonly steps?: number
}

/** Index of the weights among the inputs of a convolution. */
const convolutionWeightIndex: Readonly<Record<string, number>> = {
  Conv: 1,
  'com.microsoft:FusedConv': 1,
  ConvInteger: 1,
  QLinearConv: 3,
}
const secondOperandIndex: Readonly<Record<string, number>> = {
  MatMul: 1,
  MatMulInteger: 1,
  'com.microsoft:FusedMatMul': 1,
  'com.microsoft:DynamicQuantizeMatMul': 1,
  'com.microsoft:MatMulIntegerToFloat': 1,
  QLinearMatMul: 3,
}

/** Whether `countNodeWork` counts the operator. Without input shapes, its work is unsupported. */
export const isMatrixOperator = (op: string): boolean =>
  op in convolutionWeightIndex ||
  op in secondOperandIndex ||
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

/** @returns undefined if shapes are unknown */
export function countNodeWork(
  node: GraphNode,
  inputs: readonly MaybeTensor[],
  output: TensorInfo,
): NodeWork | undefined {
  const { op } = node
  const convolved = convolutionWeightIndex[op]
  if (convolved !== undefined)
    return inputs[convolved] && countConvolution(node, inputs[0], inputs[convolved], output)
  const second = secondOperandIndex[op]
  if (second !== undefined)
    return (
      inputs[0] &&
      inputs[second] &&
      countMatMul(applyTransposeAttribute(node, 'transA', inputs[0]), inputs[second], output)
    )
  if (op === 'ConvTranspose') return inputs[1] && countTransposedConvolution(inputs[0], inputs[1])
  if (op.endsWith('Gemm')) return inputs[0] && countGemm(node, inputs[0], output)
  if (op === 'com.microsoft:MatMulNBits') {
    const columns = readNumber(node, 'N', 1)
    return createProduct(countElements(output.shape) / columns, columns, readNumber(node, 'K', 1))
  }
  if (op === 'Einsum') return countEinsum(node, inputs)
  if (op === 'com.microsoft:Attention')
    return inputs[0] && inputs[1] && countPackedAttention(inputs[0], inputs[1])
  if (op.endsWith('Attention'))
    return inputs[0] && inputs[1] && countAttention(node, inputs[0], inputs[1])
  return (
    inputs[0] && inputs[1] && inputs[2] && countRecurrent(node, inputs[0], inputs[1], inputs[2])
  )
}

const createProduct = (
  rows: number,
  columns: number,
  depth: number,
  more: Partial<MatrixProduct> = {},
): NodeWork => ({
  products: [{ rows, columns, depth, count: 1, ...more }],
})

function countConvolution(
  node: GraphNode,
  x: MaybeTensor,
  { shape }: TensorInfo,
  output: TensorInfo,
): NodeWork {
  const [columns = 1] = shape
  const strides = node.attributes.strides
  const unit = !Array.isArray(strides) || strides.every((s) => s === 1)
  const winograd =
    shape.length === 4 && shape[2] === 3 && shape[3] === 3 && unit && x?.shape[1] === shape[1]
  return createProduct(
    countElements(output.shape) / columns,
    columns,
    countElements(shape) / columns,
    {
      winograd,
      convolution: true,
    },
  )
}

/** A product of the input's pixels with the weights of all outputs that each contributes to. */
const countTransposedConvolution = (x: MaybeTensor, { shape }: TensorInfo): NodeWork | undefined =>
  x &&
  createProduct(countElements(x.shape) / x.shape[1]!, countElements(shape.slice(1)), x.shape[1]!, {
    convolution: true,
  })

function countMatMul(a: TensorInfo, b: TensorInfo, output: TensorInfo): NodeWork {
  const depth = a.shape.at(-1) ?? 1
  const columns = b.shape.length < 2 ? 1 : b.shape.at(-1)!
  const outputs = countElements(output.shape)
  if (b.constant) {
    const count = countElements(b.shape.slice(0, -2))
    return createProduct(outputs / columns / count, columns, depth, { count })
  }
  if (a.constant) return createProduct(outputs / (a.shape.at(-2) ?? 1), a.shape.at(-2) ?? 1, depth)
  const rows = a.shape.length < 2 ? 1 : a.shape.at(-2)!
  return {
    products: [],
    attention: { blocks: outputs / (rows * columns), flopsPerBlock: 2 * rows * columns * depth },
  }
}

function countGemm(node: GraphNode, a: TensorInfo, { shape }: TensorInfo): NodeWork {
  return createProduct(shape[0]!, shape[1]!, a.shape[readNumber(node, 'transA', 0) === 1 ? 0 : 1]!)
}

function countEinsum(node: GraphNode, inputs: readonly MaybeTensor[]): NodeWork | undefined {
  const [from = '', to = ''] = (readString(node, 'equation') ?? '').replace(/\s/g, '').split('->')
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
    return createProduct(b.constant ? rows : columns, b.constant ? columns : rows, depth, {
      count: around,
    })
  return { products: [], attention: { blocks: around, flopsPerBlock: 2 * rows * columns * depth } }
}

function countPackedAttention({ shape }: TensorInfo, weights: TensorInfo): NodeWork {
  const [batch = 1, length = 1, depth = 1] = shape
  const columns = weights.shape[1]!
  const projected = createProduct(batch * length, columns, depth)
  // Q K^T and its product with V, over all heads.
  return {
    ...projected,
    attention: { blocks: batch, flopsPerBlock: 4 * length ** 2 * (columns / 3) },
  }
}

/** @param queries batch × length × width, or batch × heads × length × width */
function countAttention(node: GraphNode, queries: TensorInfo, keys: TensorInfo): NodeWork {
  const four = queries.shape.length === 4
  const heads = four
    ? queries.shape[1]!
    : readNumber(node, 'num_heads', readNumber(node, 'q_num_heads', 1))
  const width = four ? queries.shape[3]! : queries.shape.at(-1)! / heads
  const [length, others] = [queries.shape.at(-2)!, keys.shape.at(-2)!]
  return {
    products: [],
    attention: { blocks: queries.shape[0]! * heads, flopsPerBlock: 4 * length * others * width },
  }
}

/** One product over the inputs of all steps, then a small one for each step. */
function countRecurrent(node: GraphNode, x: TensorInfo, w: TensorInfo, r: TensorInfo): NodeWork {
  const [steps, batch] = readStepsAndBatch(node, x)
  const [directions = 1, columns = 1] = w.shape
  return {
    products: [
      { rows: steps * batch, columns, depth: w.shape[2]!, count: directions },
      { rows: batch, columns, depth: r.shape[2]!, count: directions * steps },
    ],
    steps: directions * steps,
  }
}

/**
 * How an operator without products is executed. A concatenation needs no kernel: the kernels before
 * it write into its output.
 */
type Role = 'elementwise' | 'view' | 'concatenation' | 'reduction' | 'lookup' | 'kernel'

const listRoles = (role: Role, list: string): [string, Role][] =>
  list.split(' ').map((op) => [op, role])
const roles: ReadonlyMap<string, Role> = new Map([
  ...listRoles(
    'view',
    'Reshape Flatten Squeeze Unsqueeze Identity Transpose Split Slice Dropout Shape Size Cast CastLike',
  ),
  ...listRoles('concatenation', 'Concat com.microsoft:QLinearConcat'),
  ...listRoles(
    'reduction',
    'ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSumExp',
  ),
  ...listRoles('lookup', 'Gather GatherElements GatherND'),
  ...listRoles(
    'kernel',
    'MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool Resize Upsample GridSample LayerNormalization SimplifiedLayerNormalization ' +
      'InstanceNormalization GroupNormalization RMSNormalization LpNormalization MeanVarianceNormalization Softmax LogSoftmax LRN TopK ArgMax ArgMin CumSum ' +
      'DepthToSpace SpaceToDepth ScatterND ScatterElements Pad Tile com.microsoft:SkipLayerNormalization com.microsoft:EmbedLayerNormalization ' +
      'com.microsoft:SkipSimplifiedLayerNormalization com.microsoft:QLinearGlobalAveragePool com.microsoft:QLinearAveragePool com.microsoft:QLinearSoftmax',
  ),
])
export const classifyOperator = (op: string): Role => roles.get(op) ?? 'elementwise'
