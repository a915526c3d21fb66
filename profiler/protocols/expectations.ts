/** User expectations of every answer: values at paths of its document. */
import { isRecord } from '../plain-record.ts'

/** JSON-safe. */
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
export function stepsOf(path: string): (string | number)[] | undefined {
  const text = path.replace(/^\$\.?/, '')
  const steps: (string | number)[] = []
  const step = /\.?([^.[\]"']+)|\[(\d+)\]|\[(?:"([^"]*)"|'([^']*)')\]/y
  while (step.lastIndex < text.length) {
    const start = step.lastIndex
    const found = step.exec(text)
    if (!found || (found[1] !== undefined && start > 0 && text[start] !== '.')) return undefined
    const [, key, position, double, single] = found
    steps.push(position === undefined ? (key ?? double ?? single)! : Number(position))
  }
  return steps
}

function at(document: unknown, steps: readonly (string | number)[]): unknown {
  let here = document
  for (const step of steps) {
    if (Array.isArray(here))
      here =
        typeof step === 'number'
          ? here[step]
          : here.find((one) => isRecord(one) && one.name === step)
    else here = isRecord(here) && Object.hasOwn(here, String(step)) ? here[String(step)] : undefined
    if (here === undefined) return undefined
  }
  return here
}

/**
 * Describes what of an answer is not as expected, to follow 'answered 200, but'; undefined where
 * all is.
 */
export function unexpected(
  document: unknown,
  expectations: readonly Expectation[],
): string | undefined {
  for (const { path, value, tolerance = 0 } of expectations) {
    const found = at(document, stepsOf(path) ?? [])
    if (found === undefined) return `nothing stands at ${path}`
    if (value !== undefined && !matches(found, value, tolerance))
      return `${path} is ${brief(found)}, and ${brief(value)}${tolerance > 0 ? ` within ${tolerance}` : ''} is expected`
  }
  return undefined
}

function matches(found: unknown, value: unknown, tolerance: number): boolean {
  if (typeof found === 'number' && typeof value === 'number')
    return Math.abs(found - value) <= tolerance
  if (Array.isArray(found) && Array.isArray(value)) {
    const [a, b] = [found.flat(Number.POSITIVE_INFINITY), value.flat(Number.POSITIVE_INFINITY)]
    return a.length === b.length && a.every((one, i) => matches(one, b[i], tolerance))
  }
  if (isRecord(found) && isRecord(value))
    return Object.entries(value).every(([key, inner]) => matches(found[key], inner, tolerance))
  return found === value
}

const brief = (value: unknown): string => {
  const text = JSON.stringify(value)
  return text.length > 100 ? `${text.slice(0, 97)}...` : text
}

/**
 * Whether a path leads to, or above, a leaf of golden answers ('outputs.logits.data[]'); a position
 * matches any item of its list.
 */
export function covers(path: string, leaf: string): boolean {
  const left = leaf.split(/\.|(?=\[\])/)
  for (const step of stepsOf(path) ?? []) {
    if (typeof step === 'string') while (left[0] === '[]') left.shift()
    const segment = left.shift()
    if (segment === undefined || (typeof step === 'string' && segment !== step)) return false
  }
  return true
}
