/**
 * Golden answers: the answers of the first configuration, or of a file. Those of every other
 * configuration are compared with them, because a server with a batching bug or badly quantised
 * weights is as fast as a correct one, and would win.
 *
 * Some parts of an answer may differ and are not compared: those that differ when one server
 * repeats a request (sampled texts, ids, times), and those about the server (its port, process,
 * settings).
 */
import { createHash } from 'node:crypto'
import { isRecord } from '../plain-record.ts'
import type { ParsedAnswer } from './protocol.ts'

/**
 * All scalars of a document by path, in order. A list is one path: 'outputs[].data[]' → [0.1, 0.9].
 */
type Leaves = Readonly<Record<string, readonly unknown[]>>

type Configuration = Readonly<Record<string, number | string>>

/** JSON-safe. */
export interface GoldenAnswers {
  /** Trial or file that they come from, for messages: 'trial 1'. */
  readonly source: string
  readonly bits: Bits
  /** Configuration of the server that gave them. */
  readonly configuration: Configuration
  readonly answers: readonly { readonly body: number; readonly leaves: Leaves }[]
  /** Paths whose values differed between repetitions of a request. */
  readonly random: readonly string[]
}

/** Precision of numbers: bits of the arithmetic or the weights, whichever are fewer. */
export type Bits = 32 | 16 | 8 | 4

interface Tolerance {
  /** Relative to the largest number at the same path. */
  readonly number: number
  /**
   * Share of requests that may have another label, text or integer: rounding may swap two that are
   * almost equally likely.
   */
  readonly requests: number
}

/** A tolerance of the user replaces `number`. */
const tolerances: Readonly<Record<Bits, Tolerance>> = {
  32: { number: 0.01, requests: 0.25 },
  16: { number: 0.05, requests: 0.25 },
  8: { number: 0.2, requests: 0.5 },
  4: { number: 0.3, requests: 0.5 },
}

// The following limits keep stored answers small. Assumed.

/** Longer lists are sampled evenly to this many values. */
const maxStoredValues = 2_048
/** Further paths of an answer are not compared. */
const maxPaths = 1_000
/** Longer texts are stored as their beginning and a hash. */
const maxStoredCharacters = 2_048
const digestText = (text: string): string =>
  `${text.slice(0, 80)}... (${text.length} characters, sha256 ${createHash('sha256').update(text).digest('hex').slice(0, 16)})`

/**
 * Extracts the comparable values of an answer. Of generated text only the first word is compared,
 * because rounding makes correct servers diverge after some words.
 */
function extractLeaves({ result, generated }: Pick<ParsedAnswer, 'result' | 'generated'>): Leaves {
  if (generated) return { text: [extractFirstWord(String(result))] }
  const leaves: Record<string, unknown[]> = {}
  collectLeaves(result, '', leaves)
  return Object.fromEntries(
    Object.entries(leaves).map(([path, values]) => [path, sampleValues(values)]),
  )
}

/** Extracts all scalars of an answer, in order. */
export const extractValues = (answer: Pick<ParsedAnswer, 'result'>): readonly unknown[] =>
  Object.values(extractLeaves(answer)).flat()

const extractFirstWord = (text: string): string => text.trim().split(/\s+/, 1)[0]!.slice(0, 40)

function collectLeaves(value: unknown, path: string, leaves: Record<string, unknown[]>): void {
  if (Array.isArray(value)) {
    for (const element of value) collectLeaves(element, `${path}[]`, leaves)
    return
  }
  if (isRecord(value)) {
    for (const [key, inner] of Object.entries(value))
      collectLeaves(inner, path === '' ? key : `${path}.${key}`, leaves)
    return
  }
  if (leaves[path] === undefined) {
    if (Object.keys(leaves).length === maxPaths) return
    leaves[path] = []
  }
  leaves[path].push(value)
}

/**
 * Shortens long texts and lists. The first value is then the length, so that lengths are compared
 * too.
 */
function sampleValues(all: readonly unknown[]): readonly unknown[] {
  const values = all.map((value) =>
    typeof value === 'string' && value.length > maxStoredCharacters ? digestText(value) : value,
  )
  if (values.length <= maxStoredValues) return values
  const step = values.length / maxStoredValues
  return [
    `${values.length} values`,
    ...Array.from({ length: maxStoredValues }, (_, i) => values[Math.floor(i * step)]),
  ]
}

/**
 * Builds golden answers from several rounds of the same requests to one server. The first round is
 * stored; paths that differ in another round are random.
 * @param rounds answers by round and request; undefined for a bad answer
 * @param bodies indices of the requests
 */
export function buildGoldenAnswers(
  origin: Pick<GoldenAnswers, 'source' | 'bits' | 'configuration'>,
  bodies: readonly number[],
  rounds: readonly (readonly (ParsedAnswer | undefined)[])[],
): GoldenAnswers {
  const [first = [], ...others] = rounds.map((round) =>
    round.map((answer) => answer && extractLeaves(answer)),
  )
  const random = new Set<string>()
  const areSame = (a: readonly unknown[], b: readonly unknown[], maxDifference: number) =>
    areClose(a, b, areLabels(a, b) ? 0 : maxDifference)
  for (const other of others)
    for (const [i, leaves] of other.entries()) {
      const golden = first[i]
      if (golden === undefined || leaves === undefined) continue
      for (const path of unionPaths(golden, leaves))
        if (
          !areSame(
            golden[path] ?? [],
            leaves[path] ?? [],
            tolerances[origin.bits].number * findMaxMagnitude(first, path),
          )
        )
          random.add(path)
    }
  const answers = bodies.flatMap((body, i) =>
    first[i] === undefined ? [] : [{ body, leaves: first[i] }],
  )
  return { ...origin, answers, random: [...random] }
}

const unionPaths = (a: Leaves, b: Leaves): Set<string> =>
  new Set([...Object.keys(a), ...Object.keys(b)])

/**
 * Finds the largest absolute number at a path over all answers: the scale of a relative tolerance.
 */
function findMaxMagnitude(answers: readonly (Leaves | undefined)[], path: string): number {
  let max = 0
  for (const leaves of answers)
    for (const value of leaves?.[path] ?? [])
      if (typeof value === 'number') max = Math.max(max, Math.abs(value))
  return max
}

/**
 * Whether two lists hold labels, which must be equal: texts and integers (classes, tokens, counts).
 * With a tolerance of the user, integers are quantities instead.
 */
const areLabels = (a: readonly unknown[], b: readonly unknown[]): boolean =>
  [...a, ...b].every((value) => typeof value !== 'number' || Number.isInteger(value))

/** Field names that describe the server rather than the request. */
const serverFields =
  /^(id|uid|uuid|pid|port|host(name)?|node|pod|server|worker|thread|process|replica|instance|device|gpus?|cores?|cpus?|threads?|batch(_?size|es)?|max_?batch.*|arg(ument|v|)s?|env|config|settings|version|build|commit|precision|dtype|quanti[sz]ation|trial|model(_?(name|version|path))?|created(_?at)?|time(stamp)?|uptime|now|latency|duration|elapsed|took|counter|request_?id|headers?|.*_(ms|us|ns|at|time|seconds))$/i

const describesServer = (path: string): boolean =>
  path.split('.').some((name) => serverFields.test(name.replace(/(\[\])+$/, '')))

/**
 * Whether both values are the same parameter of their servers' configurations, such as a batch size
 * that each server reports.
 */
const repeatsParameter = (
  a: readonly unknown[],
  b: readonly unknown[],
  configuration: Configuration,
  goldenConfiguration: Configuration,
): boolean =>
  Object.entries(configuration).some(
    ([name, value]) =>
      a.length === 1 &&
      b.length === 1 &&
      String(b[0]) === String(value) &&
      goldenConfiguration[name] !== undefined &&
      String(a[0]) === String(goldenConfiguration[name]),
  )

/** How answers of a server are compared with the golden ones. */
export interface Comparison {
  readonly bits: Bits
  readonly configuration: Configuration
  /**
   * Tolerances of the user that replace the default of the precision: for all numbers, and by path.
   */
  readonly tolerance?: number
  toleranceAt?(path: string): number | undefined
  /**
   * Every field of the result comes from the model, as with tensors. Otherwise some may describe
   * the server (its version, its device), and are not compared.
   */
  readonly isResultFromModelOnly: boolean
}

/** A path at which an answer differs from the golden one. */
interface Difference {
  /** Description with both values. */
  readonly description: string
  /**
   * Numbers differ beyond the tolerance, which is a fault even once. Otherwise a label, text or
   * integer differs, which rounding may cause in a few answers.
   */
  readonly isBeyondTolerance: boolean
}

const chooseFewerBits = (golden: GoldenAnswers, { bits }: Comparison): Bits =>
  Math.min(bits, golden.bits) as Bits

/** Counts how many of these answers may have another label, text or integer: see `Tolerance`. */
export function countAllowedDifferences(
  golden: GoldenAnswers,
  comparison: Comparison,
  answers: number,
  generated: boolean,
): number {
  const bits = chooseFewerBits(golden, comparison)
  if (!generated) return Math.floor(tolerances[bits].requests * answers)
  // Only the first word of a generated text is compared, and rounding often changes it. With few
  // bits, one equal answer is enough.
  return bits < 16 ? answers - 1 : Math.floor(answers / 2)
}

/**
 * Compares an answer with the golden one for the same request. Undefined where they match, or where
 * there is no golden answer.
 */
export function findDifference(
  golden: GoldenAnswers,
  body: number,
  answer: ParsedAnswer,
  comparison: Comparison,
): Difference | undefined {
  const leaves = golden.answers.find((goldenAnswer) => goldenAnswer.body === body)?.leaves
  if (leaves === undefined) return undefined
  const { configuration, isResultFromModelOnly, tolerance, toleranceAt } = comparison
  const actual = extractLeaves(answer)
  for (const path of unionPaths(leaves, actual)) {
    const [a = [], b = []] = [leaves[path], actual[path]]
    if (golden.random.includes(path)) continue
    if (
      !isResultFromModelOnly &&
      (describesServer(path) || repeatsParameter(a, b, configuration, golden.configuration))
    )
      continue
    const userTolerance = toleranceAt?.(path) ?? tolerance
    const scale = findMaxMagnitude(
      golden.answers.map((goldenAnswer) => goldenAnswer.leaves),
      path,
    )
    const mustBeEqual = userTolerance === undefined && areLabels(a, b)
    const relative = userTolerance ?? tolerances[chooseFewerBits(golden, comparison)].number
    if (!areClose(a, b, mustBeEqual ? 0 : relative * scale))
      return { description: describeDifference(body, path, a, b), isBeyondTolerance: !mustBeEqual }
  }
  return undefined
}

/** Whether two lists have equal texts, and numbers that differ by at most `maxDifference`. */
export function areClose(
  a: readonly unknown[],
  b: readonly unknown[],
  maxDifference: number,
): boolean {
  const isClose = (x: unknown, y: unknown) =>
    typeof x === 'number' && typeof y === 'number'
      ? Math.abs(x - y) <= maxDifference
      : String(x) === String(y)
  return a.length === b.length && a.every((value, i) => isClose(value, b[i]))
}

const describeDifference = (
  body: number,
  path: string,
  expected: readonly unknown[],
  actual: readonly unknown[],
): string => {
  const firstDifferent = Math.max(
    0,
    expected.findIndex((value, i) => String(value) !== String(actual[i])),
  )
  return `request ${body}, ${path || 'the answer'}: ${formatValues(actual, firstDifferent)} in place of ${formatValues(expected, firstDifferent)}`
}

/** Formats four values, from the first different one. */
export function formatValues(values: readonly unknown[], from = 0): string {
  if (values.length === 0) return 'nothing'
  const start = Math.min(from, Math.max(0, values.length - 1))
  const part = values
    .slice(start, start + 4)
    .map((value) => (typeof value === 'number' ? Number(value.toPrecision(4)) : value))
  const text = JSON.stringify(part.length === 1 ? part[0] : part) ?? 'nothing'
  return `${text.length > 120 ? `${text.slice(0, 117)}...` : text}${start > 0 ? ` (from value ${start})` : ''}`
}

/**
 * Detects the fewest bits named by any of values such as 'fp16', 'int8', 'awq', 'Q4_K_M'; 32 where
 * none does.
 */
export function detectBits(values: readonly (string | number | undefined)[]): Bits {
  const texts = values.filter((value) => typeof value === 'string')
  const matchesAny = (pattern: RegExp) => texts.some((text) => pattern.test(text))
  if (
    matchesAny(
      /(^|[^a-z\d])(u?int4|fp4|nf4|mxfp4|w4a\d+|awq|gptq|4-?bit|i?q[2-5](_\w+)?)($|[^a-z\d])/i,
    )
  )
    return 4
  if (
    matchesAny(
      /(^|[^a-z\d])(u?int8|fp8(_\w+)?|float8(_\w+)?|w8a\d+|8-?bit|bitsandbytes|q[68](_\w+)?)($|[^a-z\d])/i,
    )
  )
    return 8
  return matchesAny(/(^|[^a-z\d])(t?fp16|float16|half|bf16|bfloat16|f16)($|[^a-z\d])/i) ? 16 : 32
}
