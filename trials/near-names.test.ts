import { expect, test } from 'vitest'
import { findClosestNames, suggestNames } from './near-names.ts'

const known = ['maxTrials', 'timeLimit', 'gpu', 'gp', 'batchSize']

test.each([
  ['a letter too few', 'maxTrals', ['maxTrials']],
  ['two letters swapped', 'mxaTrials', ['maxTrials']],
  ['other separators and case', 'MAX_TRIALS', ['maxTrials']],
  ['the beginning of one', 'time', ['timeLimit']],
  ['one and more', 'gpus', ['gpu', 'gp']],
  ['nothing near', 'colour', []],
  ['a short name whose letters all differ', 'xy', []],
])('%s', (_what, name, near) => {
  expect(findClosestNames(name, known)).toEqual(near)
})

test('what is known is listed where nothing is near', () => {
  expect(suggestNames('gpp', known)).toBe('did you mean gp, gpu?')
  expect(suggestNames('colour', ['gp', 'grid'])).toBe('known: gp, grid')
})

test('a name of a million letters takes no time', () => {
  expect(findClosestNames('x'.repeat(1e6), ['y'.repeat(50)])).toEqual([])
})
