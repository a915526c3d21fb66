/**
 * Tensors as bytes, little-endian and row-major: raw contents of the Open Inference Protocol over
 * gRPC, its binary tensor data over REST, and TensorFlow's tensor_content. All machines that Node
 * supports are little-endian.
 */
import { PayloadError } from '../profiler-errors.ts'

/** Counts the elements of a shape. */
export const countElements = (shape: readonly number[]): number =>
  shape.reduce((product, size) => product * size, 1)

/** Element types that JavaScript numbers represent directly. */
const typedArrays = {
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

/** Throws a PayloadError for element types without a byte representation. */
export function encodeNumbers(datatype: string, values: readonly (number | boolean)[]): Buffer {
  if (datatype === 'INT64' || datatype === 'UINT64') {
    const wide = BigInt64Array.from(values, (value) => BigInt(Math.trunc(Number(value))))
    return Buffer.from(wide.buffer)
  }
  if (datatype === 'FP16')
    return Buffer.from(Uint16Array.from(values, (value) => encodeFloat16(Number(value))).buffer)
  if (datatype === 'BF16')
    return Buffer.from(Uint16Array.from(values, (value) => encodeBfloat16(Number(value))).buffer)
  if (!Object.hasOwn(typedArrays, datatype))
    throw new PayloadError(
      `tensors of ${datatype} cannot be made`,
      'give request bodies in a JSON Lines file',
    )
  const numbers = values.map(Number)
  return Buffer.from(typedArrays[datatype as keyof typeof typedArrays].from(numbers).buffer)
}

/** Returns the bytes of each element. */
export const getElementBytes = (datatype: keyof typeof typedArrays | 'INT64' | 'UINT64'): number =>
  datatype === 'INT64' || datatype === 'UINT64' ? 8 : typedArrays[datatype].BYTES_PER_ELEMENT

/** Numbers of complete elements; 64-bit ones with the precision of a number. */
export function decodeNumbers(
  datatype: keyof typeof typedArrays | 'INT64' | 'UINT64',
  bytes: Uint8Array,
): ArrayLike<number> {
  // The copy starts at an aligned offset.
  const { buffer } = new Uint8Array(bytes)
  if (datatype === 'INT64' || datatype === 'UINT64')
    return Float64Array.from(
      new (datatype === 'INT64' ? BigInt64Array : BigUint64Array)(buffer),
      Number,
    )
  return new typedArrays[datatype](buffer)
}

/**
 * Elements of raw contents, in a number that can be compared with a shape: an incomplete element
 * adds one that is undefined. An unknown datatype has as many elements as bytes.
 */
export function decodeRawContents(datatype: string, bytes: Uint8Array): ArrayLike<unknown> {
  if (datatype === 'BYTES') return decodeBytesElements(bytes)
  const size = /^(FP|BF)16$/.test(datatype)
    ? 2
    : isNumeric(datatype)
      ? getElementBytes(datatype)
      : 1
  const remainder = bytes.byteLength % size
  const completeElements = bytes.subarray(0, bytes.byteLength - remainder)
  const decodeHalves = (decode: (half: number) => number) =>
    Array.from(new Uint16Array(new Uint8Array(completeElements).buffer), decode)
  const values =
    datatype === 'FP16'
      ? decodeHalves(decodeFloat16)
      : datatype === 'BF16'
        ? decodeHalves(decodeBfloat16)
        : isNumeric(datatype)
          ? decodeNumbers(datatype, completeElements)
          : completeElements
  return remainder === 0 ? values : [...Array.from(values), undefined]
}

const isNumeric = (datatype: string): datatype is keyof typeof typedArrays | 'INT64' | 'UINT64' =>
  Object.hasOwn(typedArrays, datatype) || datatype === 'INT64' || datatype === 'UINT64'

/** Decodes the number with these bfloat16 bits. */
function decodeBfloat16(brain: number): number {
  bits[0] = brain << 16
  return float[0]!
}

/** Bytes of the length before each element of BYTES. */
const lengthBytes = 4

/** Elements preceded by their length, 4 bytes little-endian: tensors of BYTES. */
export function encodeBytesElements(elements: readonly Uint8Array[]): Buffer {
  return Buffer.concat(
    elements.flatMap((element) => {
      const length = Buffer.alloc(lengthBytes)
      length.writeUInt32LE(element.byteLength)
      return [length, element]
    }),
  )
}

/** Elements of a tensor of BYTES; the last is undefined where the bytes end within it. */
export function decodeBytesElements(bytes: Uint8Array): (Uint8Array | undefined)[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const elements: (Uint8Array | undefined)[] = []
  for (let offset = 0; offset < bytes.byteLength; ) {
    const from = offset + lengthBytes
    const length =
      from <= bytes.byteLength ? view.getUint32(offset, true) : Number.POSITIVE_INFINITY
    const isComplete = from + length <= bytes.byteLength
    elements.push(isComplete ? bytes.subarray(from, from + length) : undefined)
    offset = from + length
  }
  return elements
}

const float = new Float32Array(1)
const bits = new Uint32Array(float.buffer)

/** Encodes as the bits of the nearest IEEE 754 half-precision number, ties to even. */
export function encodeFloat16(value: number): number {
  float[0] = value
  const sign = (bits[0]! >>> 16) & 0x8000
  const magnitude = bits[0]! & 0x7fffffff
  if (magnitude > 0x7f800000) return sign | 0x7e00 // not a number
  if (magnitude >= 0x477ff000) return sign | 0x7c00 // rounds to infinity
  if (magnitude < 0x38800000) return sign | roundToEven(Math.abs(float[0]!) * 2 ** 24) // subnormal: multiples of 2^-24
  const rounded = magnitude + 0xfff + ((magnitude >>> 13) & 1)
  return sign | ((rounded >>> 13) - 0x1c000)
}

/** Decodes the number with these half-precision bits. */
export function decodeFloat16(half: number): number {
  const sign = half & 0x8000 ? -1 : 1
  const exponent = (half >>> 10) & 0x1f
  const fraction = half & 0x3ff
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return (
    sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15))
  )
}

/** Bits of the nearest bfloat16 number, ties to even. */
function encodeBfloat16(value: number): number {
  float[0] = value
  if (Number.isNaN(value)) return 0x7fc0
  return (bits[0]! + 0x7fff + ((bits[0]! >>> 16) & 1)) >>> 16
}

function roundToEven(value: number): number {
  const below = Math.floor(value)
  const fraction = value - below
  return fraction > 0.5 || (fraction === 0.5 && below % 2 === 1) ? below + 1 : below
}
