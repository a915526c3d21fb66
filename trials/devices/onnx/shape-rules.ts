/**
 * Shapes of what operators make, by the ONNX specification; and the values of small constants, of
 * which exporters compute shapes within the graph.
 */
import type { GraphNode } from './graph.ts'
import {
  axisOf,
  broadcast,
  given,
  type Known,
  type Made,
  numberOf,
  numbersOf,
  one,
  type Rule,
  sizeOf,
  stepsAndItems,
  tensorOf,
  textOf,
  turnedAsAsked,
} from './known-tensor.ts'
import { convolution, globalPool, pool, transposedConvolution } from './sliding-windows.ts'

const same = one((_, { shape, values }) => ({ shape, values }))

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

/** Small ones alone: these are shapes, not tables. */
const mostValues = 64

/** @returns values where all are known and few */
function folded(
  inputs: readonly Known[],
  shape: readonly number[],
  fold: (...values: number[]) => number,
): number[] | undefined {
  const count = sizeOf(shape)
  if (count > mostValues || shape.length > 1) return undefined
  const lists = inputs.map((input) => input?.values)
  if (lists.some((list) => list === undefined || (list.length !== 1 && list.length !== count)))
    return undefined
  return Array.from({ length: count }, (_, i) =>
    fold(...lists.map((list) => list![list!.length === 1 ? 0 : i]!)),
  )
}

const broadcasting = (fold?: (a: number, b: number) => number): Rule =>
  one((_, __, inputs) => {
    if (inputs.includes(undefined)) return undefined
    const shape = broadcast(...inputs.map((input) => input!.shape))
    return (
      shape && {
        shape,
        values:
          fold && inputs.length > 1 ? folded(inputs, shape, (...v) => v.reduce(fold)) : undefined,
      }
    )
  })

/** Axes left out, or kept with a size of one. */
const reduction = (fold?: (a: number, b: number) => number): Rule =>
  one((node, { shape, values }, inputs) => {
    const named = given(node, 'axes', inputs[1])
    const none = named === undefined || named.length === 0
    if (none && numberOf(node, 'noop_with_empty_axes', 0) === 1) return { shape }
    const axes = none ? shape.map((_, i) => i) : named.map((axis) => axisOf(axis, shape.length))
    const kept = numberOf(node, 'keepdims', 1) === 1
    const after = shape.flatMap((size, i) => (axes.includes(i) ? (kept ? [1] : []) : [size]))
    return {
      shape: after,
      values: fold && values && sizeOf(after) === 1 ? [values.reduce(fold)] : undefined,
    }
  })

/** Matrices in the last two dimensions, the others broadcast. */
function multiplied(a: readonly number[], b: readonly number[]): number[] | undefined {
  const [left, right] = [a.length === 1 ? [1, a[0]!] : a, b.length === 1 ? [b[0]!, 1] : b]
  const around = broadcast(left.slice(0, -2), right.slice(0, -2))
  if (around === undefined || left.at(-1) !== right.at(-2)) return undefined
  return [
    ...around,
    ...(a.length === 1 ? [] : [left.at(-2)!]),
    ...(b.length === 1 ? [] : [right.at(-1)!]),
  ]
}
const product = (secondAt = 1): Rule =>
  one((node, a, inputs) => {
    const b = inputs[secondAt]
    const shape =
      b &&
      multiplied(turnedAsAsked(node, 'transA', a).shape, turnedAsAsked(node, 'transB', b).shape)
    return shape && { shape }
  })

const gemm = (secondAt = 1): Rule =>
  one((node, a, inputs) => {
    const b = inputs[secondAt]
    return (
      b && {
        shape: [
          turnedAsAsked(node, 'transA', a).shape[0]!,
          turnedAsAsked(node, 'transB', b).shape[1]!,
        ],
      }
    )
  })

const reshape: Rule = one((node, { shape, values }, inputs) => {
  const asked = given(node, 'shape', inputs[1])
  if (asked === undefined) return undefined
  const zeroes = numberOf(node, 'allowzero', 0) === 1
  const sizes = asked.map((size, i) => (size === 0 && !zeroes ? shape[i]! : size))
  const rest = sizeOf(shape) / sizes.reduce((a, b) => (b === -1 ? a : a * b), 1)
  return {
    shape: sizes.map((size) => (size === -1 ? rest : size)),
    values: sizes.length <= 1 ? values : undefined,
  }
})

const squeeze: Rule = one((node, { shape, values }, inputs) => {
  const axes = given(node, 'axes', inputs[1])?.map((axis) => axisOf(axis, shape.length))
  return { shape: shape.filter((size, i) => (axes ? !axes.includes(i) : size !== 1)), values }
})
const unsqueeze: Rule = one((node, { shape, values }, inputs) => {
  const axes = given(node, 'axes', inputs[1])
  if (axes === undefined) return undefined
  const rank = shape.length + axes.length
  const places = axes.map((axis) => axisOf(axis, rank))
  const rest = [...shape]
  return {
    shape: Array.from({ length: rank }, (_, i) => (places.includes(i) ? 1 : rest.shift()!)),
    values: rank <= 1 ? values : undefined,
  }
})

const gather: Rule = one((node, { shape, values }, [, indices]) => {
  if (indices === undefined) return undefined
  const axis = axisOf(numberOf(node, 'axis', 0), shape.length)
  const picked =
    shape.length === 1 && values
      ? indices.values?.map((i) => values[axisOf(i, values.length)]!)
      : undefined
  return {
    shape: [...shape.slice(0, axis), ...indices.shape, ...shape.slice(axis + 1)],
    values: picked,
  }
})

/**
 * Quantised, each tensor has its scale and zero point behind it, and the output's stand before
 * them.
 */
const concat: Rule = (node, inputs) =>
  concatenated(
    node,
    node.op === 'Concat' ? inputs : inputs.filter((_, i) => i >= 2 && (i - 2) % 3 === 0),
  )
const concatenated: Rule = one((node, { shape }, inputs) => {
  if (inputs.includes(undefined)) return undefined
  const axis = axisOf(numberOf(node, 'axis', 0), shape.length)
  const total = inputs.reduce((sum, input) => sum + input!.shape[axis]!, 0)
  const values =
    shape.length === 1 && inputs.every((input) => input!.values)
      ? inputs.flatMap((input) => input!.values!)
      : undefined
  return { shape: shape.map((size, i) => (i === axis ? total : size)), values }
})

const split: Rule = (node, [first, sizes]) => {
  if (first === undefined) return undefined
  const { shape, constant } = first
  const axis = axisOf(numberOf(node, 'axis', 0), shape.length)
  const parts = given(node, 'split', sizes) ?? []
  const equal = Math.ceil(shape[axis]! / node.outputs.length)
  return node.outputs.map((_, i) => {
    const size = parts[i] ?? Math.min(equal, shape[axis]! - i * equal)
    return { shape: shape.map((s, j) => (j === axis ? size : s)), constant }
  })
}

const slice: Rule = one((node, { shape, values }, [, starts, ends, axes, steps]) => {
  const [from, to] = [given(node, 'starts', starts), given(node, 'ends', ends)]
  if (from === undefined || to === undefined) return undefined
  const along = given(node, 'axes', axes) ?? from.map((_, i) => i)
  const by = steps?.values ?? from.map(() => 1)
  const sizes = [...shape]
  let cut = values
  along.forEach((named, i) => {
    const axis = axisOf(named, shape.length)
    const size = shape[axis]!
    const within = (at: number) =>
      Math.min(size, Math.max(by[i]! < 0 ? -1 : 0, at < 0 ? at + size : at))
    const [begin, end] = [Math.min(within(from[i]!), by[i]! < 0 ? size - 1 : size), within(to[i]!)]
    sizes[axis] = Math.max(0, Math.ceil((end - begin) / by[i]!))
    if (shape.length === 1 && cut)
      cut = Array.from({ length: sizes[axis] }, (_, k) => values![begin + k * by[i]!]!)
  })
  return { shape: sizes, values: shape.length === 1 ? cut : undefined }
})

const pad: Rule = one((node, { shape }, inputs) => {
  const pads = given(node, 'pads', inputs[1])
  if (pads === undefined) return undefined
  const axes =
    inputs[3]?.values?.map((axis) => axisOf(axis, shape.length)) ?? shape.map((_, i) => i)
  const sizes = [...shape]
  axes.forEach((axis, i) => {
    sizes[axis] = shape[axis]! + pads[i]! + pads[i + axes.length]!
  })
  return { shape: sizes }
})

const resize: Rule = one((node, { shape }, inputs) => {
  const sizes = inputs[3]?.values
  // Before opset 11 no region of interest stood between them.
  const scales = numbersOf(node, 'scales') ?? inputs[node.inputs.length === 2 ? 1 : 2]?.values
  const axes =
    numbersOf(node, 'axes')?.map((axis) => axisOf(axis, shape.length)) ?? shape.map((_, i) => i)
  const at = (i: number) => axes.indexOf(i)
  if (sizes?.length) return { shape: shape.map((size, i) => sizes[at(i)] ?? size) }
  return scales?.length
    ? { shape: shape.map((size, i) => Math.floor(size * (scales[at(i)] ?? 1))) }
    : undefined
})

const expand: Rule = one((_, { shape, values }, [, asked]) => {
  const wide = asked?.values && broadcast(shape, asked.values)
  return (
    wide && {
      shape: wide,
      values:
        values?.length === 1 && wide.length === 1
          ? Array.from({ length: wide[0]! }, () => values[0]!)
          : undefined,
    }
  )
})

/** Dimensions of an equation like 'bij,bjk->bik'. */
const einsum: Rule = (node, inputs) => {
  const [from = '', to] = (textOf(node, 'equation') ?? '').replace(/\s/g, '').split('->')
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

const recurrent: Rule = (node, [x]) => {
  if (x === undefined) return undefined
  const [steps, batch] = stepsAndItems(node, x)
  const directions = textOf(node, 'direction') === 'bidirectional' ? 2 : 1
  const hidden = numberOf(node, 'hidden_size', 0)
  const itemsFirst = numberOf(node, 'layout', 0) === 1
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

const constant: Rule = (node) => {
  const tensor = tensorOf(node, 'value')
  if (tensor) return [{ shape: tensor.shape, values: tensor.values, constant: true }]
  const scalar = node.attributes.value_int ?? node.attributes.value_float
  if (typeof scalar === 'number') return [{ shape: [], values: [scalar], constant: true }]
  const list = numbersOf(node, 'value_ints') ?? numbersOf(node, 'value_floats')
  return list && [{ shape: [list.length], values: list, constant: true }]
}

/**
 * Beside it mean and deviation, which nobody reads, and of ONNX Runtime's fused ones last the sum
 * that was normalised, the next residual.
 */
const normalised: Rule = (node, inputs) =>
  same(node, inputs)?.flatMap((made) =>
    node.outputs.map((_, i) =>
      i === 0 || (i === 3 && node.op.includes(':Skip')) ? made : undefined,
    ),
  )

const names = (list: string, rule: Rule): [string, Rule][] =>
  list.split(' ').map((name) => [name, rule])

/** By operator, of ONNX's own set and of ONNX Runtime's. */
export const shapeRules: Readonly<Record<string, Rule>> = Object.fromEntries([
  ...Object.entries(arithmetic).map(([name, fold]) => [name, broadcasting(fold)] as const),
  ...names(
    'Sum Mean PRelu BitShift BitwiseAnd BitwiseOr BitwiseXor com.microsoft:BiasGelu com.microsoft:QLinearAdd com.microsoft:QLinearMul',
    broadcasting(),
  ),
  ...Object.entries(unary).map(
    ([name, fold]) =>
      [name, one((_, { shape, values }) => ({ shape, values: values?.map(fold) }))] as [
        string,
        Rule,
      ],
  ),
  ...names(
    'Relu LeakyRelu Elu Selu Celu Gelu Mish HardSigmoid HardSwish Sigmoid Softplus Softsign Swish Tanh Erf Exp Log Reciprocal Sin Cos Tan Sign Clip Dropout ' +
      'Asin Acos Atan Sinh Cosh Asinh Acosh Atanh BitwiseNot Softmax LogSoftmax Hardmax CumSum Trilu IsNaN IsInf ThresholdedRelu Shrink Cast CastLike LRN LpNormalization MeanVarianceNormalization ' +
      'InstanceNormalization GroupNormalization RMSNormalization DequantizeLinear QuantizeLinear Scatter ScatterND ScatterElements RotaryEmbedding ' +
      'com.microsoft:QLinearSigmoid com.microsoft:QLinearLeakyRelu com.microsoft:QLinearSoftmax com.microsoft:Gelu com.microsoft:FastGelu com.microsoft:QuickGelu com.microsoft:RotaryEmbedding',
    same,
  ),
  ...names(
    'BatchNormalization LayerNormalization SimplifiedLayerNormalization com.microsoft:SkipLayerNormalization com.microsoft:SkipSimplifiedLayerNormalization DynamicQuantizeLinear',
    normalised,
  ),
  ...names(
    'ReduceMean ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp',
    reduction(),
  ),
  ['ReduceSum', reduction((a, b) => a + b)],
  ['ReduceProd', reduction((a, b) => a * b)],
  ['ReduceMax', reduction(Math.max)],
  ['ReduceMin', reduction(Math.min)],
  ...names('Conv com.microsoft:FusedConv ConvInteger', convolution()),
  ['QLinearConv', convolution(3)],
  ['ConvTranspose', transposedConvolution],
  ...names('MaxPool AveragePool LpPool com.microsoft:QLinearAveragePool', pool),
  ...names(
    'GlobalAveragePool GlobalMaxPool GlobalLpPool com.microsoft:QLinearGlobalAveragePool',
    globalPool,
  ),
  ...names(
    'MatMul MatMulInteger com.microsoft:FusedMatMul com.microsoft:DynamicQuantizeMatMul com.microsoft:MatMulIntegerToFloat',
    product(),
  ),
  [
    'com.microsoft:MatMulNBits',
    one((node, { shape }) => ({ shape: [...shape.slice(0, -1), numberOf(node, 'N', 1)] })),
  ],
  ['QLinearMatMul', product(3)],
  ...names('Gemm com.microsoft:FusedGemm', gemm()),
  ['com.microsoft:QGemm', gemm(3)],
  ['Reshape', reshape],
  [
    'Flatten',
    one((node, { shape }) => flattened(shape, axisOf(numberOf(node, 'axis', 1), shape.length))),
  ],
  [
    'Transpose',
    one((node, { shape }) => ({
      shape: (numbersOf(node, 'perm') ?? shape.map((_, i) => shape.length - 1 - i)).map(
        (i) => shape[i]!,
      ),
    })),
  ],
  ['Squeeze', squeeze],
  ['Unsqueeze', unsqueeze],
  ['Gather', gather],
  ...names(
    'GatherElements GridSample',
    one(
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
    one(
      (node, { shape }, [, index]) =>
        index && {
          shape: [
            ...index.shape.slice(0, -1),
            ...shape.slice(index.shape.at(-1)! + numberOf(node, 'batch_dims', 0)),
          ],
        },
    ),
  ],
  ...names('Concat com.microsoft:QLinearConcat', concat),
  ['Split', split],
  ['Slice', slice],
  ['Pad', pad],
  ...names('Resize Upsample', resize),
  ['Expand', expand],
  [
    'Tile',
    one(
      (_, { shape }, [, repeats]) =>
        repeats?.values && { shape: shape.map((size, i) => size * repeats.values![i]!) },
    ),
  ],
  ['Where', one((_, __, inputs) => whereOf(inputs))],
  [
    'Shape',
    one((node, { shape }) =>
      shapeOf(
        shape.slice(
          numberOf(node, 'start', 0),
          node.attributes.end === undefined ? undefined : numberOf(node, 'end', 0),
        ),
      ),
    ),
  ],
  ['Size', one((_, { shape }) => ({ shape: [], values: [sizeOf(shape)] }))],
  [
    'ConstantOfShape',
    one(
      (node, { values }) =>
        values && {
          shape: values,
          values:
            values.length <= 1 && sizeOf(values) <= mostValues
              ? Array.from(
                  { length: sizeOf(values) },
                  () => tensorOf(node, 'value')?.values?.[0] ?? 0,
                )
              : undefined,
        },
    ),
  ],
  ['Range', one((_, __, inputs) => rangeOf(inputs))],
  [
    'OneHot',
    one((_, { shape }, [, depth]) => depth?.values && { shape: [...shape, depth.values[0]!] }),
  ],
  ...names(
    'ArgMax ArgMin',
    one((node, { shape }) => argumentOf(node, shape)),
  ),
  ['TopK', (node, [x, k]) => topK(node, x, k)],
  [
    'DepthToSpace',
    one((node, { shape: [n, c, h, w] }) => {
      const b = numberOf(node, 'blocksize', 1)
      return { shape: [n!, c! / b ** 2, h! * b, w! * b] }
    }),
  ],
  [
    'SpaceToDepth',
    one((node, { shape: [n, c, h, w] }) => {
      const b = numberOf(node, 'blocksize', 1)
      return { shape: [n!, c! * b ** 2, h! / b, w! / b] }
    }),
  ],
  ['Einsum', einsum],
  ...names('LSTM GRU RNN', recurrent),
  ['Constant', constant],
  [
    'com.microsoft:Attention',
    one(
      (_, { shape }, [, weights]) =>
        weights && { shape: [...shape.slice(0, -1), weights.shape[1]! / 3] },
    ),
  ],
  ...names(
    'com.microsoft:MultiHeadAttention Attention',
    one((node, { shape }, [, , values]) => {
      // Of queries × heads in one width: each group of keys and values serves several heads.
      const groups =
        shape.length === 3
          ? numberOf(node, 'q_num_heads', 1) /
            numberOf(node, 'kv_num_heads', numberOf(node, 'q_num_heads', 1))
          : 1
      return {
        shape: [...shape.slice(0, -1), values ? values.shape.at(-1)! * groups : shape.at(-1)!],
      }
    }),
  ),
  [
    'com.microsoft:EmbedLayerNormalization',
    one((_, { shape }, [, , table]) => table && { shape: [...shape, table.shape[1]!] }),
  ],
])

const flattened = (shape: readonly number[], axis: number): Made => ({
  shape: [sizeOf(shape.slice(0, axis)), sizeOf(shape.slice(axis))],
})
const shapeOf = (sizes: readonly number[]): Made => ({ shape: [sizes.length], values: sizes })

function whereOf(inputs: readonly Known[]): Made {
  if (inputs.includes(undefined)) return undefined
  const shape = broadcast(...inputs.map((input) => input!.shape))
  return (
    shape && {
      shape,
      values: folded(inputs, shape, (condition, yes, no) => (condition ? yes! : no!)),
    }
  )
}

function rangeOf([from, to, by]: readonly Known[]): Made {
  const [start, end, step] = [from?.values?.[0], to?.values?.[0], by?.values?.[0]]
  if (start === undefined || end === undefined || step === undefined) return undefined
  const count = Math.max(0, Math.ceil((end - start) / step))
  return {
    shape: [count],
    values:
      count <= mostValues ? Array.from({ length: count }, (_, i) => start + i * step) : undefined,
  }
}

function argumentOf(node: GraphNode, shape: readonly number[]): Made {
  const axis = axisOf(numberOf(node, 'axis', 0), shape.length)
  return {
    shape: shape.flatMap((size, i) =>
      i !== axis ? [size] : numberOf(node, 'keepdims', 1) === 1 ? [1] : [],
    ),
  }
}

function topK(node: GraphNode, x: Known, k: Known): readonly Known[] | undefined {
  const count = k?.values?.[0] ?? numberOf(node, 'k', 0)
  if (x === undefined || !(count > 0)) return undefined
  const axis = axisOf(numberOf(node, 'axis', -1), x.shape.length)
  const made = {
    shape: x.shape.map((size, i) => (i === axis ? Math.min(count, size) : size)),
    constant: false,
  }
  return [made, made]
}
