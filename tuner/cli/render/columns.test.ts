import fc from 'fast-check'
import { expect, test } from 'vitest'
import { countColumns, formatAge, formatDuration, formatTable, wrapText } from './columns.ts'

test.each([
  [7.2, '7 s'],
  [80, '1 min 20 s'],
  [7500, '2 h 5 min'],
  [-1, '0 s'],
])('%d s is %s', (seconds, text) => expect(formatDuration(seconds)).toBe(text))

test.each([
  [{ columns: 120 }, 120],
  [{ columns: 0 }, 80],
  [{}, 400],
])('lines to %j have %d columns', (stream, columns) => expect(countColumns(stream)).toBe(columns))

test('columns line up, the last is ragged', () => {
  expect(
    formatTable([
      ['a', 'long', 'x'],
      ['bbb', 'b', 'yy'],
    ]),
  ).toEqual(['a    long  x', 'bbb  b     yy'])
})

test('wrapping loses no word and keeps to the width where the words do', () => {
  const words = fc.array(fc.stringMatching(/^[a-z]{1,9}$/), { minLength: 1, maxLength: 40 })
  fc.assert(
    fc.property(words, fc.integer({ min: 12, max: 60 }), (list, columns) => {
      const lines = wrapText(list.join(' '), columns)
      expect(lines.map((line) => line.trim()).join(' ')).toBe(list.join(' '))
      for (const line of lines) expect(line.length).toBeLessThanOrEqual(columns)
    }),
  )
})

test('an age is told in one unit, and of a clock that went back nothing strange', () => {
  expect([0, -5, 59, 60, 3599, 3600, 172_799, 172_800, 1e7].map(formatAge)).toEqual([
    'just now',
    'just now',
    '59 s ago',
    '1 min ago',
    '59 min ago',
    '1 h ago',
    '47 h ago',
    '2 days ago',
    '115 days ago',
  ])
})
