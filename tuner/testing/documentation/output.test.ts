import { describe, expect, test } from 'vitest'
import { findDifference, findUnknownLines } from './output.ts'

const printed = `trial 1 of at most 12: #1 2 cores, T4 (baseline), about 1 min 20 s left
trial 2 of at most 12: #2 1 core, T4
Experiment bert-0a79cc12, seed 1
Next  tune show bert-0a79cc12
`

describe('an output that is shown', () => {
  test.each([
    ['as it was printed', printed],
    [
      'with other figures, identifiers and line breaks',
      printed
        .replace('1 min 20 s', '7 s')
        .replaceAll('0a79cc12', 'ffff0000')
        .replace(' T4 ', '\nT4 '),
    ],
    [
      'with lines left out',
      'trial 1 of at most 12: #1 2 cores, T4 (baseline), about 3 s left\n...\nNext  tune show bert-7f3a\n',
    ],
    ['with a beginning left out', '...\nExperiment bert-0a79cc12, seed 1\n...\n'],
  ])('agrees %s', (_, shown) => expect(findDifference(shown, printed)).toBeUndefined())

  test.each([
    ['another word', printed.replace('core, T4', 'core, L4')],
    ['a line that was not printed', `${printed}Note: none\n`],
    ['lines left out without saying so', 'Experiment bert-0a79cc12, seed 1\n'],
    ['another order', '...\nNext  tune show bert-7f3a\nExperiment bert-0a79cc12, seed 1\n...\n'],
  ])('differs with %s', (_, shown) => expect(findDifference(shown, printed)).toBeDefined())

  test('names where it differs', () => {
    expect(findDifference(printed.replace('Next', 'Then'), printed)).toBe(
      'not printed: "T# Experiment bert-ID, seed # Then tune show bert-ID", but "T# Experiment bert-ID, seed # Next tune show bert-ID"',
    )
  })
})

test('the token of a dashboard may differ or be left out', () => {
  const address = 'http://127.0.0.1:36501/#token=LSJU-vhm_o\n'
  for (const shown of [
    'http://127.0.0.1:4455/#token=other\n',
    'http://127.0.0.1:4455/#token=...\n',
  ]) {
    expect(findDifference(shown, address)).toBeUndefined()
    expect(findUnknownLines(shown, address)).toEqual([])
  }
})

test('of a real run only the beginnings of lines are compared', () => {
  const shown = 'trial 1: anything\n...\nExperiment x\nVerdict: none\n'
  expect(findUnknownLines(shown, printed)).toEqual(['Verdict: none'])
})
