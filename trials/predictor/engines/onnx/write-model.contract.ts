/** For tests: writes small ONNX files. Field numbers are those of onnx.proto (IR version 8). */

type Bytes = readonly number[]

const varint = (value: number): Bytes =>
  value < 128 ? [value] : [(value % 128) + 128, ...varint(Math.floor(value / 128))]
const whole = (field: number, value: number): Bytes => [...varint(field * 8), ...varint(value)]
const block = (field: number, content: Bytes | Uint8Array): Bytes => [
  ...varint(field * 8 + 2),
  ...varint(content.length),
  ...content,
]
const text = (field: number, value: string): Bytes => block(field, Buffer.from(value))

/** Element types of TensorProto. */
export const elementTypes = {
  float: 1,
  int32: 6,
  int64: 7,
  string: 8,
  bool: 9,
  float16: 10,
} as const
export type ElementType = keyof typeof elementTypes

export interface Value {
  readonly name: string
  readonly type: ElementType
  /** A text is a dimension that varies. */
  readonly shape: readonly (number | string)[]
}
export interface Node {
  readonly op: string
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  /** Whole-number attributes. */
  readonly attributes?: Readonly<Record<string, number>>
}
export interface Weights {
  readonly name: string
  readonly shape: readonly number[]
  readonly values: readonly number[]
}

const valueInfo = ({ name, type, shape }: Value): Bytes => {
  const dims = shape.flatMap((d) => block(1, typeof d === 'number' ? whole(1, d) : text(2, d)))
  return [
    ...text(1, name),
    ...block(2, block(1, [...whole(1, elementTypes[type]), ...block(2, dims)])),
  ]
}
const node = ({ op, inputs, outputs, attributes = {} }: Node): Bytes => [
  ...inputs.flatMap((name) => text(1, name)),
  ...outputs.flatMap((name) => text(2, name)),
  ...text(4, op),
  ...Object.entries(attributes).flatMap(([name, value]) =>
    block(5, [...text(1, name), ...whole(3, value), ...whole(20, 2)]),
  ),
]
const weights = ({ name, shape, values }: Weights): Bytes => [
  ...shape.flatMap((d) => whole(1, d)),
  ...whole(2, elementTypes.float),
  ...text(8, name),
  ...block(9, new Uint8Array(Float32Array.from(values).buffer)),
]

/** The bytes of a model of opset 17. */
export function onnxModel(graph: {
  readonly inputs: readonly Value[]
  readonly outputs: readonly Value[]
  readonly nodes: readonly Node[]
  readonly weights?: readonly Weights[]
}): Uint8Array {
  const body = [
    ...graph.nodes.flatMap((one) => block(1, node(one))),
    ...text(2, 'test'),
    ...(graph.weights ?? []).flatMap((one) => block(5, weights(one))),
    ...graph.inputs.flatMap((one) => block(11, valueInfo(one))),
    ...graph.outputs.flatMap((one) => block(12, valueInfo(one))),
  ]
  return Uint8Array.from([
    ...whole(1, 8),
    ...block(7, body),
    ...block(8, [...text(1, ''), ...whole(2, 17)]),
  ])
}

/** relu(x W + b), x: batch × 3, W: 3 × 2. */
export const dense = { w: [1, -1, 0.5, 2, -2, 0.25], b: [0.1, -0.2] }
export const denseModel = (batch: number | string = 'batch'): Uint8Array =>
  onnxModel({
    inputs: [{ name: 'x', type: 'float', shape: [batch, 3] }],
    outputs: [{ name: 'y', type: 'float', shape: [batch, 2] }],
    nodes: [
      { op: 'MatMul', inputs: ['x', 'W'], outputs: ['xW'] },
      { op: 'Add', inputs: ['xW', 'b'], outputs: ['z'] },
      { op: 'Relu', inputs: ['z'], outputs: ['y'] },
    ],
    weights: [
      { name: 'W', shape: [3, 2], values: dense.w },
      { name: 'b', shape: [2], values: dense.b },
    ],
  })

/** What `denseModel` computes, in plain arithmetic. */
export const denseRow = (x: readonly number[]): number[] =>
  dense.b.map((b, column) =>
    Math.max(
      0,
      x.reduce((sum, value, row) => sum + value * dense.w[2 * row + column]!, b),
    ),
  )

/**
 * Texts as exported from PyTorch: `tokens` = input_ids × attention_mask + token_type_ids, and the
 * same as floats.
 */
export const textModel = (withTypes: boolean): Uint8Array => {
  const value = (name: string, type: ElementType = 'int64'): Value => ({
    name,
    type,
    shape: ['batch', 'sequence'],
  })
  return onnxModel({
    inputs: [
      value('input_ids'),
      value('attention_mask'),
      ...(withTypes ? [value('token_type_ids')] : []),
    ],
    outputs: [value('tokens'), value('logits', 'float')],
    nodes: [
      {
        op: 'Mul',
        inputs: ['input_ids', 'attention_mask'],
        outputs: [withTypes ? 'masked' : 'tokens'],
      },
      ...(withTypes
        ? [{ op: 'Add', inputs: ['masked', 'token_type_ids'], outputs: ['tokens'] }]
        : []),
      {
        op: 'Cast',
        inputs: ['tokens'],
        outputs: ['logits'],
        attributes: { to: elementTypes.float },
      },
    ],
  })
}
