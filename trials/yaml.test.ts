import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { findYamlExcess, parseYaml } from './yaml.ts'

const schema = z.strictObject({ a: z.number().optional() })
const problemsOf = (text: string): readonly string[] => {
  try {
    parseYaml(text, 'file.yaml', schema)
    return []
  } catch (error) {
    return (error as { problems: string[] }).problems
  }
}

/** Made into a document, each of them would end the whole process or its stack. */
describe('what is nested too deep is refused before a document is made of it', () => {
  test.each([
    ['entries of entries', '- '.repeat(50_000)],
    ['entries of entries below a key', `a:\n  ${'- '.repeat(50_000)}x`],
    ['keys of keys', '? '.repeat(50_000)],
    ['keys in a line', 'a: '.repeat(50_000)],
    ['brackets', '['.repeat(20_000)],
    ['brackets beside others that are only text', `${'[ "]]]", '.repeat(5_000)}`],
    ['indentation', Array.from({ length: 1_300 }, (_, i) => `${' '.repeat(i)}a:`).join('\n')],
  ])('%s', (_, text) => {
    expect(findYamlExcess(text)).toMatch(/nested deeper than 200 levels/)
    expect(problemsOf(text)).toEqual(['file.yaml: nested deeper than 200 levels'])
  })

  test('and what is wide, or has its brackets in words, is not', () => {
    expect(findYamlExcess(`a: "${'['.repeat(500)}"`)).toBeUndefined()
    expect(findYamlExcess('[1, 2],'.repeat(2_000))).toBeUndefined()
    expect(findYamlExcess(`a: |\n${'  - - - x: y\n'.repeat(300)}`)).toBeUndefined()
  })
})

test.each(['{}', '[]', '""', '&a ', '!a ', '*a ', '"', '- "" '])(
  'a line of nothing but %s is refused before it becomes an error each',
  (piece) => {
    for (const text of [
      piece.repeat(100_000),
      `a: ${piece.repeat(100_000)}`,
      `[${piece.repeat(100_000)}`,
    ])
      expect(problemsOf(text)).toEqual([
        'file.yaml: more than 60,000 brackets, quotes and other marks',
      ])
  },
)

test('errors of the parser take no traces, and others have theirs', () => {
  expect(problemsOf('{}'.repeat(20)).length).toBeGreaterThan(0)
  expect(new Error('here').stack).toContain('yaml.test.ts')
})

describe('aliases', () => {
  test('that multiply are refused in words', () => {
    const laughs = Array.from(
      { length: 9 },
      (_, i) => `a${i}: &a${i} [${Array(9).fill(i === 0 ? 'x' : `*a${i - 1}`)}]`,
    ).join('\n')
    expect(problemsOf(laughs)).toEqual([expect.stringMatching(/^file.yaml: .*alias/i)])
  })

  test('that stand for what they are in are shown without ending', () => {
    expect(problemsOf('a: &a [*a]')).toEqual([
      expect.stringMatching(/^file.yaml:1: a: .*got a value that contains itself/),
    ])
  })
})

test('of thousands of problems the first are told, each cut', () => {
  for (const text of [
    Array.from({ length: 15_000 }, (_, i) => `k${i}: 1`).join('\n'),
    '!a '.repeat(30_000),
    '!'.repeat(100_000),
  ]) {
    const problems = problemsOf(text)
    expect(problems.length).toBeGreaterThan(0)
    expect(problems.join('\n').length).toBeLessThan(10_000)
  }
})

test('of several forms the problem of the one that was meant is told, where it stands', () => {
  const forms = z.strictObject({
    a: z.union([z.number(), z.strictObject({ file: z.string(), rows: z.number() })]),
  })
  expect(() => parseYaml('a:\n  file: x\n  rows: many\n', 'file.yaml', forms)).toThrow(
    /^file.yaml:3: a.rows: .*expected number.*got "many"/,
  )
  expect(() => parseYaml('a: []', 'file.yaml', forms)).toThrow(
    /^file.yaml:1: a: Invalid input, got \[\]/,
  )
})

test('what is wrong in a list is told with the line of its item, and the keys that an item may have', () => {
  const listed = z.strictObject({
    a: z.array(z.strictObject({ kind: z.enum(['one', 'two']).optional() })),
  })
  const text = 'a:\n  - kind: one\n  - kind: three\n  - {kind: two}\n  - { knid: two}\n'
  expect(() => parseYaml(text, 'file.yaml', listed)).toThrow(
    /^file.yaml:3: a.1.kind: .*\nfile.yaml:5: a.3: unknown key 'knid', .*kind/,
  )
})
