/**
 * Checks answers against the user's expectations: values at paths of the answer's JSON document.
 */
import { isRecord } from '../plain-record.ts'

/** An expectation of every answer. It is JSON-safe, to be sent to another process. */
export interface Expectation {
  /**
   * 'outputs[0].data[1]', 'predictions[0].label'; a name within a list selects the item of that
   * name: 'outputs.logits.data'.
   */
  readonly path: string
  /** Expected value. Absent: any value, compared with the golden answers. */
  readonly value?: unknown
  /** Tolerance of numbers: absolute for a value, relative to the largest one for golden answers. */
  readonly tolerance?: number
}

/** Parses a path into keys and positions. Undefined for an invalid path. */
export function parsePath(path: string): (string | number)[] | undefined {
  const text = path.replace(/^\$\.?/, '')
  const steps: (string | number)[] = []
  const step = /\.?([^.[\]"']+)|\[(\d+)\]|\[(?:"([^"]*)"|'([^']*)')\]/y
  while (step.lastIndex < text.length) {
    const start = step.lastIndex
    const match = step.exec(text)
    if (!match || (match[1] !== undefined && start > 0 && text[start] !== '.')) return undefined
    const [, key, position, double, single] = match
    steps.push(position === undefined ? (key ?? double ?? single)! : Number(position))
  }
  return steps
}

/** Selects the value at a path of a document; undefined if there is none. */
function selectPath(document: unknown, steps: readonly (string | number)[]): unknown {
  let value = document
  for (const step of steps) {
    if (Array.isArray(value))
      value =
        typeof step === 'number'
          ? value[step]
          : value.find((item) => isRecord(item) && item.name === step)
    else
      value =
        isRecord(value) && Object.hasOwn(value, String(step)) ? value[String(step)] : undefined
    if (value === undefined) return undefined
  }
  return value
}

/**
 * Describes the first expectation that an answer violates, to follow 'answered 200, but'; undefined
 * where it meets all.
 */
export function findViolation(
  document: unknown,
  expectations: readonly Expectation[],
): string | undefined {
  for (const { path, value, tolerance = 0 } of expectations) {
    const actual = selectPath(document, parsePath(path) ?? [])
    if (actual === undefined) return `it has no value at ${path}`
    if (value !== undefined && !matchesValue(actual, value, tolerance))
      return `${path} is ${shorten(actual)}, and ${shorten(value)}${tolerance > 0 ? ` within ${tolerance}` : ''} is expected`
  }
  return undefined
}

/** Whether a value is as expected. Extra fields of records are allowed, and lists are flattened. */
function matchesValue(actual: unknown, expected: unknown, tolerance: number): boolean {
  if (typeof actual === 'number' && typeof expected === 'number')
    return Math.abs(actual - expected) <= tolerance
  if (Array.isArray(actual) && Array.isArray(expected)) {
    const [a, b] = [actual.flat(Number.POSITIVE_INFINITY), expected.flat(Number.POSITIVE_INFINITY)]
    return a.length === b.length && a.every((value, i) => matchesValue(value, b[i], tolerance))
  }
  if (isRecord(actual) && isRecord(expected))
    return Object.entries(expected).every(([key, inner]) =>
      matchesValue(actual[key], inner, tolerance),
    )
  return actual === expected
}

const shorten = (value: unknown): string => {
  const text = JSON.stringify(value)
  return text.length > 100 ? `${text.slice(0, 97)}...` : text
}

/**
 * Whether an expectation's path contains a path of golden answers ('outputs.logits.data[]'): it is
 * the same or above it. A position matches any item of its list, as golden answers do not have
 * positions.
 */
export function coversPath(path: string, leaf: string): boolean {
  const segments = leaf.split(/\.|(?=\[\])/)
  for (const step of parsePath(path) ?? []) {
    if (typeof step === 'string') while (segments[0] === '[]') segments.shift()
    const segment = segments.shift()
    if (segment === undefined || (typeof step === 'string' && segment !== step)) return false
  }
  return true
}
