import { describe, expect, test } from 'vitest'
import type { Parameter } from '../types.ts'
import { satisfiesConstraints } from './space.ts'
import { base, batch, loop, only, real, space, whole } from './testing/sample-spaces.ts'
import { validateConfiguration, validateSpace } from './validation.ts'

describe('validation lists all faults', () => {
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
    expect(
      validateSpace({
        parameters: [batch],
        constraints: [{ text: 'batch > 9', holds: (c) => Number(c.batch) > 9 }],
      }),
    ).toEqual([`no configuration satisfies 'batch > 9'`])
  })
  test('of a configuration', () => {
    expect(validateConfiguration(space, { batch: 3, loop: 'sync', queue: 20 })).toEqual([
      'batch cannot be 3',
      'queue = 20, but it must be 10 unless loop = async',
    ])
  })
})

describe('each fault of a parameter alone', () => {
  const gpu = (features: Record<string, number[]>): Parameter => ({ ...loop, features })
  test.each([
    [{ ...batch, values: [] }, ['has no values']],
    [{ ...batch, values: [1, 2, 2] }, ['lists a value twice']],
    [{ ...batch, values: [1, Number.NaN] }, ['has a value that is not a finite number']],
    [{ ...batch, values: [2, 1] }, ['values must ascend']],
    [{ ...loop, values: ['a', 'a'] }, ['lists a value twice']],
    [gpu({ sync: [1], async: [1, 2] }), ['has values with different numbers of features']],
    [gpu({ sync: [1], async: [Infinity] }), ['has a feature that is not a finite number']],
    [gpu({ sync: [1, 2], async: [0, 1] }), []],
    [
      whole({ max: Infinity }),
      ['min and max must be finite numbers', 'min, max and step of an int must be whole numbers'],
    ],
    [real({ min: Number.NaN }), ['min and max must be finite numbers']],
    [real({ min: 2 }), ['min 2 exceeds max 1']],
    [real({ min: 1 }), []],
    [real({ step: 0 }), ['step 0 must be positive']],
    [real({ step: 0.5 }), []],
    [real({ scale: 'log' }), ['a log scale needs min > 0, not 0']],
    [real({ scale: 'log', min: 0.1 }), []],
    [whole({ min: 1.5 }), ['min, max and step of an int must be whole numbers']],
    [whole({ max: 8.5 }), ['min, max and step of an int must be whole numbers']],
    [whole({ step: 0.5 }), ['min, max and step of an int must be whole numbers']],
    [whole({ step: 2 }), []],
  ] as const)('%j', (parameter, faults) => {
    expect(validateSpace(only(parameter))).toEqual(
      faults.map((fault) => `parameter ${parameter.name}: ${fault}`),
    )
  })
  test('a space needs parameters', () => {
    expect(validateSpace(only())).toEqual(['the search space has no parameters'])
    const impossible = [
      { text: 'never', holds: () => false },
      { text: 'nor ever', holds: () => false },
    ]
    expect(validateSpace({ parameters: [batch], constraints: impossible })).toEqual([
      `no configuration satisfies 'never' and 'nor ever'`,
    ])
    // Too many to look through.
    expect(validateSpace({ parameters: [real()], constraints: impossible })).toEqual([])
  })
})

describe('what a parameter takes', () => {
  const wrong = (parameter: Parameter, value: number | string) =>
    validateConfiguration(only(parameter), { [parameter.name]: value }).length
  test.each([
    [batch, [1, 8], [3, 0, '1']],
    [loop, ['sync'], ['Sync', 1]],
    [whole(), [1, 5, 9], [0, 10, 1.5, '5', 5.00001]],
    [real(), [0, 0.123456, 1], [-0.001, 1.001, '0.5']],
    [real({ max: 1e6, step: 0.1 }), [123_456.7, 0.3], [123_456.75]],
  ] as const)('%j', (parameter, right, refused) => {
    expect(right.map((value) => wrong(parameter, value))).toEqual(right.map(() => 0))
    expect(refused.map((value) => wrong(parameter, value))).toEqual(refused.map(() => 1))
  })
  test('rejects missing parameters and violated constraints', () => {
    expect(validateConfiguration(space, { batch: 8, loop: 'async', queue: 30 })).toEqual([
      `breaks 'batch <= queue / 5'`,
    ])
    expect(validateConfiguration(space, { loop: 'sync', queue: 10 })).toEqual([
      'batch is missing',
      `breaks 'batch <= queue / 5'`,
    ])
    expect(validateConfiguration(space, { batch: 1, loop: 'async', queue: 15 })).toEqual([
      'queue cannot be 15',
    ])
    expect(satisfiesConstraints(space, { batch: 4, queue: 20 })).toBe(true)
  })
})
