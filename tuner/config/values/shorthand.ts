/**
 * Short forms of parameter values: '1..32', '1..9 step 2', '1..64 x2', '1, 2, 4', 'T4, V100', 8.
 */
import { UnitError } from './units.ts'

/** Listed values, or a range. */
export interface ValueDomain {
  readonly values?: readonly (number | string)[]
  readonly min?: number
  readonly max?: number
  readonly step?: number
  readonly factor?: number
}

const numberPattern = String.raw`[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?`
const rangePattern = new RegExp(
  String.raw`^\s*(${numberPattern})\s*(%?)\s*\.\.\s*(${numberPattern})\s*%?\s*(?:(step|x|\*)\s*(${numberPattern}))?\s*$`,
  'i',
)

/**
 * Parses a short form. A range without step or factor keeps only its ends; the parameter determines
 * the values between (powers of two for batchSize, otherwise whole numbers).
 * @throws UnitError for an empty list, a range the wrong way round, a step that is not above 0 or a
 * factor not above 1.
 */
export function parseShorthand(input: string | number): ValueDomain {
  if (typeof input === 'number') {
    if (!Number.isFinite(input)) throw new UnitError(`${input} is not a number`, rangeHint)
    return { values: [input] }
  }
  const range = rangePattern.exec(input)
  if (range)
    return readRange(
      input,
      Number(range[1]),
      Number(range[3]),
      range[4]?.toLowerCase(),
      Number(range[5]),
    )
  if (input.includes('..')) throw new UnitError(`'${input}' is not a range`, rangeHint)
  const values = input
    .split(',')
    .map((value) => value.trim())
    .filter((value) => value !== '')
  if (values.length === 0) throw new UnitError('no values', rangeHint)
  return { values: values.map(parseNumber) }
}

const rangeHint = "write a range such as 1..32, '1..9 step 2', '1..64 x2', or a list such as 1,2,4"

function readRange(
  input: string,
  min: number,
  max: number,
  word: string | undefined,
  by: number,
): ValueDomain {
  if (min > max) throw new UnitError(`'${input}' is in descending order`, `write ${max}..${min}`)
  if (word === 'step' && !(by > 0))
    throw new UnitError(`the step of '${input}' must be more than 0`, rangeHint)
  if ((word === 'x' || word === '*') && !(by > 1))
    throw new UnitError(`the factor of '${input}' must be more than 1`, rangeHint)
  if (word === 'step') return { min, max, step: by }
  return word ? { min, max, factor: by } : { min, max }
}

/** '8' → 8, '1e3' → 1000, 'T4' → 'T4', '0x10' → '0x10'. */
export function parseNumber(value: string): number | string {
  return new RegExp(`^${numberPattern}$`, 'i').test(value) ? Number(value) : value
}

/** min, min × factor, ... up to max, and max itself. */
export function listGeometricValues(min: number, max: number, factor: number): number[] {
  const values: number[] = []
  for (let value = min; value < max * (1 - 1e-9) && values.length < 10_000; value *= factor)
    values.push(Number(value.toPrecision(12)))
  return [...values, max]
}

/** Powers of two within [min, max], and both ends. */
export function listPowersOfTwo(min: number, max: number): number[] {
  const values = new Set([min])
  for (let value = 1; value < max; value *= 2) if (value > min) values.add(value)
  return [...values.add(max)]
}
