import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createEncoder } from './encoding.ts'
import {
  configurationAt,
  configurationKey,
  enumerate,
  gridSize,
  neighbours,
  parameterValues,
  satisfies,
  snap,
  spaceSize,
  validateConfiguration,
  validateSpace,
} from './space.ts'
import type { Parameter, SearchSpace } from './types.ts'

const base = { category: 'server' } as const
const batch: Parameter = { ...base, name: 'batch', kind: 'ordinal', values: [1, 2, 4, 8], scale: 'log' }
const loop: Parameter = { ...base, name: 'loop', kind: 'categorical', values: ['sync', 'async'] }
const queue: Parameter = {
  ...base,
  name: 'queue',
  kind: 'int',
  min: 10,
  max: 30,
  step: 10,
  scale: 'linear',
  when: { text: 'loop = async', holds: (c) => c.loop === 'async' },
}
const share: Parameter = { ...base, name: 'share', kind: 'float', min: 0.1, max: 1, scale: 'log' }
const space: SearchSpace = {
  parameters: [batch, loop, queue],
  constraints: [{ text: 'batch <= queue / 5', holds: (c) => Number(c.batch) <= Number(c.queue) / 5 }],
}

describe('enumerate', () => {
  test('lists each configuration once, conditions and constraints kept', () => {
    const all = enumerate(space)
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
    expect(spaceSize(space)).toBe(10)
    for (const c of all) expect(validateConfiguration(space, c)).toEqual([])
  })
  test('refuses what cannot be listed', () => {
    expect(gridSize({ parameters: [share], constraints: [] })).toBe(Infinity)
    expect(() => enumerate({ parameters: [share], constraints: [] })).toThrow(/Infinity configurations/)
  })
})

test('values of a stepped range have no rounding dust', () => {
  expect(parameterValues({ ...base, name: 'x', kind: 'float', min: 0.1, max: 0.7, step: 0.2, scale: 'linear' })).toEqual([
    0.1, 0.3, 0.5, 0.7,
  ])
})

test('points of the unit cube become valid values, and neighbours are valid and different', () => {
  const free: SearchSpace = { parameters: [batch, loop, queue, share], constraints: space.constraints }
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), { minLength: 4, maxLength: 4 }), (unit) => {
      const configuration = configurationAt(free, unit)
      fc.pre(satisfies(free, configuration))
      expect(validateConfiguration(free, configuration)).toEqual([])
      for (const n of neighbours(free, configuration)) {
        expect(validateConfiguration(free, n)).toEqual([])
        expect(configurationKey(n)).not.toBe(configurationKey(configuration))
      }
    }),
  )
})

test('snap is idempotent and stays in range', () => {
  const stepped: Parameter = { ...base, name: 'x', kind: 'float', min: 0.1, max: 0.95, step: 0.2, scale: 'linear' }
  fc.assert(
    fc.property(fc.double({ min: -2, max: 2, noNaN: true }), (v) => {
      const snapped = snap(stepped, v)
      expect(snap(stepped, snapped)).toBe(snapped)
      expect(parameterValues(stepped)).toContain(snapped)
    }),
  )
})

describe('validation says everything that is wrong', () => {
  test('of a space', () => {
    const wrong = validateSpace({
      parameters: [
        { ...base, name: 'a', kind: 'ordinal', values: [], scale: 'log' },
        { ...base, name: 'a', kind: 'int', min: 3, max: 1, scale: 'linear' },
        { ...base, name: 'b', kind: 'float', min: 0, max: 1, step: -1, scale: 'log' },
        { ...base, name: 'c', kind: 'categorical', values: ['x', 'y'], features: { x: [1] } },
      ],
      constraints: [],
    })
    expect(wrong).toEqual([
      'parameter a: has no values',
      'parameter a is declared twice',
      'parameter a: min 3 exceeds max 1',
      'parameter b: step -1 must be positive',
      'parameter b: a log scale needs min > 0, not 0',
      'parameter c: has no features for y',
    ])
  })
  test('of constraints nothing satisfies', () => {
    expect(validateSpace({ parameters: [batch], constraints: [{ text: 'batch > 9', holds: (c) => Number(c.batch) > 9 }] })).toEqual([
      `no configuration satisfies 'batch > 9'`,
    ])
  })
  test('of a configuration', () => {
    expect(validateConfiguration(space, { batch: 3, loop: 'sync', queue: 20 })).toEqual([
      'batch cannot be 3',
      'queue = 20, but it must be 10 unless loop = async',
    ])
  })
})

describe('encoding', () => {
  test('log and linear axes span [0, 1]; names are 1 apart; features are scaled', () => {
    const gpu: Parameter = {
      ...base,
      name: 'gpu',
      kind: 'categorical',
      values: ['T4', 'A10', 'H100'],
      features: { T4: [5, 1], A10: [6, 3], H100: [8, 2] },
    }
    const encoder = createEncoder({ parameters: [batch, queue, loop, gpu], constraints: [] })
    expect(encoder.columns.map((c) => [c.kind, c.group])).toEqual([
      ['number', 0],
      ['number', 1],
      ['name', 2],
      ['name', 2],
      ['feature', 3],
      ['feature', 4],
    ])
    expect([...encoder.encode({ batch: 2, queue: 20, loop: 'sync', gpu: 'H100' })]).toEqual([
      expect.closeTo(1 / 3),
      0.5,
      Math.SQRT1_2,
      0,
      1,
      0.5,
    ])
    const a = encoder.encode({ batch: 1, queue: 10, loop: 'sync', gpu: 'T4' })
    const b = encoder.encode({ batch: 1, queue: 10, loop: 'async', gpu: 'T4' })
    expect(a.reduce((sum, v, i) => sum + (v - b[i]!) ** 2, 0)).toBeCloseTo(1)
  })
  test('a log axis that starts at zero is linear', () => {
    const encoder = createEncoder({
      parameters: [{ ...base, name: 'n', kind: 'ordinal', values: [0, 5, 10], scale: 'log' }],
      constraints: [],
    })
    expect([...encoder.encode({ n: 5 })]).toEqual([0.5])
  })
})

test('names made of shared parts are alike in them; others are equally far apart', () => {
  const apart = (values: readonly string[], a: string, b: string) => {
    const { encode } = createEncoder({ parameters: [{ name: 'vm', category: 'resource', kind: 'categorical', values }], constraints: [] })
    return Math.hypot(...encode({ vm: a }).map((v, i) => v - encode({ vm: b })[i]!))
  }
  const vms = ['c4.large', 'c4.xlarge', 'm4.large', 'm4.xlarge']
  expect(apart(vms, 'c4.large', 'c4.xlarge')).toBeLessThan(apart(vms, 'c4.large', 'm4.xlarge'))
  for (const plain of [
    ['T4', 'L4', 'A10'],
    ['a.1', 'b.2', 'c.3'],
    ['fp16', 'int8', 'w.4'],
  ])
    expect(apart(plain, plain[0]!, plain[1]!)).toBeCloseTo(1, 12)
})
