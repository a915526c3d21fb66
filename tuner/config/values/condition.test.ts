import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ConditionError, type ConditionNames, parseCondition } from './condition.ts'

const names: ConditionNames = new Map<string, 'number' | readonly string[]>([
  ['batchSize', 'number'],
  ['queueLimit', 'number'],
  ['max-num-seqs', 'number'],
  ['gpu', ['T4', 'V100', 'A100-40GB']],
])
const configuration = { batchSize: 8, queueLimit: 4, 'max-num-seqs': 16, gpu: 'T4' }
const holds = (text: string) => parseCondition(text, names).holds(configuration)
const failure = (text: string): ConditionError => {
  try {
    parseCondition(text, names)
  } catch (error) {
    if (error instanceof ConditionError) return error
    throw error
  }
  throw new Error(`'${text}' was accepted`)
}

describe('what holds', () => {
  test.each([
    ['batchSize <= queueLimit', false],
    ['batchSize > queueLimit', true],
    ['batchSize = 8', true],
    ['batchSize == 2 * queueLimit', true],
    ['batchSize - queueLimit - 1 == 3', true],
    ['batchSize / queueLimit / 2 == 1', true],
    ['2 + 3 * 2 == 8', true],
    ['(2 + 3) * 2 == 10', true],
    ['-batchSize < 0', true],
    ['batchSize % 3 == 2', true],
    ['1 <= batchSize <= 8', true],
    ['1 <= batchSize < 8', false],
    ["gpu == 'T4'", true],
    ['gpu == "V100"', false],
    ['gpu == T4', true],
    ["gpu != 'A100-40GB'", true],
    ["gpu in ['T4', 'V100']", true],
    ["gpu not in ['T4', 'V100']", false],
    ['batchSize in [1, 2, 4]', false],
    ['not batchSize > 100', true],
    ['! (batchSize > 1)', false],
    ["gpu == 'V100' or batchSize == 8 and queueLimit == 4", true],
    ["(gpu == 'V100' or batchSize == 8) and queueLimit == 5", false],
    ["gpu == 'V100' || batchSize == 8 && not queueLimit == 5", true],
    ['`max-num-seqs` >= 16', true],
    ['batchSize / 0 > 1e300', true],
    ['.5 < 1', true],
  ])('%s: %s', (text, expected) => expect(holds(text)).toBe(expected))
})

describe('what is refused, and where', () => {
  test.each([
    ['', 0, 'the condition is empty'],
    ['batchSize <=', 12, 'the condition is incomplete'],
    ['batchSize <= qeueLimit', 13, "'qeueLimit' is not a parameter"],
    ['batchSize <= queueLimit queueLimit', 24, "unexpected 'queueLimit'"],
    ['batchSize', 0, 'expected a comparison, found a number'],
    ['gpu > 3', 4, "'>' compares a string with a number"],
    ["gpu > 'T4'", 4, "'>' needs numbers"],
    ["gpu + 1 == 'T4'", 0, 'expected a number, found a text'],
    ['batchSize and queueLimit', 0, 'expected a comparison, found a number'],
    ['(batchSize > 1', 14, "')' is missing"],
    ["gpu == 'T4", 7, 'a quote is not closed'],
    ['batchSize > 1; process.exit()', 13, "unexpected ';'"],
    ['gpu not T4', 4, "'not' without 'in'"],
    ['gpu in []', 8, "unexpected ']'"],
    ['batchSize ** 2 > 1', 11, "unexpected '*'"],
    ["constructor == 'x'", 0, "'constructor' is not a parameter"],
  ])('%j', (text, offset, message) => {
    const error = failure(text)
    expect(error.message).toBe(message)
    expect(error.offset).toBe(offset)
  })

  test('a name that is nearly right is suggested', () =>
    expect(failure('batchSize <= qeueLimit').hint).toBe('did you mean queueLimit?'))
  test('nesting has an end', () =>
    expect(failure(`${'('.repeat(5000)}1 < 2`).message).toBe('nested more than 100 deep'))
})

/** A random condition as text, and the same as a function. */
type Pair<T> = { text: string; of: (c: Record<string, number>) => T }
const numbers: fc.Arbitrary<Pair<number>> = fc.letrec<{ n: Pair<number> }>((tie) => ({
  n: fc.oneof(
    { maxDepth: 4 },
    fc.integer({ min: 0, max: 50 }).map((value) => ({ text: String(value), of: () => value })),
    fc
      .constantFrom('batchSize', 'queueLimit')
      .map((name) => ({ text: name, of: (c: Record<string, number>) => c[name]! })),
    fc.tuple(tie('n'), fc.constantFrom('+', '-', '*'), tie('n')).map(([a, sign, b]) => ({
      text: `(${a.text} ${sign} ${b.text})`,
      of: (c: Record<string, number>) =>
        sign === '+' ? a.of(c) + b.of(c) : sign === '-' ? a.of(c) - b.of(c) : a.of(c) * b.of(c),
    })),
  ),
})).n
const conditions: fc.Arbitrary<Pair<boolean>> = fc.letrec<{ b: Pair<boolean> }>((tie) => ({
  b: fc.oneof(
    { maxDepth: 4 },
    fc.tuple(numbers, fc.constantFrom('<', '<=', '==', '!='), numbers).map(([a, sign, b]) => ({
      text: `${a.text} ${sign} ${b.text}`,
      of: (c: Record<string, number>) =>
        sign === '<'
          ? a.of(c) < b.of(c)
          : sign === '<='
            ? a.of(c) <= b.of(c)
            : sign === '=='
              ? a.of(c) === b.of(c)
              : a.of(c) !== b.of(c),
    })),
    tie('b').map((a) => ({ text: `not (${a.text})`, of: (c: Record<string, number>) => !a.of(c) })),
    fc.tuple(tie('b'), fc.constantFrom('and', 'or'), tie('b')).map(([a, sign, b]) => ({
      text: `(${a.text}) ${sign} (${b.text})`,
      of: (c: Record<string, number>) => (sign === 'and' ? a.of(c) && b.of(c) : a.of(c) || b.of(c)),
    })),
  ),
})).b

test('any condition means what it says', () => {
  fc.assert(
    fc.property(
      conditions,
      fc.integer({ min: 0, max: 64 }),
      fc.integer({ min: 0, max: 64 }),
      (condition, batchSize, queueLimit) => {
        const values = { batchSize, queueLimit }
        expect(parseCondition(condition.text, names).holds(values)).toBe(condition.of(values))
      },
    ),
  )
})

test('any text is read or refused with a place inside it, never anything else', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 40 }), (text) => {
      try {
        parseCondition(text, names).holds(configuration)
      } catch (error) {
        expect(error).toBeInstanceOf(ConditionError)
        expect((error as ConditionError).offset).toBeGreaterThanOrEqual(0)
        expect((error as ConditionError).offset).toBeLessThanOrEqual(text.length)
      }
    }),
    { numRuns: fc.readConfigureGlobal().numRuns ?? 2000 },
  )
})
