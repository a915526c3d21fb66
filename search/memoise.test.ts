import { describe, expect, test } from 'vitest'
import { remembered, rememberedPerTrial } from './memoise.ts'
import type { Observation, Problem } from './types.ts'

test('remembers each key, and asks again only where nothing came of it', () => {
  let asked = 0
  const size = remembered((key: readonly number[]) => {
    asked++
    return key.length || undefined
  })
  const [some, other, none] = [[1, 2], [1, 2], []]
  expect([size(some), size(some), size(other)]).toEqual([2, 2, 2])
  expect(asked).toBe(2)
  expect([size(none), size(none)]).toEqual([undefined, undefined])
  expect(asked).toBe(4)
})

describe('per trial', () => {
  const problem: Problem = {
    space: { parameters: [], constraints: [] },
    objective: { kind: 'price' },
    pricePerHour: () => 1,
  }
  const trial = (): Observation => ({ configuration: {}, state: 'infeasible', reason: '' })
  const counting = () => {
    let asked = 0
    return rememberedPerTrial(
      (_, observations) => `${observations.length} trials, answer ${++asked}`,
    )
  }

  test('the same trials of the same problem are answered once', () => {
    const ask = counting()
    const observations = [trial(), trial(), trial()]
    expect(ask(problem, observations)).toBe('3 trials, answer 1')
    expect(ask(problem, [...observations])).toBe('3 trials, answer 1')
    expect(ask(problem, observations.with(2, trial()))).toBe('3 trials, answer 2')
  })
  test('another problem, another number of trials and another last trial are not', () => {
    const ask = counting()
    const observations = [trial(), trial()]
    ask(problem, observations)
    expect(ask({ ...problem }, observations)).toBe('2 trials, answer 2')
    expect(ask(problem, observations)).toBe('2 trials, answer 1')
    expect(ask(problem, observations.slice(1))).toBe('1 trials, answer 3')
    expect(ask(problem, [observations[1]!, trial()])).toBe('2 trials, answer 4')
  })
  test('what came of fewer trials is let go', () => {
    const ask = counting()
    const observations = [trial(), trial()]
    ask(problem, observations)
    ask(problem, [...observations, trial()])
    expect(ask(problem, observations)).toBe('2 trials, answer 3')
  })
  test('nothing is remembered before the first trial', () => {
    const ask = counting()
    expect([ask(problem, []), ask(problem, [])]).toEqual([
      '0 trials, answer 1',
      '0 trials, answer 2',
    ])
  })
})
