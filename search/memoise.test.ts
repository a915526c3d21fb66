import { describe, expect, test } from 'vitest'
import { memoise, memoiseLastTrial } from './memoise.ts'
import type { Observation, Problem } from './types.ts'

test('caches each key, and computes an undefined value again', () => {
  let calls = 0
  const size = memoise((key: readonly number[]) => {
    calls++
    return key.length || undefined
  })
  const [some, other, none] = [[1, 2], [1, 2], []]
  expect([size(some), size(some), size(other)]).toEqual([2, 2, 2])
  expect(calls).toBe(2)
  expect([size(none), size(none)]).toEqual([undefined, undefined])
  expect(calls).toBe(4)
})

describe('memoiseLastTrial', () => {
  const problem: Problem = {
    space: { parameters: [], constraints: [] },
    objective: { kind: 'price' },
    pricePerHour: () => 1,
  }
  const trial = (): Observation => ({ configuration: {}, state: 'infeasible', reason: '' })
  const counting = () => {
    let calls = 0
    return memoiseLastTrial(
      (_, observations) => `${observations.length} trials, computation ${++calls}`,
    )
  }

  test('the same trials of the same problem are computed once', () => {
    const get = counting()
    const observations = [trial(), trial(), trial()]
    expect(get(problem, observations)).toBe('3 trials, computation 1')
    expect(get(problem, [...observations])).toBe('3 trials, computation 1')
    expect(get(problem, observations.with(2, trial()))).toBe('3 trials, computation 2')
  })
  test('another problem, number of trials or last trial is computed anew', () => {
    const get = counting()
    const observations = [trial(), trial()]
    get(problem, observations)
    expect(get({ ...problem }, observations)).toBe('2 trials, computation 2')
    expect(get(problem, observations)).toBe('2 trials, computation 1')
    expect(get(problem, observations.slice(1))).toBe('1 trials, computation 3')
    expect(get(problem, [observations[1]!, trial()])).toBe('2 trials, computation 4')
  })
  test('drops the value of fewer trials', () => {
    const get = counting()
    const observations = [trial(), trial()]
    get(problem, observations)
    get(problem, [...observations, trial()])
    expect(get(problem, observations)).toBe('2 trials, computation 3')
  })
  test('nothing is cached before the first trial', () => {
    const get = counting()
    expect([get(problem, []), get(problem, [])]).toEqual([
      '0 trials, computation 1',
      '0 trials, computation 2',
    ])
  })
})
