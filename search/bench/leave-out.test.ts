import { expect, test } from 'vitest'
import { type FamilyRuns, leaveFamiliesOut } from './leave-out.ts'

const of = (sampler: string, family: string, trialsToWithin: number): FamilyRuns => ({
  sampler,
  family,
  runs: [{ trialsToWithin, regret: { 10: 0, 20: 0, 30: 0 }, secondsPerSuggestion: 0 }],
})

test('a family does not influence the choice for it', () => {
  const all = [
    of('a', 'x', 1),
    of('a', 'y', 9),
    of('a', 'z', 9),
    of('b', 'x', 9),
    of('b', 'y', 5),
    of('b', 'z', 5),
  ]
  expect(
    leaveFamiliesOut(['a', 'b'], all).map(({ sampler, family }) => `${family}: ${sampler}`),
  ).toEqual(['x: b', 'y: a', 'z: a'])
})
