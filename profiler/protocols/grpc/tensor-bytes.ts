import { PayloadError } from '../../profiler-errors.ts'

const arrays = {
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

/** Row-major values as little-endian bytes. Throws a PayloadError for element types that have none here. */
export function numbersToBytes(datatype: string, values: readonly (number | boolean)[]): Buffer {
  if (datatype === 'INT64' || datatype === 'UINT64') {
    const wide = BigInt64Array.from(values, (value) => BigInt(Math.trunc(Number(value))))
    return Buffer.from(wide.buffer)
  }
  if (datatype === 'FP16') return Buffer.from(Uint16Array.from(values, (value) => halfOf(Number(value))).buffer)
  if (datatype === 'BF16') return Buffer.from(Uint16Array.from(values, (value) => floatBits(Number(value)) >>> 16).buffer)
  if (!(datatype in arrays)) throw new PayloadError(`tensors of ${datatype} cannot be made`, 'give request bodies in a JSON Lines file')
  const numbers = values.map(Number)
  return Buffer.from(arrays[datatype as keyof typeof arrays].from(numbers).buffer)
}

/** Elements each led by their length, 4 bytes little-endian: raw contents of BYTES tensors. */
export function bytesElements(elements: readonly Uint8Array[]): Buffer {
  return Buffer.concat(
    elements.flatMap((element) => {
      const length = Buffer.alloc(4)
      length.writeUInt32LE(element.byteLength)
      return [length, element]
    }),
  )
}

const floatBits = (value: number): number => new Uint32Array(Float32Array.of(value).buffer)[0]!

/** IEEE 754 binary16 of a number, rounded towards zero. */
function halfOf(value: number): number {
  const bits = floatBits(value)
  const sign = (bits >>> 16) & 0x8000
  const exponent = ((bits >>> 23) & 0xff) - 127 + 15
  if (exponent <= 0) return sign
  if (exponent >= 31) return sign | 0x7c00
  return sign | (exponent << 10) | ((bits >>> 13) & 0x3ff)
}
