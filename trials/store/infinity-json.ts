/**
 * JSON that keeps every number. An overloaded predictor's percentile is Infinity, and plain JSON
 * would make it null: NaN, the infinities and -0 become {"$number": "Infinity"}, and an object of
 * the data that looks so becomes {"$literal": {...}}.
 */
const numbers: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
  '-0': -0,
}

/**
 * JSON text of plain data (no functions, dates or cycles); properties that are undefined are left
 * out.
 */
export function encode(data: unknown): string {
  return JSON.stringify(mark(data)) ?? 'null'
}

/** The data that `encode` was given. Throws SyntaxError for text that is not JSON. */
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
  const marked = Object.fromEntries(Object.entries(data).map(([key, value]) => [key, mark(value)]))
  return '$number' in marked || '$literal' in marked ? { $literal: marked } : marked
}

function unmark(data: unknown): unknown {
  if (Array.isArray(data)) return data.map(unmark)
  if (typeof data !== 'object' || data === null) return data
  if ('$number' in data) return numbers[String(data.$number)]
  const content = '$literal' in data ? (data.$literal as object) : data
  return Object.fromEntries(Object.entries(content).map(([key, value]) => [key, unmark(value)]))
}
