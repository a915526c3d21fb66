/**
 * Output shapes of operators by the ONNX specification, and values of small constants, from which
 * exporters compute shapes.
 */
import type { GraphNode } from './graph.ts'
import { convolution, globalPool, pool, transposedConvolution } from './sliding-windows.ts'
import {
  applyTransposeAttribute,
  broadcast,
  countElements,
  inferOne,
  type MaybeTensor,
  normaliseAxis,
  type OutputShape,
  readNumber,
  readNumbers,
  readNumbersOrInput,
  readStepsAndBatch,
  readString,
  readTensor,
  type ShapeRule,
} from './tensor-info.ts'

const sameShape = inferOne((_, { shape, values }) => ({ shape, values }))

const arithmetic: Readonly<Record<string, (a: number, b: number) => number>> = {
  Add: (a, b) => a + b,
  Sub: (a, b) => a - b,
  Mul: (a, b) => a * b,
  Div: (a, b) =>
    Number.isInteger(a) && Number.isInteger(b) && b !== 0 ? Math.trunc(a / b) : a / b,
  Mod: (a, b) => ((a % b) + b) % b,
  Pow: (a, b) => a ** b,
  Min: Math.min,
  Max: Math.max,
  Equal: (a, b) => Number(a === b),
  Less: (a, b) => Number(a < b),
  LessOrEqual: (a, b) => Number(a <= b),
  Greater: (a, b) => Number(a > b),
  GreaterOrEqual: (a, b) => Number(a >= b),
  And: (a, b) => Number(a !== 0 && b !== 0),
  Or: (a, b) => Number(a !== 0 || b !== 0),
  Xor: (a, b) => Number((a !== 0) !== (b !== 0)),
}
const unary: Readonly<Record<string, (a: number) => number>> = {
  Neg: (a) => -a,
  Floor: Math.floor,
  Ceil: Math.ceil,
  Round: Math.round,
  Sqrt: Math.sqrt,
  Abs: Math.abs,
  Not: (a) => Number(a === 0),
  Identity: (a) => a,
}

/** Constants are folded up to this size: larger ones are no shapes. */
const maxConstantValues = 64

/** @returns values if all inputs are known and small */
function foldConstants(
  inputs: readonly MaybeTensor[],
  shape: readonly number[],
  fold: (...values: number[]) => number,
): number[] | undefined {
  const count = countElements(shape)
  if (count > maxConstantValues || shape.length > 1) return undefined
  const lists = inputs.map((input) => input?.values)
  if (lists.some((list) => list === undefined || (list.length !== 1 && list.length !== count)))
    return undefined
  return Array.from({ length: count }, (_, i) =>
    fold(...lists.map((list) => list![list!.length === 1 ? 0 : i]!)),
  )
}

const broadcasting = (fold?: (a: number, b: number) => number): ShapeRule =>
  inferOne((_, __, inputs) => {
    if (inputs.includes(undefined)) return undefined
    const shape = broadcast(...inputs.map((input) => input!.shape))
    return (
      shape && {
        shape,
        values:
          fold && inputs.length > 1
            ? foldConstants(inputs, shape, (...v) => v.reduce(fold))
            : undefined,
      }
    )
  })

/** Removes axes, or keeps them with a size of 1. */
const reduction = (fold?: (a: number, b: number) => number): ShapeRule =>
  inferOne((node, { shape, values }, inputs) => {
    const givenAxes = readNumbersOrInput(node, 'axes', inputs[1])
    const none = givenAxes === undefined || givenAxes.length === 0
    if (none && readNumber(node, 'noop_with_empty_axes', 0) === 1) return { shape }
    const axes = none
      ? shape.map((_, i) => i)
      : givenAxes.map((axis) => normaliseAxis(axis, shape.length))
    const keepsDimensions = readNumber(node, 'keepdims', 1) === 1
    const after = shape.flatMap((size, i) =>
      axes.includes(i) ? (keepsDimensions ? [1] : []) : [size],
    )
    return {
      shape: after,
      values: fold && values && countElements(after) === 1 ? [values.reduce(fold)] : undefined,
    }
  })

/** Multiplies the last two dimensions and broadcasts the others. */
function multiplyShapes(a: readonly number[], b: readonly number[]): number[] | undefined {
  const [left, right] = [a.length === 1 ? [1, a[0]!] : a, b.length === 1 ? [b[0]!, 1] : b]
  const around = broadcast(left.slice(0, -2), right.slice(0, -2))
  if (around === undefined || left.at(-1) !== right.at(-2)) return undefined
  return [
    ...around,
    ...(a.length === 1 ? [] : [left.at(-2)!]),
    ...(b.length === 1 ? [] : [right.at(-1)!]),
  ]
}
const product = (secondAt = 1): ShapeRule =>
  inferOne((node, a, inputs) => {
    const b = inputs[secondAt]
    const shape =
      b &&
      multiplyShapes(
        applyTransposeAttribute(node, 'transA', a).shape,
        applyTransposeAttribute(node, 'transB', b).shape,
      )
    return shape && { shape }
  })

const gemm = (secondAt = 1): ShapeRule =>
  inferOne((node, a, inputs) => {
    const b = inputs[secondAt]
    return (
      b && {
        shape: [
          applyTransposeAttribute(node, 'transA', a).shape[0]!,
          applyTransposeAttribute(node, 'transB', b).shape[1]!,
        ],
      }
    )
  })

const reshape: ShapeRule = inferOne((node, { shape, values }, inputs) => {
  const givenSizes = readNumbersOrInput(node, 'shape', inputs[1])
  if (givenSizes === undefined) return undefined
  const zeroes = readNumber(node, 'allowzero', 0) === 1
  const sizes = givenSizes.map((size, i) => (size === 0 && !zeroes ? shape[i]! : size))
  const inferredSize = countElements(shape) / sizes.reduce((a, b) => (b === -1 ? a : a * b), 1)
  return {
    shape: sizes.map((size) => (size === -1 ? inferredSize : size)),
    values: sizes.length <= 1 ? values : undefined,
  }
})

const squeeze: ShapeRule = inferOne((node, { shape, values }, inputs) => {
  const axes = readNumbersOrInput(node, 'axes', inputs[1])?.map((axis) =>
    normaliseAxis(axis, shape.length),
  )
  return { shape: shape.filter((size, i) => (axes ? !axes.includes(i) : size !== 1)), values }
})
const unsqueeze: ShapeRule = inferOne((node, { shape, values }, inputs) => {
  const axes = readNumbersOrInput(node, 'axes', inputs[1])
  if (axes === undefined) return undefined
  const rank = shape.length + axes.length
  const places = axes.map((axis) => normaliseAxis(axis, rank))
  const rest = [...shape]
  return {
    shape: Array.from({ length: rank }, (_, i) => (places.includes(i) ? 1 : rest.shift()!)),
    values: rank <= 1 ? values : undefined,
  }
})

const gather: ShapeRule = inferOne((node, { shape, values }, [, indices]) => {
  if (indices === undefined) return undefined
  const axis = normaliseAxis(readNumber(node, 'axis', 0), shape.length)
  const pickedValues =
    shape.length === 1 && values
      ? indices.values?.map((i) => values[normaliseAxis(i, values.length)]!)
      : undefined
  return {
    shape: [...shape.slice(0, axis), ...indices.shape, ...shape.slice(axis + 1)],
    values: pickedValues,
  }
})

/** QLinearConcat has the output's scale and zero point first, then each tensor with its own two. */
const concat: ShapeRule = (node, inputs) =>
  concatenateInputs(
    node,
    node.op === 'Concat' ? inputs : inputs.filter((_, i) => i >= 2 && (i - 2) % 3 === 0),
  )
const concatenateInputs: ShapeRule = inferOne((node, { shape }, inputs) => {
  if (inputs.includes(undefined)) return undefined
  const axis = normaliseAxis(readNumber(node, 'axis', 0), shape.length)
  const total = inputs.reduce((sum, input) => sum + input!.shape[axis]!, 0)
  const values =
    shape.length === 1 && inputs.every((input) => input!.values)
      ? inputs.flatMap((input) => input!.values!)
      : undefined
  return { shape: shape.map((size, i) => (i === axis ? total : size)), values }
})

const split: ShapeRule = (node, [first, sizes]) => {
  if (first === undefined) return undefined
  const { shape, constant } = first
  const axis = normaliseAxis(readNumber(node, 'axis', 0), shape.length)
  const parts = readNumbersOrInput(node, 'split', sizes) ?? []
  const equal = Math.ceil(shape[axis]! / node.outputs.length)
  return node.outputs.map((_, i) => {
    const size = parts[i] ?? Math.min(equal, shape[axis]! - i * equal)
    return { shape: shape.map((s, j) => (j === axis ? size : s)), constant }
  })
}

const slice: ShapeRule = inferOne((node, { shape, values }, [, starts, ends, axes, steps]) => {
  const [from, to] = [
    readNumbersOrInput(node, 'starts', starts),
    readNumbersOrInput(node, 'ends', ends),
  ]
  if (from === undefined || to === undefined) return undefined
  const along = readNumbersOrInput(node, 'axes', axes) ?? from.map((_, i) => i)
  const stepSizes = steps?.values ?? from.map(() => 1)
  const sizes = [...shape]
  let slicedValues = values
  along.forEach((named, i) => {
    const axis = normaliseAxis(named, shape.length)
    const size = shape[axis]!
    const within = (at: number) =>
      Math.min(size, Math.max(stepSizes[i]! < 0 ? -1 : 0, at < 0 ? at + size : at))
    const [begin, end] = [
      Math.min(within(from[i]!), stepSizes[i]! < 0 ? size - 1 : size),
      within(to[i]!),
    ]
    sizes[axis] = Math.max(0, Math.ceil((end - begin) / stepSizes[i]!))
    if (shape.length === 1 && slicedValues)
      slicedValues = Array.from(
        { length: sizes[axis] },
        (_, k) => values![begin + k * stepSizes[i]!]!,
      )
  })
  return { shape: sizes, values: shape.length === 1 ? slicedValues : undefined }
})

const pad: ShapeRule = inferOne((node, { shape }, inputs) => {
  const pads = readNumbersOrInput(node, 'pads', inputs[1])
  if (pads === undefined) return undefined
  const axes =
    inputs[3]?.values?.map((axis) => normaliseAxis(axis, shape.length)) ?? shape.map((_, i) => i)
  const sizes = [...shape]
  axes.forEach((axis, i) => {
    sizes[axis] = shape[axis]! + pads[i]! + pads[i + axes.length]!
  })
  return { shape: sizes }
})

const resize: ShapeRule = inferOne((node, { shape }, inputs) => {
  const sizes = inputs[3]?.values
  // Before opset 11 there was no input for the region of interest.
  const scales = readNumbers(node, 'scales') ?? inputs[node.inputs.length === 2 ? 1 : 2]?.values
  const axes =
    readNumbers(node, 'axes')?.map((axis) => normaliseAxis(axis, shape.length)) ??
    shape.map((_, i) => i)
  const at = (i: number) => axes.indexOf(i)
  if (sizes?.length) return { shape: shape.map((size, i) => sizes[at(i)] ?? size) }
  return scales?.length
    ? { shape: shape.map((size, i) => Math.floor(size * (scales[at(i)] ?? 1))) }
    : undefined
})

const expand: ShapeRule = inferOne((_, { shape, values }, [, asked]) => {
  const expandedShape = asked?.values && broadcast(shape, asked.values)
  return (
    expandedShape && {
      shape: expandedShape,
      values:
        values?.length === 1 && expandedShape.length === 1
          ? Array.from({ length: expandedShape[0]! }, () => values[0]!)
          : undefined,
    }
  )
})

/** Dimensions of an equation like 'bij,bjk->bik'. */
const einsum: ShapeRule = (node, inputs) => {
  const [from = '', to] = (readString(node, 'equation') ?? '').replace(/\s/g, '').split('->')
  if (to === undefined || from.includes('.') || inputs.includes(undefined)) return undefined
  const sizes = new Map(
    from
      .split(',')
      .flatMap((letters, i) =>
        [...letters].map((letter, j) => [letter, inputs[i]!.shape[j]!] as const),
      ),
  )
  return [{ shape: [...to].map((letter) => sizes.get(letter)!), constant: false }]
}

const recurrent: ShapeRule = (node, [x]) => {
  if (x === undefined) return undefined
  const [steps, batch] = readStepsAndBatch(node, x)
  const directions = readString(node, 'direction') === 'bidirectional' ? 2 : 1
  const hidden = readNumber(node, 'hidden_size', 0)
  const itemsFirst = readNumber(node, 'layout', 0) === 1
  const state = {
    shape: itemsFirst ? [batch, directions, hidden] : [directions, batch, hidden],
    constant: false,
  }
  return [
    {
      shape: itemsFirst ? [batch, steps, directions, hidden] : [steps, directions, batch, hidden],
      constant: false,
    },
    state,
    state,
  ]
}

const constant: ShapeRule = (node) => {
  const tensor = readTensor(node, 'value')
  if (tensor) return [{ shape: tensor.shape, values: tensor.values, constant: true }]
  const scalar = node.attributes.value_int ?? node.attributes.value_float
  if (typeof scalar === 'number') return [{ shape: [], values: [scalar], constant: true }]
  const list = readNumbers(node, 'value_ints') ?? readNumbers(node, 'value_floats')
  return list && [{ shape: [list.length], values: list, constant: true }]
}

/**
 * Further outputs are mean and deviation, which nothing reads. ONNX Runtime's Skip variants return
 * the sum, the next residual, as the fourth.
 */
const normalisation: ShapeRule = (node, inputs) =>
  sameShape(node, inputs)?.flatMap((made) =>
    node.outputs.map((_, i) =>
      i === 0 || (i === 3 && node.op.includes(':Skip')) ? made : undefined,
    ),
  )

const assignRule = (list: string, rule: ShapeRule): [string, ShapeRule][] =>
  list.split(' ').map((name) => [name, rule])

/** Rules by operator, for the operators of ONNX and of ONNX Runtime. */
export const shapeRules: Readonly<Record<string, ShapeRule>> = Object.fromEntries([
  ...Object.entries(arithmetic).map(([name, fold]) => [name, broadcasting(fold)] as const),
  ...assignRule(
    'Sum Mean PRelu BitShift BitwiseAnd BitwiseOr BitwiseXor com.microsoft:BiasGelu com.microsoft:QLinearAdd com.microsoft:QLinearMul',
    broadcasting(),
  ),
  ...Object.entries(unary).map(
    ([name, fold]) =>
      [name, inferOne((_, { shape, values }) => ({ shape, values: values?.map(fold) }))] as [
        string,
        ShapeRule,
      ],
  ),
  ...assignRule(
    'Relu LeakyRelu Elu Selu Celu Gelu Mish HardSigmoid HardSwish Sigmoid Softplus Softsign Swish Tanh Erf Exp Log Reciprocal Sin Cos Tan Sign Clip Dropout ' +
      'Asin Acos Atan Sinh Cosh Asinh Acosh Atanh BitwiseNot Softmax LogSoftmax Hardmax CumSum Trilu IsNaN IsInf ThresholdedRelu Shrink Cast CastLike LRN LpNormalization MeanVarianceNormalization ' +
      'InstanceNormalization GroupNormalization RMSNormalization DequantizeLinear QuantizeLinear Scatter ScatterND ScatterElements RotaryEmbedding ' +
      'com.microsoft:QLinearSigmoid com.microsoft:QLinearLeakyRelu com.microsoft:QLinearSoftmax com.microsoft:Gelu com.microsoft:FastGelu com.microsoft:QuickGelu com.microsoft:RotaryEmbedding',
    sameShape,
  ),
  ...assignRule(
    'BatchNormalization LayerNormalization SimplifiedLayerNormalization com.microsoft:SkipLayerNormalization com.microsoft:SkipSimplifiedLayerNormalization DynamicQuantizeLinear',
    normalisation,
  ),
  ...assignRule(
    'ReduceMean ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp',
    reduction(),
  ),
  ['ReduceSum', reduction((a, b) => a + b)],
  ['ReduceProd', reduction((a, b) => a * b)],
  ['ReduceMax', reduction(Math.max)],
  ['ReduceMin', reduction(Math.min)],
  ...assignRule('Conv com.microsoft:FusedConv ConvInteger', convolution()),
  ['QLinearConv', convolution(3)],
  ['ConvTranspose', transposedConvolution],
  ...assignRule('MaxPool AveragePool LpPool com.microsoft:QLinearAveragePool', pool),
  ...assignRule(
    'GlobalAveragePool GlobalMaxPool GlobalLpPool com.microsoft:QLinearGlobalAveragePool',
    globalPool,
  ),
  ...assignRule(
    'MatMul MatMulInteger com.microsoft:FusedMatMul com.microsoft:DynamicQuantizeMatMul com.microsoft:MatMulIntegerToFloat',
    product(),
  ),
  [
    'com.microsoft:MatMulNBits',
    inferOne((node, { shape }) => ({ shape: [...shape.slice(0, -1), readNumber(node, 'N', 1)] })),
  ],
  ['QLinearMatMul', product(3)],
  ...assignRule('Gemm com.microsoft:FusedGemm', gemm()),
  ['com.microsoft:QGemm', gemm(3)],
  ['Reshape', reshape],
  [
    'Flatten',
    inferOne((node, { shape }) =>
      flattenShape(shape, normaliseAxis(readNumber(node, 'axis', 1), shape.length)),
    ),
  ],
  [
    'Transpose',
    inferOne((node, { shape }) => ({
      shape: (readNumbers(node, 'perm') ?? shape.map((_, i) => shape.length - 1 - i)).map(
        (i) => shape[i]!,
      ),
    })),
  ],
  ['Squeeze', squeeze],
  ['Unsqueeze', unsqueeze],
  ['Gather', gather],
  ...assignRule(
    'GatherElements GridSample',
    inferOne(
      (node, { shape }, [, index]) =>
        index && {
          shape:
            node.op === 'GridSample'
              ? [...shape.slice(0, 2), ...index.shape.slice(1, -1)]
              : index.shape,
        },
    ),
  ),
  [
    'GatherND',
    inferOne(
      (node, { shape }, [, index]) =>
        index && {
          shape: [
            ...index.shape.slice(0, -1),
            ...shape.slice(index.shape.at(-1)! + readNumber(node, 'batch_dims', 0)),
          ],
        },
    ),
  ],
  ...assignRule('Concat com.microsoft:QLinearConcat', concat),
  ['Split', split],
  ['Slice', slice],
  ['Pad', pad],
  ...assignRule('Resize Upsample', resize),
  ['Expand', expand],
  [
    'Tile',
    inferOne(
      (_, { shape }, [, repeats]) =>
        repeats?.values && { shape: shape.map((size, i) => size * repeats.values![i]!) },
    ),
  ],
  ['Where', inferOne((_, __, inputs) => inferWhere(inputs))],
  [
    'Shape',
    inferOne((node, { shape }) =>
      createShapeTensor(
        shape.slice(
          readNumber(node, 'start', 0),
          node.attributes.end === undefined ? undefined : readNumber(node, 'end', 0),
        ),
      ),
    ),
  ],
  ['Size', inferOne((_, { shape }) => ({ shape: [], values: [countElements(shape)] }))],
  [
    'ConstantOfShape',
    inferOne(
      (node, { values }) =>
        values && {
          shape: values,
          values:
            values.length <= 1 && countElements(values) <= maxConstantValues
              ? Array.from(
                  { length: countElements(values) },
                  () => readTensor(node, 'value')?.values?.[0] ?? 0,
                )
              : undefined,
        },
    ),
  ],
  ['Range', inferOne((_, __, inputs) => inferRange(inputs))],
  [
    'OneHot',
    inferOne((_, { shape }, [, depth]) => depth?.values && { shape: [...shape, depth.values[0]!] }),
  ],
  ...assignRule(
    'ArgMax ArgMin',
    inferOne((node, { shape }) => inferArgument(node, shape)),
  ),
  ['TopK', (node, [x, k]) => inferTopK(node, x, k)],
  [
    'DepthToSpace',
    inferOne((node, { shape: [n, c, h, w] }) => {
      const b = readNumber(node, 'blocksize', 1)
      return { shape: [n!, c! / b ** 2, h! * b, w! * b] }
    }),
  ],
  [
    'SpaceToDepth',
    inferOne((node, { shape: [n, c, h, w] }) => {
      const b = readNumber(node, 'blocksize', 1)
      return { shape: [n!, c! * b ** 2, h! / b, w! / b] }
    }),
  ],
  ['Einsum', einsum],
  ...assignRule('LSTM GRU RNN', recurrent),
  ['Constant', constant],
  [
    'com.microsoft:Attention',
    inferOne(
      (_, { shape }, [, weights]) =>
        weights && { shape: [...shape.slice(0, -1), weights.shape[1]! / 3] },
    ),
  ],
  ...assignRule(
    'com.microsoft:MultiHeadAttention Attention',
    inferOne((node, { shape }, [, , values]) => {
      // In the packed layout, each group of keys and values serves several heads.
      const groups =
        shape.length === 3
          ? readNumber(node, 'q_num_heads', 1) /
            readNumber(node, 'kv_num_heads', readNumber(node, 'q_num_heads', 1))
          : 1
      return {
        shape: [...shape.slice(0, -1), values ? values.shape.at(-1)! * groups : shape.at(-1)!],
      }
    }),
  ),
  [
    'com.microsoft:EmbedLayerNormalization',
    inferOne((_, { shape }, [, , table]) => table && { shape: [...shape, table.shape[1]!] }),
  ],
])

const flattenShape = (shape: readonly number[], axis: number): OutputShape => ({
  shape: [countElements(shape.slice(0, axis)), countElements(shape.slice(axis))],
})
const createShapeTensor = (sizes: readonly number[]): OutputShape => ({
  shape: [sizes.length],
  values: sizes,
})

function inferWhere(inputs: readonly MaybeTensor[]): OutputShape {
  if (inputs.includes(undefined)) return undefined
  const shape = broadcast(...inputs.map((input) => input!.shape))
  return (
    shape && {
      shape,
      values: foldConstants(inputs, shape, (condition, yes, no) => (condition ? yes! : no!)),
    }
  )
}

function inferRange([from, to, by]: readonly MaybeTensor[]): OutputShape {
  const [start, end, step] = [from?.values?.[0], to?.values?.[0], by?.values?.[0]]
  if (start === undefined || end === undefined || step === undefined) return undefined
  const count = Math.max(0, Math.ceil((end - start) / step))
  return {
    shape: [count],
    values:
      count <= maxConstantValues
        ? Array.from({ length: count }, (_, i) => start + i * step)
        : undefined,
  }
}

function inferArgument(node: GraphNode, shape: readonly number[]): OutputShape {
  const axis = normaliseAxis(readNumber(node, 'axis', 0), shape.length)
  return {
    shape: shape.flatMap((size, i) =>
      i !== axis ? [size] : readNumber(node, 'keepdims', 1) === 1 ? [1] : [],
    ),
  }
}

function inferTopK(
  node: GraphNode,
  x: MaybeTensor,
  k: MaybeTensor,
): readonly MaybeTensor[] | undefined {
  const count = k?.values?.[0] ?? readNumber(node, 'k', 0)
  if (x === undefined || !(count > 0)) return undefined
  const axis = normaliseAxis(readNumber(node, 'axis', -1), x.shape.length)
  const tensor = {
    shape: x.shape.map((size, i) => (i === axis ? Math.min(count, size) : size)),
    constant: false,
  }
  return [tensor, tensor]
}
