/** Parses the prompt lengths of `load.payload`, and resolves the prompts. */

import type { LengthDistribution, PromptSpec } from '../../../profiler/prompt-spec.ts'
import { UnitError } from './units.ts'

const hint =
  'write 512, 100..500 (uniform), normal:512,128 (mean, deviation) or lognormal:120,0.9 (median, sigma)'

/** '512', '100..500', 'normal:512,128', 'lognormal:120,0.9'; throws a UnitError. */
export function parseLengths(input: string | number): LengthDistribution {
  const text = String(input).trim()
  const whole = (value: string | undefined): number | undefined =>
    value !== undefined && /^[1-9]\d*$/.test(value.trim()) ? Number(value) : undefined
  const fixed = whole(text)
  if (fixed !== undefined) return { kind: 'fixed', tokens: fixed }
  const [from, to, ...more] = text.split('..').map(whole)
  if (from !== undefined && to !== undefined && more.length === 0 && from <= to)
    return { kind: 'uniform', from, to }
  const [, kind, first, second] = /^(normal|lognormal):\s*([\d.]+)\s*,\s*([\d.]+)$/.exec(text) ?? []
  const [a, b] = [Number(first), Number(second)]
  if (kind !== undefined && a > 0 && b >= 0)
    return kind === 'normal'
      ? { kind, mean: a, deviation: b }
      : { kind: 'lognormal', median: a, sigma: b }
  throw new UnitError(`'${input}' is not a length in tokens`, hint)
}

/** Inverse of `parseLengths`. */
export function formatLengths(lengths: LengthDistribution): string {
  switch (lengths.kind) {
    case 'fixed':
      return String(lengths.tokens)
    case 'uniform':
      return `${lengths.from}..${lengths.to}`
    case 'normal':
      return `normal:${lengths.mean},${lengths.deviation}`
    case 'lognormal':
      return `lognormal:${lengths.median},${lengths.sigma}`
  }
}

/** Keys of `load.payload` that are about prompts. */
interface PromptEntries {
  readonly inputTokens?: LengthDistribution
  readonly outputTokens?: LengthDistribution
  readonly sharedPrefixTokens?: number
  readonly prefixes?: number
  readonly turns?: LengthDistribution
  readonly conversations?: number
  readonly ignoreEos?: boolean
  /** Path of a tokenizer.json. */
  readonly tokenizer?: string
  /** Path of a file of lengths. */
  readonly lengths?: string
}

const promptKeys = [
  'inputTokens',
  'outputTokens',
  'sharedPrefixTokens',
  'prefixes',
  'turns',
  'conversations',
  'ignoreEos',
  'tokenizer',
] as const

/**
 * Prompts by the given keys, with chat-like lengths by default, as in the profiler. Undefined if
 * none of them is set.
 */
export function resolvePrompts(
  given: PromptEntries,
  { recorded, classes, file }: Pick<PromptSpec, 'recorded' | 'classes' | 'file'> = {},
): PromptSpec | undefined {
  const none = recorded === undefined && classes === undefined && file === undefined
  if (none && promptKeys.every((key) => given[key] === undefined)) return undefined
  const set = promptKeys.filter((key) => given[key] !== undefined)
  return {
    inputTokens: { kind: 'lognormal', median: 120, sigma: 0.9 },
    outputTokens: { kind: 'lognormal', median: 160, sigma: 0.7 },
    ...Object.fromEntries(set.map((key) => [key, given[key]])),
    ...(recorded && { recorded }),
    ...(classes && { classes }),
    ...(file !== undefined && { file }),
  }
}
