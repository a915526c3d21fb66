import { describe, expect, test } from 'vitest'
import { createRng } from '../rng.ts'
import type { Problem, SearchSpace } from '../types.ts'
import {
  findCandidates,
  listConfigurations,
  sampleRepresentatives,
  sampleSpace,
} from './candidates.ts'
import { configurationKey, enumerateConfigurations } from './space.ts'

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

describe('findCandidates', () => {
  test('returns what satisfies the constraints, may serve, and is not taken', () => {
    const { configurations, isComplete } = findCandidates(problem, [{ b: 1, a: 2 }], createRng(1))
    expect(isComplete).toBe(true)
    expect(configurations).toEqual([
      { a: 1, b: 1 },
      { a: 2, b: 2 },
      { a: 3, b: 1 },
      { a: 3, b: 2 },
      { a: 3, b: 3 },
    ])
    expect(
      findCandidates({ ...problem, cannotServe: undefined }, [], createRng(1)).configurations,
    ).toEqual(enumerateConfigurations(space))
  })
  test('of a space too large to list it is a sample, another for another seed', () => {
    const taken = findCandidates(
      { ...problem, space: real, cannotServe: undefined },
      [],
      createRng(1),
    ).configurations.slice(0, 3)
    const { configurations, isComplete } = findCandidates(
      { ...problem, space: real, cannotServe: (c) => Number(c.x) < 0.1 },
      taken,
      createRng(1),
    )
    expect(isComplete).toBe(false)
    for (const c of configurations)
      expect([Number(c.x) >= 0.1, Number(c.x) < 0.5]).toEqual([true, true])
    expect(configurations.filter((c) => taken.some((t) => t.x === c.x))).toEqual([])
    // 4,096 within the constraint, of which four in five may serve.
    expect(Math.abs(configurations.length - 0.8 * 4_096)).toBeLessThan(10)
    expect(
      findCandidates({ ...problem, space: real }, [], createRng(2)).configurations[0],
    ).not.toEqual(findCandidates({ ...problem, space: real }, [], createRng(1)).configurations[0])
  })
})

test('a space is listed once: a configuration is the same object each time', () => {
  expect(listConfigurations(space)[2]).toBe(listConfigurations(space)[2])
  expect(listConfigurations({ ...space })).toEqual(listConfigurations(space))
})

describe('sampleSpace', () => {
  test('finds as many as requested, each once, or all there are', () => {
    const some = sampleSpace(real, 50)
    expect(new Set(some.map(configurationKey)).size).toBe(50)
    expect(some.every((c) => Number(c.x) < 0.5)).toBe(true)
    const all = sampleSpace(space, 100).map(configurationKey)
    expect(all.sort()).toEqual(enumerateConfigurations(space).map(configurationKey).sort())
  })
  test('ends in a nearly infeasible space after sixteen points per requested configuration', () => {
    let calls = 0
    const never = {
      ...real,
      constraints: [
        {
          text: 'never',
          holds: () => {
            calls++
            return false
          },
        },
      ],
    }
    expect(sampleSpace(never, 5)).toEqual([])
    expect(calls).toBe(80)
  })
})

describe('sampleRepresentatives', () => {
  const grid = (a: number, b: number): SearchSpace => ({
    parameters: [
      { name: 'a', category: 'server', kind: 'int', min: 1, max: a, scale: 'linear' },
      { name: 'b', category: 'server', kind: 'int', min: 1, max: b, scale: 'linear' },
    ],
    constraints: [],
  })
  test('are all configurations of a small space, as the same objects each time', () => {
    expect(sampleRepresentatives(space)).toEqual(enumerateConfigurations(space))
    expect(sampleRepresentatives(space)).toBe(sampleRepresentatives({ ...problem }.space))
  })
  test('are at most 512 of a larger space, evenly spaced, and 512 of a continuous one', () => {
    const some = sampleRepresentatives(grid(50, 21))
    // 1,050 cells: every third.
    expect(some.map((c) => (Number(c.a) - 1) * 21 + Number(c.b) - 1)).toEqual(
      Array.from({ length: 350 }, (_, i) => 3 * i),
    )
    expect(sampleRepresentatives(real)).toHaveLength(512)
  })
})
