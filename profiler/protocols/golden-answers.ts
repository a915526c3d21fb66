/**
 * Golden answers: what the first configuration answered, to hold the answers of every other one
 * against. A batching bug, or weights that were quantised badly, answer as fast as a server that is
 * right, and would win.
 *
 * What a server answers otherwise each time that it is asked the same (sampled texts, ids, times)
 * is found by asking it several times, and left out; so is what tells of the server and not of the
 * request (its port, its process, its settings).
 */
import { createHash } from 'node:crypto'
import { isRecord } from '../plain-record.ts'
import type { Answered } from './protocol.ts'

/**
 * The scalars of a document by path, those of a list one after another: 'outputs[].data[]' → [0.1,
 * 0.9].
 */
type Leaves = Readonly<Record<string, readonly unknown[]>>

type Values = Readonly<Record<string, number | string>>

/** JSON-safe. */
export interface GoldenAnswers {
  /** Whose they are, in words: 'trial 1'. */
  readonly of: string
  readonly bits: Bits
  /** The configuration that gave them. */
  readonly configuration: Values
  readonly answers: readonly { readonly body: number; readonly leaves: Leaves }[]
  /** Paths at which the same request was answered otherwise the next time. */
  readonly random: readonly string[]
}

/** How exact numbers are: bits of the arithmetic or the weights, the fewer of the two. */
export type Bits = 32 | 16 | 8 | 4

interface Tolerance {
  /** Of the largest number at the same place. */
  readonly number: number
  /**
   * Of the requests, that may have another label, text or whole number: two that are nearly as
   * likely change places by rounding.
   */
  readonly requests: number
}

/** A share that a user gave stands in place of `number`. */
const tolerances: Readonly<Record<Bits, Tolerance>> = {
  32: { number: 0.01, requests: 0.25 },
  16: { number: 0.05, requests: 0.25 },
  8: { number: 0.2, requests: 0.5 },
  4: { number: 0.3, requests: 0.5 },
}

/** Of a longer list so many are kept, from its beginning to its end. */
const mostKept = 2_048
const mostPaths = 1_000
/** Of a longer text its beginning is kept, with what tells it from others. */
const mostLetters = 2_048
const digestOf = (text: string): string =>
  `${text.slice(0, 80)}... (${text.length} characters, sha256 ${createHash('sha256').update(text).digest('hex').slice(0, 16)})`

function leavesOf({ result, generated }: Pick<Answered, 'result' | 'generated'>): Leaves {
  if (generated) return { text: [firstWord(String(result))] }
  const leaves: Record<string, unknown[]> = {}
  gather(result, '', leaves)
  return Object.fromEntries(Object.entries(leaves).map(([path, values]) => [path, thinned(values)]))
}

/** All scalars of an answer, in their order. */
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
    if (Object.keys(leaves).length === mostPaths) return
    leaves[path] = []
  }
  leaves[path].push(value)
}

/** The count stands in front: a list that is longer is another answer. */
function thinned(all: readonly unknown[]): readonly unknown[] {
  const values = all.map((value) =>
    typeof value === 'string' && value.length > mostLetters ? digestOf(value) : value,
  )
  if (values.length <= mostKept) return values
  const step = values.length / mostKept
  return [
    `${values.length} values`,
    ...Array.from({ length: mostKept }, (_, i) => values[Math.floor(i * step)]),
  ]
}

/**
 * @param rounds answers of one server to the same requests, asked one round after another;
 * undefined where it did not answer well
 * @param bodies the requests' numbers
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

/** The largest number at a path of any answer. */
function scaleOf(answers: readonly (Leaves | undefined)[], path: string): number {
  let most = 0
  for (const leaves of answers)
    for (const value of leaves?.[path] ?? [])
      if (typeof value === 'number') most = Math.max(most, Math.abs(value))
  return most
}

/**
 * Whole numbers on both sides are names of something (labels, tokens, counts), unless the user says
 * how far they may be apart.
 */
const areNames = (a: readonly unknown[], b: readonly unknown[]): boolean =>
  [...a, ...b].every((value) => typeof value !== 'number' || Number.isInteger(value))

/** What a name of a field says of the server rather than of the request. */
const ofTheServer =
  /^(id|uid|uuid|pid|port|host(name)?|node|pod|server|worker|thread|process|replica|instance|device|gpus?|cores?|cpus?|threads?|batch(_?size|es)?|max_?batch.*|arg(ument|v|)s?|env|config|settings|version|build|commit|precision|dtype|quanti[sz]ation|trial|model(_?(name|version|path))?|created(_?at)?|time(stamp)?|uptime|now|latency|duration|elapsed|took|counter|request_?id|headers?|.*_(ms|us|ns|at|time|seconds))$/i

const saysOfServer = (path: string): boolean =>
  path.split('.').some((name) => ofTheServer.test(name.replace(/(\[\])+$/, '')))

/** Whether both answers repeat what the same parameter is in the configuration of each. */
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

/** Who answers now, and how far from the golden answers it may be. */
export interface Comparison {
  readonly bits: Bits
  readonly configuration: Values
  /** The user's, in place of the precision's: of all numbers, and of those at a path. */
  readonly tolerance?: number
  toleranceAt?(path: string): number | undefined
  /** The whole result is the model's: tensors. Else its server may tell of itself in it. */
  readonly tensors: boolean
}

/** One place of one answer that is another than the golden one. */
interface Difference {
  readonly shown: string
  /** Of numbers that may be a little apart, and are not. */
  readonly far: boolean
}

const fewerBits = (golden: GoldenAnswers, { bits }: Comparison): Bits =>
  Math.min(bits, golden.bits) as Bits

/** Of so many answers, that may have another label, text or whole number. */
export function mostOthers(
  golden: GoldenAnswers,
  comparison: Comparison,
  answers: number,
  generated: boolean,
): number {
  const bits = fewerBits(golden, comparison)
  if (!generated) return Math.floor(tolerances[bits].requests * answers)
  return bits < 16 ? answers - 1 : Math.floor(answers / 2)
}

/** Undefined: the answer is like the golden one to that request, or there is none. */
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

/** @param most that two numbers may be apart */
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

/** Four values from the first that is another one. */
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
 * Of values such as 'fp16', 'int8', 'awq', 'Q4_K_M' the fewest bits that any names; 32 where none
 * does.
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
