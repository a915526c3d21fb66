/**
 * Writes ONNX models (onnx.proto, IR version 8, opset 17): nodes, weights and named inputs and
 * outputs.
 */
import protobuf from 'protobufjs'

const { Writer } = protobuf
type Writer = protobuf.Writer

/** Element types of TensorProto. */
const elementTypes = { float: 1, int32: 6, int64: 7, half: 10 } as const
type ElementType = keyof typeof elementTypes

/** Tags of fields by how their values are encoded. */
const varintField = (field: number) => field << 3
const bytesField = (field: number) => (field << 3) | 2
const floatField = (field: number) => (field << 3) | 5

type Attribute = number | { readonly float: number } | readonly number[]

/** AttributeProto: type 1 is a float, 2 an integer, 7 integers. */
function writeAttribute(writer: Writer, name: string, value: Attribute): void {
  writer.uint32(bytesField(5)).fork().uint32(bytesField(1)).string(name)
  if (typeof value === 'number') writer.uint32(varintField(3)).int64(value)
  else if ('float' in value) writer.uint32(floatField(2)).float(value.float)
  else for (const one of value) writer.uint32(varintField(8)).int64(one)
  const type = typeof value === 'number' ? 2 : 'float' in value ? 1 : 7
  writer.uint32(varintField(20)).int32(type).ldelim()
}

/** Builds a graph; every operation returns the name of its output. */
export class GraphWriter {
  readonly #graph = Writer.create()
  #made = 0

  op(
    type: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, Attribute>> = {},
    output = `v${this.#made++}`,
  ): string {
    const node = this.#graph.uint32(bytesField(1)).fork()
    for (const name of inputs) node.uint32(bytesField(1)).string(name)
    node.uint32(bytesField(2)).string(output).uint32(bytesField(4)).string(type)
    for (const [name, value] of Object.entries(attributes)) writeAttribute(node, name, value)
    node.ldelim()
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
    const tensor = this.#graph.uint32(bytesField(5)).fork()
    for (const size of shape) tensor.uint32(varintField(1)).int64(size)
    tensor.uint32(varintField(2)).int32(elementTypes[type])
    tensor.uint32(bytesField(8)).string(name).uint32(bytesField(9)).bytes(raw).ldelim()
    return name
  }

  /** Whole numbers that shape operations take. */
  shape(...values: readonly number[]): string {
    return this.weight(`s${this.#made++}`, [values.length], BigInt64Array.from(values, BigInt))
  }

  /** @param inputs and outputs: a text is a dimension that varies */
  model(inputs: readonly GraphValue[], outputs: readonly GraphValue[]): Uint8Array {
    this.#graph.uint32(bytesField(2)).string('built-in')
    for (const value of inputs) writeValue(this.#graph, 11, value)
    for (const value of outputs) writeValue(this.#graph, 12, value)
    const model = Writer.create().uint32(varintField(1)).int64(8)
    model.uint32(bytesField(7)).bytes(this.#graph.finish())
    model.uint32(bytesField(8)).fork().uint32(bytesField(1)).string('')
    return model.uint32(varintField(2)).int64(17).ldelim().finish()
  }
}

interface GraphValue {
  readonly name: string
  readonly type: ElementType
  readonly shape: readonly (number | string)[]
}

function writeValue(writer: Writer, field: number, { name, type, shape }: GraphValue): void {
  writer.uint32(bytesField(field)).fork().uint32(bytesField(1)).string(name)
  const tensor = writer.uint32(bytesField(2)).fork().uint32(bytesField(1)).fork()
  tensor.uint32(varintField(1)).int32(elementTypes[type]).uint32(bytesField(2)).fork()
  for (const size of shape) {
    const dimension = tensor.uint32(bytesField(1)).fork()
    if (typeof size === 'number') dimension.uint32(varintField(1)).int64(size)
    else dimension.uint32(bytesField(2)).string(size)
    dimension.ldelim()
  }
  tensor.ldelim().ldelim().ldelim().ldelim()
}
