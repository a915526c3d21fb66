/** Converts between the server's tensors (FP32, INT32) and the element types of ONNX. */
import { decodeFloat16, encodeFloat16 } from '../../../../profiler/protocols/tensor-bytes.ts'
import type { EngineDatatype, Tensor } from '../../engine.ts'
import { ModelError } from '../../models/model-registry.ts'

/** Supported element types, by ONNX Runtime's names. */
const datatypes: Readonly<Record<string, EngineDatatype>> = {
  float32: 'FP32',
  float16: 'FP32',
  int64: 'INT32',
  int32: 'INT32',
  bool: 'INT32',
}

/**
 * Finds the server's datatype for an element type.
 * @throws ModelError for unsupported element types
 */
export function findDatatype(type: string, name: string): EngineDatatype {
  const datatype = datatypes[type]
  if (datatype === undefined)
    throw new ModelError(
      `tensor '${name}' of the ONNX model has element type ${type}`,
      `inputs and outputs must be of ${Object.keys(datatypes).join(', ')}`,
    )
  return datatype
}

/** Converts elements for ONNX Runtime: half floats as bits, booleans as bytes. */
export function convertToOnnx(
  data: Tensor['data'],
  type: string,
): Float32Array | Int32Array | BigInt64Array | Uint16Array | Uint8Array {
  switch (type) {
    case 'int64':
      return widenToInt64(data)
    case 'float16':
      return Uint16Array.from(data, encodeFloat16)
    case 'bool':
      return Uint8Array.from(data, (value) => Number(value !== 0))
    default:
      return data
  }
}

/** @throws Error for 64-bit whole numbers beyond INT32 */
export function convertFromOnnx(
  data: ArrayLike<number> | BigInt64Array,
  type: string,
  name: string,
): Tensor['data'] {
  switch (type) {
    case 'int64':
      return narrowToInt32(data as BigInt64Array, name)
    case 'float16':
      // On platforms with Float16Array, half floats are numbers; else they are bits.
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
 * Writes pairs of low and high words: a twentieth of the time of BigInts. ONNX Runtime supports
 * little-endian machines only.
 */
function widenToInt64(data: Tensor['data']): BigInt64Array {
  const words = new Int32Array(2 * data.length)
  for (let i = 0; i < data.length; i++) {
    const value = data[i]!
    words[2 * i] = value
    words[2 * i + 1] = value < 0 ? -1 : 0
  }
  return new BigInt64Array(words.buffer)
}

function narrowToInt32(data: BigInt64Array, name: string): Int32Array {
  const words = new Int32Array(data.buffer, data.byteOffset, 2 * data.length)
  const values = new Int32Array(data.length)
  for (let i = 0; i < values.length; i++) {
    values[i] = words[2 * i]!
    if (words[2 * i + 1] !== values[i]! >> 31)
      throw new Error(`output '${name}' holds ${data[i]}, beyond INT32`)
  }
  return values
}
