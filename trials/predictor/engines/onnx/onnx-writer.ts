/**
 * Writes ONNX models (messages of onnx.proto): nodes, weights, and named inputs and outputs. The
 * built-in models of the ONNX engine are written with it.
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

const irVersion = 8
const opsetVersion = 17

type Attribute = number | { readonly float: number } | readonly number[]

/** Types of AttributeProto. */
const attributeTypes = { float: 1, integer: 2, integers: 7 } as const

/**
 * Writes field 5 of a node: an AttributeProto of name (1), f (2), i (3) or ints (8), and type (20).
 */
function writeAttribute(writer: Writer, name: string, value: Attribute): void {
  writer.uint32(bytesField(5)).fork().uint32(bytesField(1)).string(name)
  if (typeof value === 'number') writer.uint32(varintField(3)).int64(value)
  else if ('float' in value) writer.uint32(floatField(2)).float(value.float)
  else for (const one of value) writer.uint32(varintField(8)).int64(one)
  const type =
    typeof value === 'number'
      ? attributeTypes.integer
      : 'float' in value
        ? attributeTypes.float
        : attributeTypes.integers
  writer.uint32(varintField(20)).int32(type).ldelim()
}

/** Builds a graph; every operation returns the name of its output. */
export class GraphWriter {
  readonly #graph = Writer.create()
  /** Number of values named so far. */
  #valueCount = 0

  /** Adds a NodeProto (field 1 of the graph): input (1), output (2), op_type (4), attribute (5). */
  addNode(
    type: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, Attribute>> = {},
    output = `v${this.#valueCount++}`,
  ): string {
    const node = this.#graph.uint32(bytesField(1)).fork()
    for (const name of inputs) node.uint32(bytesField(1)).string(name)
    node.uint32(bytesField(2)).string(output).uint32(bytesField(4)).string(type)
    for (const [name, value] of Object.entries(attributes)) writeAttribute(node, name, value)
    node.ldelim()
    return output
  }

  /** Casts to another element type. */
  cast(input: string, type: ElementType, output?: string): string {
    return this.addNode('Cast', [input], { to: elementTypes[type] }, output)
  }

  /**
   * Adds an initializer (field 5 of the graph), a TensorProto: dims (1), data_type (2), name (8),
   * raw_data (9).
   */
  addInitializer(
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

  /** Adds an int64 constant for operators that take a shape, such as Reshape, Slice or Expand. */
  addShapeConstant(...values: readonly number[]): string {
    return this.addInitializer(
      `s${this.#valueCount++}`,
      [values.length],
      BigInt64Array.from(values, BigInt),
    )
  }

  /**
   * Completes the GraphProto with name (2), input (11) and output (12), and wraps it into a
   * ModelProto: ir_version (1), graph (7), opset_import (8) with domain (1) and version (2).
   */
  finish(inputs: readonly GraphValue[], outputs: readonly GraphValue[]): Uint8Array {
    this.#graph.uint32(bytesField(2)).string('built-in')
    for (const value of inputs) writeValue(this.#graph, 11, value)
    for (const value of outputs) writeValue(this.#graph, 12, value)
    const model = Writer.create().uint32(varintField(1)).int64(irVersion)
    model.uint32(bytesField(7)).bytes(this.#graph.finish())
    model.uint32(bytesField(8)).fork().uint32(bytesField(1)).string('')
    return model.uint32(varintField(2)).int64(opsetVersion).ldelim().finish()
  }
}

/** An input or output of the graph. */
interface GraphValue {
  readonly name: string
  readonly type: ElementType
  /** A string names a dynamic dimension. */
  readonly shape: readonly (number | string)[]
}

/**
 * Writes a ValueInfoProto: name (1), type (2). The TypeProto has tensor_type (1): elem_type (1) and
 * shape (2), whose dim (1) are each dim_value (1) or dim_param (2).
 */
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
