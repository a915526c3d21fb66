import { describe, expect, test } from 'vitest'
import { createRng } from '../rng.ts'
import type { Problem, SearchSpace } from '../types.ts'
import { listed, sampleSpace, untried } from './candidates.ts'
import { configurationKey, enumerate } from './space.ts'

const space: SearchSpace = {
  parameters: [
    { name: 'a', category: 'server', kind: 'int', min: 1, max: 4, scale: 'linear' },
    { name: 'b', category: 'server', kind: 'int', min: 1, max: 3, scale: 'linear' },
  ],
  constraints: [{ text: 'a >= b', holds: (c) => Number(c.a) >= Number(c.b) }],
}
const problem: Problem = {
  space,
  objective: { kind: 'price' },
  pricePerHour: () => 1,
  cannotServe: (c) => c.a === 4,
}
const real: SearchSpace = {
  parameters: [{ name: 'x', category: 'server', kind: 'float', min: 0, max: 1, scale: 'linear' }],
  constraints: [{ text: 'x < 0.5', holds: (c) => Number(c.x) < 0.5 }],
}

describe('untried', () => {
  test('is what keeps the constraints, may serve, and was neither tried nor is pending', () => {
    const { configurations, complete } = untried(problem, [{ b: 1, a: 2 }], createRng(1))
    expect(complete).toBe(true)
    expect(configurations).toEqual([
      { a: 1, b: 1 },
      { a: 2, b: 2 },
      { a: 3, b: 1 },
      { a: 3, b: 2 },
      { a: 3, b: 3 },
    ])
    expect(
      untried({ ...problem, cannotServe: undefined }, [], createRng(1)).configurations,
    ).toEqual(enumerate(space))
  })
  test('of a space too large to list it is a sample, another for another seed', () => {
    const taken = untried(
      { ...problem, space: real, cannotServe: undefined },
      [],
      createRng(1),
    ).configurations.slice(0, 3)
    const { configurations, complete } = untried(
      { ...problem, space: real, cannotServe: (c) => Number(c.x) < 0.1 },
      taken,
      createRng(1),
    )
    expect(complete).toBe(false)
    for (const c of configurations)
      expect([Number(c.x) >= 0.1, Number(c.x) < 0.5]).toEqual([true, true])
    expect(configurations.filter((c) => taken.some((t) => t.x === c.x))).toEqual([])
    // 4,096 within the constraint, of which four in five may serve.
    expect(Math.abs(configurations.length - 0.8 * 4_096)).toBeLessThan(10)
    expect(untried({ ...problem, space: real }, [], createRng(2)).configurations[0]).not.toEqual(
      untried({ ...problem, space: real }, [], createRng(1)).configurations[0],
    )
  })
})

test('a space is listed once: a configuration is the same object each time', () => {
  expect(listed(space)[2]).toBe(listed(space)[2])
  expect(listed({ ...space })).toEqual(listed(space))
})

describe('sampleSpace', () => {
  test('finds as many as are asked for, each once, or all that there are', () => {
    const some = sampleSpace(real, 50)
    expect(new Set(some.map(configurationKey)).size).toBe(50)
    expect(some.every((c) => Number(c.x) < 0.5)).toBe(true)
    const all = sampleSpace(space, 100).map(configurationKey)
    expect(all.sort()).toEqual(enumerate(space).map(configurationKey).sort())
  })
  test('gives up on a space that hardly anything satisfies, after sixteen points for each asked for', () => {
    let asked = 0
    const never = {
      ...real,
      constraints: [
        {
          text: 'never',
          holds: () => {
            asked++
            return false
          },
        },
      ],
    }
    expect(sampleSpace(never, 5)).toEqual([])
    expect(asked).toBe(80)
  })
})
