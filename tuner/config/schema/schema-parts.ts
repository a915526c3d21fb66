/**
 * What the schema of the experiment file is made of: quantities, texts and choices, each with an
 * error that says what was expected.
 */
import { z } from 'zod'
import {
  parseCount,
  parseDurationMs,
  parseMoney,
  parseRateRps,
  parseShare,
  UnitError,
} from '../units.ts'

/**
 * Text or number in, whatever `parse` makes of it out; its UnitError becomes an issue with a hint.
 */
export function quantity<T>(parse: (input: string | number) => T, what: string) {
  return z
    .union([z.string(), z.number()], { error: `expected ${what}` })
    .transform((input, context): T => {
      try {
        return parse(input)
      } catch (error) {
        if (!(error instanceof UnitError)) throw error
        context.addIssue({ code: 'custom', message: error.message, params: { hint: error.hint } })
        return z.NEVER
      }
    })
    .describe(what)
}

/**
 * A text of its own small language, or the long form. The long form's schema validates what the
 * short one was read as.
 */
export const text = (what: string) =>
  z.string({ error: `expected ${what}` }).min(1, { error: `expected ${what}, found an empty text` })
export const choice = <const T extends readonly [string, ...string[]]>(names: T, what: string) =>
  z.enum(names, { error: `expected ${what}: ${names.join(', ')}` })

export const duration = quantity(parseDurationMs, 'a duration such as 50ms, 2s, 10m')
export const rate = quantity(parseRateRps, 'a rate such as 500 rps')
export const share = quantity(parseShare, 'a share such as 20% or 0.2')
export const money = quantity(parseMoney, 'an amount of money such as $5')
export const count = (least: number, what: string) =>
  quantity((input) => parseCount(input, least), `${what}, a whole number of at least ${least}`)
