/**
 * The binary tensor data extension of the Open Inference Protocol: little-endian rows, BYTES
 * elements led by a 4-byte length.
 */
import {
  countElements,
  decodeBytesElements,
  decodeNumbers,
  getElementBytes,
} from '../../../profiler/protocols/tensor-bytes.ts'
import type { Tensor } from '../engine.ts'
import { RequestError, type WireDatatype, type WireTensor } from './tensors.ts'

/**
 * One tensor from its raw bytes.
 * @throws RequestError 400 when their number does not fit the shape
 */
export function readBinaryTensor(
  name: string,
  datatype: WireDatatype,
  shape: readonly number[],
  bytes: Uint8Array,
): WireTensor {
  const count = countElements(shape)
  if (datatype === 'BYTES')
    return { name, shape, datatype, values: readByteElements(name, count, bytes) }
  const needed = count * getElementBytes(datatype)
  if (bytes.byteLength !== needed)
    throw new RequestError(
      400,
      `input '${name}' has ${bytes.byteLength} bytes of binary data; ${datatype} [${shape}] needs ${needed}`,
    )
  return { name, shape, datatype, values: decodeNumbers(datatype, bytes) }
}

function readByteElements(name: string, count: number, bytes: Uint8Array): Uint8Array[] {
  const elements = decodeBytesElements(bytes).map((element, i) => {
    if (element === undefined)
      throw new RequestError(400, `input '${name}': element ${i} of the binary data is cut off`)
    return element
  })
  if (elements.length !== count)
    throw new RequestError(
      400,
      `input '${name}' has ${elements.length} binary elements, but its shape needs ${count}`,
    )
  return elements
}

/** A tensor's raw bytes; all machines that Node runs on are little-endian. */
export const encodeBinary = (tensor: Tensor): Uint8Array =>
  new Uint8Array(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength)
