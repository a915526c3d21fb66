import { expect, test } from 'vitest'
import { isStuck, trialsWithoutGain } from './stuck.ts'
import type { Observation, Problem } from './types.ts'

const problem: Problem = {
  space: { parameters: [], constraints: [] },
  objective: { kind: 'price-per-request' },
  constraintLimit: 10,
  pricePerHour: () => 1,
}
const trial = (rps: number, ms = 5): Observation => ({
  configuration: {},
  state: 'complete',
  rate: { value: rps },
  constraint: { value: ms },
})
const failure: Observation = { configuration: {}, state: 'infeasible', reason: 'out of memory' }

test('counts the trials since the last one that was feasible and better than all before', () => {
  expect(trialsWithoutGain(problem, [])).toBe(0)
  expect(trialsWithoutGain(problem, [trial(1), trial(2), trial(1.5), trial(9, 11), failure])).toBe(3)
  expect(trialsWithoutGain(problem, [failure, failure])).toBe(2)
})
test('every second choice after four such trials, and none before', () => {
  const after = (failures: number) => isStuck(problem, [trial(1), trial(2), ...new Array<Observation>(failures).fill(failure)])
  expect([2, 3, 4, 5, 6, 7].map(after)).toEqual([false, false, true, false, true, false])
})
