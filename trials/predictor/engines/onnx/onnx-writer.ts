/**
 * Writes ONNX models (onnx.proto, IR version 8, opset 17): nodes, weights and named inputs and
 * outputs, as chunks that are joined once.
 */

/** Element types of TensorProto. */
const elementTypes = { float: 1, int32: 6, int64: 7, half: 10 } as const
type ElementType = keyof typeof elementTypes

type Chunks = readonly Uint8Array[]

const varint = (value: number): Uint8Array => {
  const bytes: number[] = []
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Uint8Array.from([...bytes, rest])
    bytes.push((rest % 128) + 128)
  }
}
const sizeOf = (chunks: Chunks): number => chunks.reduce((sum, { length }) => sum + length, 0)
const whole = (field: number, value: number): Chunks => [varint(field * 8), varint(value)]
const block = (field: number, content: Chunks): Chunks => [
  varint(field * 8 + 2),
  varint(sizeOf(content)),
  ...content,
]
const text = (field: number, value: string): Chunks =>
  block(field, [new TextEncoder().encode(value)])

type Attribute = number | { readonly float: number } | readonly number[]

/** AttributeProto: type 1 is a float, 2 an integer, 7 integers. */
const attribute = (name: string, value: Attribute): Chunks => {
  if (typeof value === 'number')
    return block(5, [...text(1, name), ...whole(3, value), ...whole(20, 2)])
  if ('float' in value) {
    const bytes = new Uint8Array(Float32Array.of(value.float).buffer)
    return block(5, [...text(1, name), varint(2 * 8 + 5), bytes, ...whole(20, 1)])
  }
  return block(5, [...text(1, name), ...value.flatMap((one) => whole(8, one)), ...whole(20, 7)])
}

/** Collects a graph; every operation returns the name of what it makes. */
export class GraphWriter {
  readonly #nodes: Uint8Array[] = []
  readonly #weights: Uint8Array[] = []
  #made = 0

  op(
    type: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, Attribute>> = {},
    output = `v${this.#made++}`,
  ): string {
    const named = Object.entries(attributes).flatMap(([name, value]) => attribute(name, value))
    this.#nodes.push(
      ...block(1, [
        ...inputs.flatMap((name) => text(1, name)),
        ...text(2, output),
        ...text(4, type),
        ...named,
      ]),
    )
    return output
  }

  /** To another element type. */
  cast(input: string, type: ElementType, output?: string): string {
    return this.op('Cast', [input], { to: elementTypes[type] }, output)
  }

  weight(
    name: string,
    shape: readonly number[],
    values: Float32Array | BigInt64Array | Int32Array,
  ): string {
    const type: ElementType =
      values instanceof Float32Array ? 'float' : values instanceof Int32Array ? 'int32' : 'int64'
    const raw = new Uint8Array(values.buffer, values.byteOffset, values.byteLength)
    this.#weights.push(
      ...block(5, [
        ...shape.flatMap((d) => whole(1, d)),
        ...whole(2, elementTypes[type]),
        ...text(8, name),
        ...block(9, [raw]),
      ]),
    )
    return name
  }

  /** Whole numbers that shape operations take. */
  shape(...values: readonly number[]): string {
    return this.weight(`s${this.#made++}`, [values.length], BigInt64Array.from(values, BigInt))
  }

  /** @param inputs and outputs: a text is a dimension that varies */
  model(inputs: readonly GraphValue[], outputs: readonly GraphValue[]): Uint8Array {
    const graph = [
      ...this.#nodes,
      ...text(2, 'built-in'),
      ...this.#weights,
      ...inputs.flatMap((value) => valueInfo(11, value)),
      ...outputs.flatMap((value) => valueInfo(12, value)),
    ]
    return Buffer.concat([
      ...whole(1, 8),
      ...block(7, graph),
      ...block(8, [...text(1, ''), ...whole(2, 17)]),
    ])
  }
}

interface GraphValue {
  readonly name: string
  readonly type: ElementType
  readonly shape: readonly (number | string)[]
}

const valueInfo = (field: number, { name, type, shape }: GraphValue): Chunks => {
  const dims = shape.flatMap((d) => block(1, typeof d === 'number' ? whole(1, d) : text(2, d)))
  return block(field, [
    ...text(1, name),
    ...block(2, block(1, [...whole(1, elementTypes[type]), ...block(2, dims)])),
  ])
}
