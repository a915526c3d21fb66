import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Configuration, Parameter, SearchSpace } from '../types.ts'
import { findNeighbours } from './neighbours.ts'
import {
  configurationKey,
  countConfigurations,
  countGridCells,
  decodeConfiguration,
  enumerateConfigurations,
  listParameterValues,
  satisfiesConstraints,
  snap,
} from './space.ts'
import {
  base,
  batch,
  loop,
  only,
  queue,
  real,
  share,
  space,
  whole,
} from './testing/sample-spaces.ts'
import { validateConfiguration, validateSpace } from './validation.ts'

describe('enumerateConfigurations', () => {
  test('lists each configuration once, within conditions and constraints', () => {
    const all = enumerateConfigurations(space)
    expect(all.map((c) => Object.values(c).join(' '))).toEqual([
      '1 sync 10',
      '1 async 10',
      '1 async 20',
      '1 async 30',
      '2 sync 10',
      '2 async 10',
      '2 async 20',
      '2 async 30',
      '4 async 20',
      '4 async 30',
    ])
    expect(countConfigurations(space)).toBe(10)
    for (const c of all) expect(validateConfiguration(space, c)).toEqual([])
  })
  test('has only the listed configurations, however large the grid', () => {
    const names = Array.from({ length: 7 }, (_, i) => `p${i}`)
    const listed = [1, 4, 9].map((value) => Object.fromEntries(names.map((name) => [name, value])))
    const sparse: SearchSpace = {
      parameters: names.map((name) => ({
        name,
        kind: 'ordinal',
        category: 'server',
        values: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        scale: 'log',
      })),
      constraints: [{ text: 'p0 < 9', holds: (c) => Number(c.p0) < 9 }],
      listed,
    }
    expect(enumerateConfigurations(sparse)).toEqual(listed.slice(0, 2))
    expect([countGridCells(sparse), countConfigurations(sparse)]).toEqual([3, 2])
    expect(validateSpace(sparse)).toEqual([])
  })
  test('refuses a space that cannot be enumerated', () => {
    expect(countGridCells({ parameters: [share], constraints: [] })).toBe(Infinity)
    expect(() => enumerateConfigurations({ parameters: [share], constraints: [] })).toThrow(
      /Infinity configurations/,
    )
  })
})

test('values of a stepped range are rounded', () => {
  expect(
    listParameterValues({
      ...base,
      name: 'x',
      kind: 'float',
      min: 0.1,
      max: 0.7,
      step: 0.2,
      scale: 'linear',
    }),
  ).toEqual([0.1, 0.3, 0.5, 0.7])
})

describe('values and sizes', () => {
  test.each([
    [batch, [1, 2, 4, 8]],
    [loop, ['sync', 'async']],
    [whole({ min: 2, max: 5 }), [2, 3, 4, 5]],
    [whole({ step: 3 }), [1, 4, 7]],
    [whole({ min: 4, max: 4 }), [4]],
    [real({ step: 0.5 }), [0, 0.5, 1]],
    [real({ step: 0.4 }), [0, 0.4, 0.8]],
    [real({ min: 0.3, max: 0.3 }), [0.3]],
    [real({ min: 0.3, max: 0.3, step: 0.1 }), [0.3]],
  ])('%j', (parameter, values) => {
    expect(listParameterValues(parameter)).toEqual(values)
    expect(countGridCells(only(parameter))).toBe(values.length)
  })
  test('a real number without a step has infinitely many', () => {
    expect(listParameterValues(real())).toBeUndefined()
    expect(countGridCells(only(batch, real()))).toBe(Infinity)
    expect(countGridCells(only(batch, loop, whole()))).toBe(4 * 2 * 9)
    expect(countConfigurations(only(batch, real()))).toBe(Infinity)
  })
  test('a grid of 100,000 cells is listed and counted, a larger one is not', () => {
    const cells = (more: number) =>
      only(whole({ min: 1, max: 1000 }), whole({ name: 'm', max: 100 + more }))
    expect(
      countConfigurations({
        ...cells(0),
        constraints: [{ text: 'n = 1', holds: (c) => c.n === 1 }],
      }),
    ).toBe(100)
    expect(
      countConfigurations({
        ...cells(1),
        constraints: [{ text: 'n = 1', holds: (c) => c.n === 1 }],
      }),
    ).toBe(101_000)
    expect(() => enumerateConfigurations(cells(1))).toThrow(/101000 configurations/)
  })
  test('an inactive parameter has its first or minimum value', () => {
    const never = { text: 'never', holds: () => false }
    const listed = enumerateConfigurations(
      only(
        { ...batch, values: [2, 4], when: never },
        { ...loop, when: never },
        whole({ min: 3, when: never }),
      ),
    )
    expect(listed).toEqual([{ batch: 2, loop: 'sync', n: 3 }])
  })
})

test('a key is the same whatever the order, and another for another configuration', () => {
  expect(configurationKey({ b: 2, a: 'x' })).toBe(configurationKey({ a: 'x', b: 2 }))
  const others: Configuration[] = [
    { a: 'x', b: 2 },
    { a: 'x', b: '2' },
    { a: 'x', c: 2 },
    { a: 'x' },
    { a: 'x","b":2' },
  ]
  expect(new Set(others.map(configurationKey)).size).toBe(others.length)
})

describe('a point of the unit cube', () => {
  const at = (parameter: Parameter, ...us: number[]) =>
    us.map((u) => decodeConfiguration(only(parameter), [u])[parameter.name])
  test('falls on lists in equal parts', () => {
    expect(at(batch, 0, 0.24, 0.25, 0.5, 0.99, 1)).toEqual([1, 1, 2, 4, 8, 8])
    expect(at(loop, 0.49, 0.5)).toEqual(['sync', 'async'])
  })
  test('falls on ranges evenly, on logarithmic ones evenly in ln', () => {
    expect(at(real({ min: 2, max: 4 }), 0, 0.25, 1)).toEqual([2, 2.5, 4])
    expect(at(real({ min: 1, max: 100, scale: 'log' }), 0, 0.5, 1)).toEqual([
      1,
      expect.closeTo(10, 9),
      expect.closeTo(100, 9),
    ])
    expect(at(real({ scale: 'log' }), 0.25)).toEqual([0.25])
    expect(at(whole({ step: 4 }), 0, 0.2, 0.3, 1)).toEqual([1, 1, 5, 9])
  })
})

test('a value snaps to the nearest step that fits into the range', () => {
  expect([-3, 1.4, 1.6, 40].map((v) => snap(whole(), v))).toEqual([1, 1, 2, 9])
  // 0.1, 0.3, 0.5, 0.7, 0.9; 0.95 is no step.
  expect(
    [0.19, 0.21, 0.95, 2].map((v) => snap(real({ min: 0.1, max: 0.95, step: 0.2 }), v)),
  ).toEqual([0.1, 0.3, 0.9, 0.9])
  expect(snap(real({ min: 0.1, max: 1.05, step: 0.2 }), 1.05)).toBe(0.9)
  expect([-1, 0.123, 2].map((v) => snap(real(), v))).toEqual([0, 0.123, 1])
})

test('points of the unit cube become valid values, and neighbours are valid and different', () => {
  const free: SearchSpace = {
    parameters: [batch, loop, queue, share],
    constraints: space.constraints,
  }
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), {
        minLength: 4,
        maxLength: 4,
      }),
      (unit) => {
        const configuration = decodeConfiguration(free, unit)
        fc.pre(satisfiesConstraints(free, configuration))
        expect(validateConfiguration(free, configuration)).toEqual([])
        for (const n of findNeighbours(free, configuration)) {
          expect(validateConfiguration(free, n)).toEqual([])
          expect(configurationKey(n)).not.toBe(configurationKey(configuration))
        }
      },
    ),
  )
})

test('snap is idempotent and stays in range', () => {
  const stepped: Parameter = {
    ...base,
    name: 'x',
    kind: 'float',
    min: 0.1,
    max: 0.95,
    step: 0.2,
    scale: 'linear',
  }
  fc.assert(
    fc.property(fc.double({ min: -2, max: 2, noNaN: true }), (v) => {
      const snapped = snap(stepped, v)
      expect(snap(stepped, snapped)).toBe(snapped)
      expect(listParameterValues(stepped)).toContain(snapped)
    }),
  )
})
