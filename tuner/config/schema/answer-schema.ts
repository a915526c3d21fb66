/**
 * Schema of `expect` and `golden`: which answers are correct. Golden answers are reference answers,
 * of the first trial or of a file.
 */
import { z } from 'zod'
import { createCodec, number, optional, path, share } from './schema-parts.ts'

const expected = z.strictObject({
  value: optional(
    z.unknown(),
    'expected value: a number, a text, a list, or an object whose listed entries must match',
  ),
  tolerance: optional(
    number.nonnegative({ error: 'must not be negative' }),
    'allowed deviation of numbers from the value; without a value, allowed deviation from the golden answers, as a share of the largest number',
  ),
})
type ExpectedEntry = z.output<typeof expected>
const isPlain = (value: unknown): boolean =>
  typeof value !== 'object' || value === null || Array.isArray(value)
export const expectation = z.union(
  [createCodec(z.unknown().refine(isPlain), (value): ExpectedEntry => ({ value })), expected],
  { error: 'expected a value, or {value, tolerance}' },
)
const goldenFrom = path('first, off or a path', (from) => from === 'first' || from === 'off')
const goldenKeys = z.strictObject({
  from: optional(
    goldenFrom,
    'first, off, or a JSON Lines file of complete answers, relative to this file',
  ),
  tolerance: optional(
    share,
    'allowed deviation of numbers, as a share of the largest; default by precision: fp32 1%, fp16 5%, int8 20%, 4 bits 30%',
  ),
})
type GoldenEntry = z.output<typeof goldenKeys>
export const golden = z.union(
  [createCodec(goldenFrom, (from): GoldenEntry => ({ from })), goldenKeys],
  {
    error: 'expected first, off, a path, or {from, tolerance}',
  },
)
