/**
 * Golden answers: those of the first configuration, with which the answers of every other one are
 * compared. A server with a batching bug or badly quantised weights is as fast as a correct one,
 * and would win.
 *
 * Parts that differ between repetitions of a request (sampled texts, ids, times) are detected by
 * repeating it, and left out. So are parts about the server rather than the request (its port,
 * process, settings).
 */
import { createHash } from 'node:crypto'
import { isRecord } from '../plain-record.ts'
import type { Answered } from './protocol.ts'

/** Scalars of a document by path, those of a list in order: 'outputs[].data[]' → [0.1, 0.9]. */
type Leaves = Readonly<Record<string, readonly unknown[]>>

type Values = Readonly<Record<string, number | string>>

/** JSON-safe. */
export interface GoldenAnswers {
  /** Origin in words: 'trial 1'. */
  readonly of: string
  readonly bits: Bits
  /** Their configuration. */
  readonly configuration: Values
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

/** Values stored of a longer list, evenly from start to end. */
const maxStoredValues = 2_048
const maxPaths = 1_000
/** Characters stored of a longer text, with a hash of the rest. */
const maxStoredCharacters = 2_048
const digestOf = (text: string): string =>
  `${text.slice(0, 80)}... (${text.length} characters, sha256 ${createHash('sha256').update(text).digest('hex').slice(0, 16)})`

function leavesOf({ result, generated }: Pick<Answered, 'result' | 'generated'>): Leaves {
  if (generated) return { text: [firstWord(String(result))] }
  const leaves: Record<string, unknown[]> = {}
  gather(result, '', leaves)
  return Object.fromEntries(Object.entries(leaves).map(([path, values]) => [path, thinned(values)]))
}

/** All scalars of an answer, in order. */
export const valuesOf = (answer: Pick<Answered, 'result'>): readonly unknown[] =>
  Object.values(leavesOf(answer)).flat()

const firstWord = (text: string): string => text.trim().split(/\s+/, 1)[0]!.slice(0, 40)

function gather(value: unknown, path: string, leaves: Record<string, unknown[]>): void {
  if (Array.isArray(value)) {
    for (const one of value) gather(one, `${path}[]`, leaves)
    return
  }
  if (isRecord(value)) {
    for (const [key, inner] of Object.entries(value))
      gather(inner, path === '' ? key : `${path}.${key}`, leaves)
    return
  }
  if (leaves[path] === undefined) {
    if (Object.keys(leaves).length === maxPaths) return
    leaves[path] = []
  }
  leaves[path].push(value)
}

/** The length comes first, as a longer list is another answer. */
function thinned(all: readonly unknown[]): readonly unknown[] {
  const values = all.map((value) =>
    typeof value === 'string' && value.length > maxStoredCharacters ? digestOf(value) : value,
  )
  if (values.length <= maxStoredValues) return values
  const step = values.length / maxStoredValues
  return [
    `${values.length} values`,
    ...Array.from({ length: maxStoredValues }, (_, i) => values[Math.floor(i * step)]),
  ]
}

/**
 * @param rounds answers of one server to the same requests, round after round; undefined for a bad
 * answer
 * @param bodies indices of the requests
 */
export function goldenOf(
  giver: Pick<GoldenAnswers, 'of' | 'bits' | 'configuration'>,
  bodies: readonly number[],
  rounds: readonly (readonly (Answered | undefined)[])[],
): GoldenAnswers {
  const [first = [], ...others] = rounds.map((round) =>
    round.map((answer) => answer && leavesOf(answer)),
  )
  const random = new Set<string>()
  const same = (a: readonly unknown[], b: readonly unknown[], most: number) =>
    near(a, b, areNames(a, b) ? 0 : most)
  for (const other of others)
    for (const [i, leaves] of other.entries()) {
      const known = first[i]
      if (known === undefined || leaves === undefined) continue
      for (const path of pathsOf(known, leaves))
        if (
          !same(
            known[path] ?? [],
            leaves[path] ?? [],
            tolerances[giver.bits].number * scaleOf(first, path),
          )
        )
          random.add(path)
    }
  const answers = bodies.flatMap((body, i) =>
    first[i] === undefined ? [] : [{ body, leaves: first[i] }],
  )
  return { ...giver, answers, random: [...random] }
}

const pathsOf = (a: Leaves, b: Leaves): Set<string> =>
  new Set([...Object.keys(a), ...Object.keys(b)])

/** Largest number at a path over all answers. */
function scaleOf(answers: readonly (Leaves | undefined)[], path: string): number {
  let most = 0
  for (const leaves of answers)
    for (const value of leaves?.[path] ?? [])
      if (typeof value === 'number') most = Math.max(most, Math.abs(value))
  return most
}

/** Integers on both sides are names (labels, tokens, counts), unless the user gives a tolerance. */
const areNames = (a: readonly unknown[], b: readonly unknown[]): boolean =>
  [...a, ...b].every((value) => typeof value !== 'number' || Number.isInteger(value))

/** Field names that describe the server rather than the request. */
const ofTheServer =
  /^(id|uid|uuid|pid|port|host(name)?|node|pod|server|worker|thread|process|replica|instance|device|gpus?|cores?|cpus?|threads?|batch(_?size|es)?|max_?batch.*|arg(ument|v|)s?|env|config|settings|version|build|commit|precision|dtype|quanti[sz]ation|trial|model(_?(name|version|path))?|created(_?at)?|time(stamp)?|uptime|now|latency|duration|elapsed|took|counter|request_?id|headers?|.*_(ms|us|ns|at|time|seconds))$/i

const saysOfServer = (path: string): boolean =>
  path.split('.').some((name) => ofTheServer.test(name.replace(/(\[\])+$/, '')))

/** Whether both answers repeat the same parameter of their configurations. */
const repeatsParameter = (
  a: readonly unknown[],
  b: readonly unknown[],
  mine: Values,
  theirs: Values,
): boolean =>
  Object.entries(mine).some(
    ([name, value]) =>
      a.length === 1 &&
      b.length === 1 &&
      String(b[0]) === String(value) &&
      theirs[name] !== undefined &&
      String(a[0]) === String(theirs[name]),
  )

/** The server that answers, and its tolerances. */
export interface Comparison {
  readonly bits: Bits
  readonly configuration: Values
  /**
   * Tolerances of the user that replace the default of the precision: for all numbers, and by path.
   */
  readonly tolerance?: number
  toleranceAt?(path: string): number | undefined
  /**
   * The whole result comes from the model, as tensors do. Else it may hold facts about the server.
   */
  readonly tensors: boolean
}

/** A path at which an answer differs from the golden one. */
interface Difference {
  readonly shown: string
  /** Numbers differ beyond the tolerance. */
  readonly far: boolean
}

const fewerBits = (golden: GoldenAnswers, { bits }: Comparison): Bits =>
  Math.min(bits, golden.bits) as Bits

/** Number of these answers that may have another label, text or integer. */
export function maxDifferentRequests(
  golden: GoldenAnswers,
  comparison: Comparison,
  answers: number,
  generated: boolean,
): number {
  const bits = fewerBits(golden, comparison)
  if (!generated) return Math.floor(tolerances[bits].requests * answers)
  return bits < 16 ? answers - 1 : Math.floor(answers / 2)
}

/** Undefined: the answer matches the golden one for that request, or there is none. */
export function differenceFrom(
  golden: GoldenAnswers,
  body: number,
  answer: Answered,
  comparison: Comparison,
): Difference | undefined {
  const leaves = golden.answers.find((one) => one.body === body)?.leaves
  return leaves && differenceOf(golden, leaves, answer, body, comparison)
}

function differenceOf(
  golden: GoldenAnswers,
  leaves: Leaves,
  answer: Answered,
  body: number,
  comparison: Comparison,
): Difference | undefined {
  const { configuration, tensors, tolerance, toleranceAt } = comparison
  const got = leavesOf(answer)
  for (const path of pathsOf(leaves, got)) {
    const [a = [], b = []] = [leaves[path], got[path]]
    if (golden.random.includes(path)) continue
    if (
      !tensors &&
      (saysOfServer(path) || repeatsParameter(a, b, configuration, golden.configuration))
    )
      continue
    const own = toleranceAt?.(path) ?? tolerance
    const scale = scaleOf(
      golden.answers.map((one) => one.leaves),
      path,
    )
    const names = own === undefined && areNames(a, b)
    if (!near(a, b, names ? 0 : (own ?? tolerances[fewerBits(golden, comparison)].number) * scale))
      return { shown: shown(body, path, a, b), far: !names }
  }
  return undefined
}

/** @param most largest difference of two numbers */
function near(a: readonly unknown[], b: readonly unknown[], most: number): boolean {
  const alike = (x: unknown, y: unknown) =>
    typeof x === 'number' && typeof y === 'number'
      ? Math.abs(x - y) <= most
      : String(x) === String(y)
  return a.length === b.length && a.every((value, i) => alike(value, b[i]))
}

const shown = (
  body: number,
  path: string,
  expected: readonly unknown[],
  got: readonly unknown[],
): string => {
  const at = Math.max(
    0,
    expected.findIndex((value, i) => String(value) !== String(got[i])),
  )
  return `request ${body}, ${path || 'the answer'}: ${brief(got, at)} in place of ${brief(expected, at)}`
}

/** Four values from the first different one. */
function brief(values: readonly unknown[], from: number): string {
  if (values.length === 0) return 'nothing'
  const start = Math.min(from, Math.max(0, values.length - 1))
  const part = values
    .slice(start, start + 4)
    .map((value) => (typeof value === 'number' ? Number(value.toPrecision(4)) : value))
  const text = JSON.stringify(part.length === 1 ? part[0] : part) ?? 'nothing'
  return `${text.length > 120 ? `${text.slice(0, 117)}...` : text}${start > 0 ? ` (from value ${start})` : ''}`
}

/**
 * Fewest bits named by any of values such as 'fp16', 'int8', 'awq', 'Q4_K_M'; 32 where none does.
 */
export function bitsOf(values: readonly (string | number | undefined)[]): Bits {
  const texts = values.filter((value) => typeof value === 'string')
  const says = (pattern: RegExp) => texts.some((text) => pattern.test(text))
  if (
    says(/(^|[^a-z\d])(u?int4|fp4|nf4|mxfp4|w4a\d+|awq|gptq|4-?bit|i?q[2-5](_\w+)?)($|[^a-z\d])/i)
  )
    return 4
  if (
    says(
      /(^|[^a-z\d])(u?int8|fp8(_\w+)?|float8(_\w+)?|w8a\d+|8-?bit|bitsandbytes|q[68](_\w+)?)($|[^a-z\d])/i,
    )
  )
    return 8
  return says(/(^|[^a-z\d])(t?fp16|float16|half|bf16|bfloat16|f16)($|[^a-z\d])/i) ? 16 : 32
}
