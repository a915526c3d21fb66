/** The binary tensor data extension of the Open Inference Protocol: little-endian rows, BYTES elements led by a 4-byte length. */
import type { Tensor } from '../engine.ts'
import { RequestError, type WireDatatype, type WireTensor } from './tensors.ts'

const numbers = {
  BOOL: Uint8Array,
  INT8: Int8Array,
  INT16: Int16Array,
  INT32: Int32Array,
  UINT8: Uint8Array,
  UINT16: Uint16Array,
  UINT32: Uint32Array,
  FP32: Float32Array,
  FP64: Float64Array,
} as const

/** One tensor from its raw bytes. Throws RequestError 400 when their number does not fit the shape. */
export function readBinaryTensor(name: string, datatype: WireDatatype, shape: readonly number[], bytes: Uint8Array): WireTensor {
  const count = shape.reduce((a, b) => a * b, 1)
  if (datatype === 'BYTES') return { name, shape, datatype, values: readByteElements(name, count, bytes) }
  // A copy starts at an aligned offset.
  const aligned = bytes.slice()
  const expect = (size: number) => {
    if (aligned.byteLength !== count * size)
      throw new RequestError(
        400,
        `input '${name}' has ${aligned.byteLength} bytes of binary data; ${datatype} [${shape}] needs ${count * size}`,
      )
  }
  if (datatype === 'INT64' || datatype === 'UINT64') {
    expect(8)
    const wide = new (datatype === 'INT64' ? BigInt64Array : BigUint64Array)(aligned.buffer)
    return { name, shape, datatype, values: Float64Array.from(wide, Number) }
  }
  const type = numbers[datatype]
  expect(type.BYTES_PER_ELEMENT)
  return { name, shape, datatype, values: new type(aligned.buffer) }
}

function readByteElements(name: string, count: number, bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const elements: Uint8Array[] = []
  let at = 0
  while (at < bytes.byteLength) {
    const length = at + 4 <= bytes.byteLength ? view.getUint32(at, true) : -1
    if (length < 0 || at + 4 + length > bytes.byteLength)
      throw new RequestError(400, `input '${name}': element ${elements.length} of the binary data is cut off`)
    elements.push(bytes.subarray(at + 4, at + 4 + length))
    at += 4 + length
  }
  if (elements.length !== count)
    throw new RequestError(400, `input '${name}' has ${elements.length} binary elements; its shape holds ${count}`)
  return elements
}

/** A tensor's raw bytes; all machines that Node runs on are little-endian. */
export const binaryOf = (tensor: Tensor): Uint8Array => new Uint8Array(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength)
