/** Reads ONNX files (onnx.proto, IR version 3 and later). */
import { createRequire } from 'node:module'
import { getHint, readBytes } from '../../../profiler/bounded-reader.ts'
import type { Precision } from '../catalogue.ts'
import { DeviceModelError } from '../device-model-error.ts'
import type { GraphAttribute, GraphDimension, GraphTensor, OnnxGraph } from './graph.ts'
import { createGraphArchitecture, type GraphArchitecture, nameGraph } from './graph-architecture.ts'

/** The used part of onnx.proto. The decoder skips other fields, such as external weights. */
const definitions = `
syntax = "proto3";
message Tensor {
  repeated int64 dims = 1; int32 data_type = 2; repeated float float_data = 4; repeated int32 int32_data = 5;
  repeated int64 int64_data = 7; string name = 8; bytes raw_data = 9; repeated double double_data = 10;
}
message Sparse { Tensor values = 1; repeated int64 dims = 3; }
message Attribute {
  string name = 1; float f = 2; int64 i = 3; bytes s = 4; Tensor t = 5; bytes g = 6; repeated float floats = 7; repeated int64 ints = 8;
  repeated bytes strings = 9; int32 type = 20;
}
message Node { repeated string input = 1; repeated string output = 2; string op_type = 4; repeated Attribute attribute = 5; string domain = 7; }
message Dimension { oneof value { int64 dim_value = 1; string dim_param = 2; } }
message Shape { repeated Dimension dim = 1; }
message TensorType { int32 elem_type = 1; Shape shape = 2; }
message Type { TensorType tensor_type = 1; }
message ValueInfo { string name = 1; Type type = 2; }
message Graph {
  repeated Node node = 1; repeated Tensor initializer = 5; repeated ValueInfo input = 11; repeated ValueInfo output = 12;
  repeated ValueInfo value_info = 13; repeated Sparse sparse_initializer = 15;
}
message Model { int64 ir_version = 1; Graph graph = 7; }
`

/** Loads the parser with the first file: most commands read none. */
function loadMessageType() {
  const protobuf = createRequire(import.meta.url)('protobufjs') as typeof import('protobufjs')
  return protobuf.parse(definitions, { keepCase: true }).root.lookupType('Model')
}
let messageType: ReturnType<typeof loadMessageType> | undefined

interface Tensor {
  readonly dims: readonly number[]
  readonly data_type: number
  readonly name: string
  readonly float_data: readonly number[]
  readonly int32_data: readonly number[]
  readonly int64_data: readonly number[]
  readonly double_data: readonly number[]
  readonly raw_data: Uint8Array
}
interface Attribute {
  readonly name: string
  readonly f: number
  readonly i: number
  readonly s: Uint8Array
  readonly t?: Tensor
  readonly floats: readonly number[]
  readonly ints: readonly number[]
  readonly strings: readonly Uint8Array[]
  readonly type: number
}
interface ValueInfo {
  readonly name: string
  readonly type?: {
    readonly tensor_type?: {
      readonly elem_type: number
      readonly shape?: {
        readonly dim: readonly { readonly dim_value?: number; readonly dim_param?: string }[]
      }
    }
  }
}
interface Model {
  readonly graph?: {
    readonly node: readonly {
      readonly input: readonly string[]
      readonly output: readonly string[]
      readonly op_type: string
      readonly domain: string
      readonly attribute: readonly Attribute[]
    }[]
    readonly initializer: readonly Tensor[]
    readonly input: readonly ValueInfo[]
    readonly output: readonly ValueInfo[]
    readonly value_info: readonly ValueInfo[]
    readonly sparse_initializer: readonly {
      readonly values?: Tensor
      readonly dims: readonly number[]
    }[]
  }
}

/**
 * Reads the graph of an ONNX file.
 * @throws DeviceModelError for a file that is no ONNX model
 */
export function readOnnxFile(path: string): OnnxGraph {
  let bytes: Buffer
  try {
    bytes = readBytes(path, 'model')
  } catch (error) {
    throw new DeviceModelError(
      `${path} cannot be read: ${(error as Error).message}`,
      getHint(error),
    )
  }
  return readOnnx(bytes, path)
}

/** @throws DeviceModelError for a file that is no ONNX model */
export const readGraphArchitecture = (path: string): GraphArchitecture =>
  createGraphArchitecture(readOnnxFile(path), nameGraph(path))

/** @param place name of the source in errors */
export function readOnnx(bytes: Uint8Array, place: string): OnnxGraph {
  let model: Model
  try {
    messageType ??= loadMessageType()
    const message = messageType.decode(bytes)
    model = messageType.toObject(message, { longs: Number, arrays: true, defaults: true }) as Model
  } catch (error) {
    throw createFormatError(place, (error as Error).message)
  }
  const { graph } = model
  if (!graph || graph.node.length === 0) throw createFormatError(place, 'it contains no graph')
  const weights = Object.fromEntries([
    ...graph.initializer.map((tensor) => [tensor.name, convertTensor(tensor)] as const),
    ...graph.sparse_initializer.flatMap(({ values, dims }) =>
      values
        ? [[values.name, { shape: dims, isFloatingPoint: isFloating(values.data_type) }] as const]
        : [],
    ),
  ])
  return {
    nodes: graph.node.map((node) => ({
      op: ['', 'ai.onnx'].includes(node.domain) ? node.op_type : `${node.domain}:${node.op_type}`,
      inputs: node.input,
      outputs: node.output,
      attributes: Object.fromEntries(node.attribute.flatMap((one) => convertAttribute(one))),
    })),
    weights,
    inputs: graph.input
      .filter(({ name }) => weights[name] === undefined)
      .map((value) => ({
        name: value.name,
        shape: readDimensions(value) ?? [],
        isFloatingPoint: isFloating(value.type?.tensor_type?.elem_type),
      })),
    outputs: graph.output.map(({ name }) => name),
    shapes: Object.fromEntries(
      [...graph.value_info, ...graph.output].flatMap((value) => {
        const shape = readDimensions(value)
        return shape ? [[value.name, shape] as const] : []
      }),
    ),
  }
}

const createFormatError = (place: string, why: string) =>
  new DeviceModelError(
    `${place} is not an ONNX model: ${why}`,
    'export it again, and check it with onnx.checker',
  )

/**
 * Element types of TensorProto that hold weights: floats of 8 to 64 bits, and integers of 4 and 8
 * bits.
 */
const floatingTypes: ReadonlySet<number> = new Set([
  1, 2, 3, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23,
])
const isFloating = (type: number | undefined): boolean =>
  type !== undefined && floatingTypes.has(type)

const precisionByType: Readonly<Record<number, Precision>> = {
  1: 'fp32',
  2: 'int8',
  3: 'int8',
  10: 'fp16',
  16: 'bf16',
  17: 'fp8',
  19: 'fp8',
}

/** Constants up to this size may be shapes, scales or indices; larger ones are weights. */
const maxConstantValues = 64

function convertTensor(tensor: Tensor): GraphTensor {
  const count = tensor.dims.reduce((a, b) => a * b, 1)
  const values = count <= maxConstantValues ? readValues(tensor) : undefined
  const precision = precisionByType[tensor.data_type]
  return {
    shape: tensor.dims,
    isFloatingPoint: isFloating(tensor.data_type),
    ...(precision !== undefined && { precision }),
    ...(values?.length === count && { values }),
  }
}

function readValues(tensor: Tensor): readonly number[] | undefined {
  const { raw_data: raw, data_type: type } = tensor
  const listedValues = [
    tensor.int64_data,
    tensor.float_data,
    tensor.int32_data,
    tensor.double_data,
  ].find((list) => list.length > 0)
  if (listedValues !== undefined || raw.length === 0) return listedValues
  const view = new DataView(raw.buffer, raw.byteOffset, raw.byteLength)
  const each = (size: number, at: (offset: number) => number) =>
    Array.from({ length: raw.length / size }, (_, i) => at(i * size))
  if (type === 7) return each(8, (o) => Number(view.getBigInt64(o, true)))
  if (type === 6) return each(4, (o) => view.getInt32(o, true))
  if (type === 1) return each(4, (o) => view.getFloat32(o, true))
  if (type === 11) return each(8, (o) => view.getFloat64(o, true))
  return type === 9 ? [...raw] : undefined
}

/** Converts by AttributeProto.type. Subgraphs are skipped, so that their nodes are not counted. */
function convertAttribute(one: Attribute): [string, GraphAttribute][] {
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString()
  const value = {
    1: one.f,
    2: one.i,
    3: text(one.s),
    4: one.t && convertTensor(one.t),
    6: one.floats,
    7: one.ints,
    8: one.strings.map(text),
  }[one.type]
  return value === undefined ? [] : [[one.name, value]]
}

const readDimensions = ({ type }: ValueInfo): GraphDimension[] | undefined =>
  type?.tensor_type?.shape?.dim.map(({ dim_value, dim_param }, axis) =>
    dim_value !== undefined && dim_value > 0 ? dim_value : dim_param || `?${axis}`,
  )
