import { describe, expect, test } from 'vitest'
import type { Configuration, Parameter, SearchSpace } from '../types.ts'
import { findNeighbours, findPollPoints } from './neighbours.ts'
import { configurationKey } from './space.ts'
import { base, batch, loop, only, real, space, whole } from './testing/sample-spaces.ts'

describe('findNeighbours', () => {
  const valuesAround = (parameter: Parameter, value: number | string) =>
    findNeighbours(only(parameter), { [parameter.name]: value })
      .map((c) => c[parameter.name]!)
      .sort((a, b) => Number(a) - Number(b))
  test('of an ordered value are two either side, of a name all others', () => {
    expect(valuesAround({ ...batch, values: [1, 2, 4, 8, 16, 32] }, 4)).toEqual([1, 2, 8, 16])
    expect(valuesAround(batch, 1)).toEqual([2, 4])
    expect(valuesAround(batch, 8)).toEqual([2, 4])
    expect(valuesAround({ ...loop, values: ['a', 'b', 'c'] }, 'b')).toEqual(['a', 'c'])
  })
  test('of a number in a range are 1, 5 and 20 % of it away, and one step', () => {
    expect(valuesAround(real({ max: 100 }), 50)).toEqual([30, 45, 49, 51, 55, 70])
    expect(valuesAround(real({ min: 1, max: 10_000, scale: 'log' }), 100)).toEqual(
      [0.2, 0.05, 0.01]
        .flatMap((s) => [100 * 10 ** (-4 * s), 100 * 10 ** (4 * s)])
        .sort((a, b) => a - b)
        .map((v) => expect.closeTo(v, 6)),
    )
    expect(valuesAround(real({ max: 100, scale: 'log' }), 50)).toEqual([30, 45, 49, 51, 55, 70])
    expect(valuesAround(whole({ max: 101 }), 51)).toEqual([31, 46, 50, 52, 56, 71])
    expect(valuesAround(whole({ max: 9 }), 1)).toEqual([2, 3])
    expect(valuesAround(real({ max: 100, step: 25 }), 50)).toEqual([25, 75])
  })
  test('satisfy the constraints, do not vary inactive parameters, and reset those they deactivate', () => {
    expect(findNeighbours(space, { batch: 2, loop: 'sync', queue: 10 })).toEqual([
      { batch: 1, loop: 'sync', queue: 10 },
      { batch: 2, loop: 'async', queue: 10 },
    ])
    expect(findNeighbours(space, { batch: 2, loop: 'async', queue: 30 })).toContainEqual({
      batch: 2,
      loop: 'sync',
      queue: 10,
    })
  })
})

test('poll points differ by two steps in all, without the configuration itself', () => {
  const values = [1, 2, 4, 8, 16]
  const space = {
    parameters: ['cores', 'batch'].map(
      (name) => ({ name, category: 'server', kind: 'ordinal', values, scale: 'log' }) as const,
    ),
    constraints: [{ text: 'batch != 2', holds: (c: Configuration) => c.batch !== 2 }],
  }
  const found = findPollPoints(space, { cores: 4, batch: 4 }).map(
    ({ cores, batch }) => `${cores} ${batch}`,
  )
  expect(found.toSorted()).toEqual([
    '1 4',
    '16 4',
    '2 1',
    '2 4',
    '2 8',
    '4 1',
    '4 16',
    '4 8',
    '8 1',
    '8 4',
    '8 8',
  ])
})

test('poll points in a sparse table are the nearest recorded ones, across gaps', () => {
  const listed = ['a 10', 'a 14', 'b 6', 'b 16', 'b 20', 'c 2', 'c 30'].map((words) => {
    const [vm, machines] = words.split(' ')
    return { vm: vm!, machines: Number(machines) }
  })
  const recorded = new Set(listed.map((c) => configurationKey(c)))
  const sparse: SearchSpace = {
    parameters: [
      { ...base, name: 'vm', kind: 'categorical', values: ['a', 'b', 'c'] },
      {
        ...base,
        name: 'machines',
        kind: 'ordinal',
        values: [2, 6, 10, 12, 14, 16, 20, 30],
        scale: 'log',
      },
    ],
    constraints: [{ text: 'recorded', holds: (c) => recorded.has(configurationKey(c)) }],
    listed,
  }
  const found = findPollPoints(sparse, { vm: 'a', machines: 10 }).map(
    ({ vm, machines }) => `${vm} ${machines}`,
  )
  expect(found.toSorted()).toEqual(['a 14', 'b 16', 'b 6', 'c 2', 'c 30'])
})

test('a poll step skips up to eight missing values, and no more', () => {
  const values = Array.from({ length: 30 }, (_, i) => i + 1)
  const reached = (from: number, left: readonly number[]) =>
    findPollPoints(
      {
        parameters: [{ ...base, name: 'n', kind: 'ordinal', values, scale: 'linear' }],
        constraints: [{ text: 'left', holds: (c) => left.includes(Number(c.n)) }],
      },
      { n: from },
    ).map(({ n }) => n)
  expect(reached(12, [12, 21])).toEqual([21])
  expect(reached(12, [12, 22])).toEqual([])
  expect(reached(12, [12, 3])).toEqual([3])
  expect(reached(12, [12, 2])).toEqual([])
})
