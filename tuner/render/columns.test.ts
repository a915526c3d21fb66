import fc from 'fast-check'
import { expect, test } from 'vitest'
import { duration, table, wrap } from './columns.ts'

test.each([
  [7.2, '7 s'],
  [80, '1 min 20 s'],
  [7500, '2 h 5 min'],
  [-1, '0 s'],
])('%d s is %s', (seconds, text) => expect(duration(seconds)).toBe(text))

test('columns line up, the last is ragged', () => {
  expect(
    table([
      ['a', 'long', 'x'],
      ['bbb', 'b', 'yy'],
    ]),
  ).toEqual(['a    long  x', 'bbb  b     yy'])
})

test('wrapping loses no word and keeps to the width where the words do', () => {
  const words = fc.array(fc.stringMatching(/^[a-z]{1,9}$/), { minLength: 1, maxLength: 40 })
  fc.assert(
    fc.property(words, fc.integer({ min: 12, max: 60 }), (list, columns) => {
      const lines = wrap(list.join(' '), columns)
      expect(lines.map((line) => line.trim()).join(' ')).toBe(list.join(' '))
      for (const line of lines) expect(line.length).toBeLessThanOrEqual(columns)
    }),
  )
})
