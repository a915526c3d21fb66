/**
 * Building blocks of the schema: quantities, texts, paths and choices. Each decodes the written
 * form and encodes it again; errors say what was expected.
 */
import { isAbsolute, resolve } from 'node:path'
import { z } from 'zod'
import {
  formatDuration,
  formatShare,
  parseCount,
  parseDurationMs,
  parseMoney,
  parseRateRps,
  parseShare,
  UnitError,
} from '../values/units.ts'

/**
 * Creates a codec between a written form and its value.
 * @param read may throw a UnitError, which becomes an issue with a hint
 * @param write encodes the value; undefined if this form cannot express it, so that the union tries
 * its next form. Absent: this form is never written
 */
export function createCodec<I extends z.ZodType, T>(
  written: I,
  read: (given: z.output<I>) => T,
  write?: (value: T) => z.output<I> | undefined,
) {
  return z.codec(written, z.custom<T>(), {
    decode: (given, payload): T => {
      try {
        return read(given)
      } catch (error) {
        if (!(error instanceof UnitError)) throw error
        const { message, hint } = error
        payload.issues.push({ code: 'custom', input: given, message, params: { hint } })
        return z.NEVER
      }
    },
    encode: (value, payload): z.output<I> => {
      const text = write?.(value)
      if (text === undefined)
        payload.issues.push({ code: 'custom', input: value, message: 'has a longer form' })
      return text as z.output<I>
    },
  })
}

/** A text or number as `parse` reads it. */
export const createQuantity = <T>(
  parse: (input: string | number) => T,
  what: string,
  write?: (value: T) => string | number | undefined,
) =>
  createCodec(
    z.union([z.string(), z.number()], { error: `expected ${what}` }),
    parse,
    write,
  ).describe(what)

/** A text; numbers and booleans are read as the text that they were written as. */
export const scalarText = z.union([
  z.string(),
  createCodec(z.number(), (given) => String(given)),
  createCodec(z.boolean(), (given) => String(given)),
])
/** A text or a number. */
export const numberText = z.union([z.string(), createCodec(z.number(), (given) => String(given))])

/** An optional key with its description in the reference. */
export const optional = <S extends z.ZodType>(schema: S, what: string) =>
  schema.optional().describe(what)

export const text = (what: string) =>
  z.string({ error: `expected ${what}` }).min(1, { error: `expected ${what}, found an empty text` })
export const number = z.number({ error: 'expected a number' })
export const boolean = z.boolean({ error: 'expected true or false' })
export const choice = <const T extends readonly [string, ...string[]]>(names: T, what: string) =>
  z.enum(names, { error: `expected ${what}: ${names.join(', ')}` })

export const duration = createQuantity(
  parseDurationMs,
  'a duration such as 50ms, 2s, 10m',
  formatDuration,
)
export const rate = createQuantity(parseRateRps, 'a rate such as 500 rps', (rps) => `${rps} rps`)
export const share = createQuantity(parseShare, 'a share such as 20% or 0.2', formatShare)
export const money = createQuantity(parseMoney, 'an amount of money such as $5', (usd) => `$${usd}`)
export const count = (min: number, what: string) =>
  createQuantity(
    (input) => parseCount(input, min),
    `${what}, a whole number of at least ${min}`,
    (value) => value,
  )

/**
 * zod compiles parsers by default, which takes longer than reading the few documents of a process.
 */
export const parseOnce = { jitless: true } as const

/** Folder that relative paths start from while `withBaseFolder` runs. */
let baseFolder = '/'

/** Runs a decoder of the schema; relative paths start from the folder. */
export function withBaseFolder<T>(folder: string, read: () => T): T {
  const before = baseFolder
  baseFolder = folder
  try {
    return read()
  } finally {
    baseFolder = before
  }
}

/** Makes a path absolute. */
export const absolutePath = (path: string): string =>
  isAbsolute(path) ? path : resolve(baseFolder, path)

/** @param isName whether a text names something other than a file */
export const path = (what: string, isName: (text: string) => boolean = () => false) =>
  createCodec(
    text(what),
    (given) => (isName(given) ? given : absolutePath(given)),
    (value) => value,
  )
