import { expect, test } from 'vitest'
import { conclusions, type Recommendation } from '../../../reports/recommendation/types.ts'
import { chooseCandidate } from './reopen-experiment.ts'

test.each([
  ['none', 3],
  ['unknown', 1],
] as const)(
  'where there is nothing to take: says what the experiment comes to, %s, with its exit code',
  (conclusion, exitCode) => {
    const nothing = {
      experimentId: 'e1',
      conclusion,
      alternatives: [],
    } as Partial<Recommendation> as Recommendation
    const asked = () => chooseCandidate(nothing, undefined)
    expect(asked).toThrow(`experiment e1: ${conclusions[conclusion]}`)
    expect(asked).toThrow(expect.objectContaining({ exitCode }))
  },
)
