/**
 * JSON that preserves every number. An overloaded predictor's percentile is Infinity, which plain
 * JSON converts to null: NaN, the infinities and -0 become {"$number": "Infinity"}. A Float64Array
 * becomes {"$float64": base64 of its little-endian bytes}. Data with one of these keys is escaped
 * as {"$literal": {...}}.
 */
const numbers: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
  '-0': -0,
}

/**
 * JSON text of plain data and Float64Arrays (no functions, dates or cycles); properties that are
 * undefined are left out.
 */
export function encode(data: unknown): string {
  return JSON.stringify(mark(data)) ?? 'null'
}

/**
 * Decodes the output of `encode`.
 * @throws SyntaxError for text that is not JSON
 */
export function decode(text: string): unknown {
  const data: unknown = JSON.parse(text)
  return text.includes('"$') ? unmark(data) : data
}

function mark(data: unknown): unknown {
  if (typeof data === 'number') {
    if (Number.isFinite(data) && !Object.is(data, -0)) return data
    return { $number: Object.is(data, -0) ? '-0' : String(data) }
  }
  if (Array.isArray(data)) return data.map(mark)
  if (typeof data !== 'object' || data === null) return data
  if (data instanceof Float64Array) return { $float64: encodeBase64(data) }
  const marked = Object.fromEntries(Object.entries(data).map(([key, value]) => [key, mark(value)]))
  return marks.some((name) => name in marked) ? { $literal: marked } : marked
}

const marks = ['$number', '$float64', '$literal'] as const

function unmark(data: unknown): unknown {
  if (Array.isArray(data)) return data.map(unmark)
  if (typeof data !== 'object' || data === null) return data
  if ('$number' in data) return numbers[String(data.$number)]
  if ('$float64' in data) return decodeFloat64s(String(data.$float64))
  const content = '$literal' in data ? (data.$literal as object) : data
  return Object.fromEntries(Object.entries(content).map(([key, value]) => [key, unmark(value)]))
}

/** Bytes converted in one call: more would exceed the limit of arguments. */
const chunkBytes = 8192

function encodeBase64(data: Float64Array): string {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  let text = ''
  for (let from = 0; from < bytes.length; from += chunkBytes)
    text += String.fromCharCode(...bytes.subarray(from, from + chunkBytes))
  return btoa(text)
}

/** @throws DOMException or RangeError for invalid text */
const decodeFloat64s = (text: string): Float64Array =>
  new Float64Array(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer)
