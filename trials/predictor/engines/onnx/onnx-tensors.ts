/** Between the server's tensors (FP32, INT32) and the element types of ONNX. */
import { decodeFloat16, encodeFloat16 } from '../../../../profiler/protocols/tensor-bytes.ts'
import type { EngineDatatype, Tensor } from '../../engine.ts'
import { ModelError } from '../../models/model-registry.ts'

/** Element types that are taken and given, by ONNX Runtime's names. */
const datatypes: Readonly<Record<string, EngineDatatype>> = {
  float32: 'FP32',
  float16: 'FP32',
  int64: 'INT32',
  int32: 'INT32',
  bool: 'INT32',
}

/**
 * How the server sees a tensor of the model. @throws ModelError for element types that it has none
 * for
 */
export function datatypeOf(type: string, name: string): EngineDatatype {
  const datatype = datatypes[type]
  if (datatype === undefined)
    throw new ModelError(
      `tensor '${name}' of the ONNX model has element type ${type}`,
      `inputs and outputs must be of ${Object.keys(datatypes).join(', ')}`,
    )
  return datatype
}

/** Elements as ONNX Runtime takes them: half floats as their bits, truth values as bytes. */
export function toOnnx(
  data: Tensor['data'],
  type: string,
): Float32Array | Int32Array | BigInt64Array | Uint16Array | Uint8Array {
  switch (type) {
    case 'int64':
      return widened(data)
    case 'float16':
      return Uint16Array.from(data, encodeFloat16)
    case 'bool':
      return Uint8Array.from(data, (value) => Number(value !== 0))
    default:
      return data
  }
}

/** @throws Error for 64-bit whole numbers beyond INT32 */
export function fromOnnx(
  data: ArrayLike<number> | BigInt64Array,
  type: string,
  name: string,
): Tensor['data'] {
  switch (type) {
    case 'int64':
      return narrowed(data as BigInt64Array, name)
    case 'float16':
      // Where the platform has half floats of its own, they come as such; else as their bits.
      return data instanceof Uint16Array
        ? Float32Array.from(data, decodeFloat16)
        : Float32Array.from(data as ArrayLike<number>)
    case 'bool':
      return Int32Array.from(data as ArrayLike<number>)
    default:
      return data as Float32Array | Int32Array
  }
}

/**
 * As pairs of low and high words, which costs a twentieth of making a BigInt of each; ONNX Runtime
 * exists for little-endian machines alone.
 */
function widened(data: Tensor['data']): BigInt64Array {
  const words = new Int32Array(2 * data.length)
  for (let i = 0; i < data.length; i++) {
    const value = data[i]!
    words[2 * i] = value
    words[2 * i + 1] = value < 0 ? -1 : 0
  }
  return new BigInt64Array(words.buffer)
}

function narrowed(data: BigInt64Array, name: string): Int32Array {
  const words = new Int32Array(data.buffer, data.byteOffset, 2 * data.length)
  const values = new Int32Array(data.length)
  for (let i = 0; i < values.length; i++) {
    values[i] = words[2 * i]!
    if (words[2 * i + 1] !== values[i]! >> 31)
      throw new Error(`output '${name}' holds ${data[i]}, beyond INT32`)
  }
  return values
}
