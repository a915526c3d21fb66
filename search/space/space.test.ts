import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Configuration, Parameter, RangeParameter, SearchSpace } from '../types.ts'
import { around, neighbours } from './neighbours.ts'
import {
  configurationAt,
  configurationKey,
  enumerate,
  gridSize,
  parameterValues,
  satisfies,
  snap,
  spaceSize,
} from './space.ts'
import { validateConfiguration, validateSpace } from './validation.ts'

const base = { category: 'server' } as const
const batch: Parameter = {
  ...base,
  name: 'batch',
  kind: 'ordinal',
  values: [1, 2, 4, 8],
  scale: 'log',
}
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
  constraints: [
    { text: 'batch <= queue / 5', holds: (c) => Number(c.batch) <= Number(c.queue) / 5 },
  ],
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
  test('has the listed configurations alone where they are known one by one, however large the grid', () => {
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
    expect(enumerate(sparse)).toEqual(listed.slice(0, 2))
    expect([gridSize(sparse), spaceSize(sparse)]).toEqual([3, 2])
    expect(validateSpace(sparse)).toEqual([])
  })
  test('refuses what cannot be listed', () => {
    expect(gridSize({ parameters: [share], constraints: [] })).toBe(Infinity)
    expect(() => enumerate({ parameters: [share], constraints: [] })).toThrow(
      /Infinity configurations/,
    )
  })
})

test('values of a stepped range have no rounding dust', () => {
  expect(
    parameterValues({
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

const whole = (more: object = {}): RangeParameter => ({
  ...base,
  name: 'n',
  kind: 'int',
  min: 1,
  max: 9,
  scale: 'linear',
  ...more,
})
const real = (more: object = {}): RangeParameter => ({
  ...base,
  name: 'x',
  kind: 'float',
  min: 0,
  max: 1,
  scale: 'linear',
  ...more,
})
const only = (...parameters: Parameter[]): SearchSpace => ({ parameters, constraints: [] })

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
    expect(parameterValues(parameter)).toEqual(values)
    expect(gridSize(only(parameter))).toBe(values.length)
  })
  test('a real number without a step has infinitely many', () => {
    expect(parameterValues(real())).toBeUndefined()
    expect(gridSize(only(batch, real()))).toBe(Infinity)
    expect(gridSize(only(batch, loop, whole()))).toBe(4 * 2 * 9)
    expect(spaceSize(only(batch, real()))).toBe(Infinity)
  })
  test('a grid of 100,000 cells is listed and counted, a larger one is not', () => {
    const cells = (more: number) =>
      only(whole({ min: 1, max: 1000 }), whole({ name: 'm', max: 100 + more }))
    expect(
      spaceSize({ ...cells(0), constraints: [{ text: 'n = 1', holds: (c) => c.n === 1 }] }),
    ).toBe(100)
    expect(
      spaceSize({ ...cells(1), constraints: [{ text: 'n = 1', holds: (c) => c.n === 1 }] }),
    ).toBe(101_000)
    expect(() => enumerate(cells(1))).toThrow(/101000 configurations/)
  })
  test('what is not active has its first or least value', () => {
    const never = { text: 'never', holds: () => false }
    const listed = enumerate(
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
    us.map((u) => configurationAt(only(parameter), [u])[parameter.name])
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

describe('neighbours', () => {
  const around = (parameter: Parameter, value: number | string) =>
    neighbours(only(parameter), { [parameter.name]: value })
      .map((c) => c[parameter.name]!)
      .sort((a, b) => Number(a) - Number(b))
  test('of an ordered value are two either side, of a name all others', () => {
    expect(around({ ...batch, values: [1, 2, 4, 8, 16, 32] }, 4)).toEqual([1, 2, 8, 16])
    expect(around(batch, 1)).toEqual([2, 4])
    expect(around(batch, 8)).toEqual([2, 4])
    expect(around({ ...loop, values: ['a', 'b', 'c'] }, 'b')).toEqual(['a', 'c'])
  })
  test('of a number in a range are 1, 5 and 20 % of it away, and one step', () => {
    expect(around(real({ max: 100 }), 50)).toEqual([30, 45, 49, 51, 55, 70])
    expect(around(real({ min: 1, max: 10_000, scale: 'log' }), 100)).toEqual(
      [0.2, 0.05, 0.01]
        .flatMap((s) => [100 * 10 ** (-4 * s), 100 * 10 ** (4 * s)])
        .sort((a, b) => a - b)
        .map((v) => expect.closeTo(v, 6)),
    )
    expect(around(real({ max: 100, scale: 'log' }), 50)).toEqual([30, 45, 49, 51, 55, 70])
    expect(around(whole({ max: 101 }), 51)).toEqual([31, 46, 50, 52, 56, 71])
    expect(around(whole({ max: 9 }), 1)).toEqual([2, 3])
    expect(around(real({ max: 100, step: 25 }), 50)).toEqual([25, 75])
  })
  test('keep the constraints, leave what is inactive alone, and give it its default when they turn it off', () => {
    expect(neighbours(space, { batch: 2, loop: 'sync', queue: 10 })).toEqual([
      { batch: 1, loop: 'sync', queue: 10 },
      { batch: 2, loop: 'async', queue: 10 },
    ])
    expect(neighbours(space, { batch: 2, loop: 'async', queue: 30 })).toContainEqual({
      batch: 2,
      loop: 'sync',
      queue: 10,
    })
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
  test('a configuration has all that is active, and keeps the constraints', () => {
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
    expect(satisfies(space, { batch: 4, queue: 20 })).toBe(true)
  })
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
        const configuration = configurationAt(free, unit)
        fc.pre(satisfies(free, configuration))
        expect(validateConfiguration(free, configuration)).toEqual([])
        for (const n of neighbours(free, configuration)) {
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
      expect(parameterValues(stepped)).toContain(snapped)
    }),
  )
})

test('around a configuration is what differs by two steps in all, and not itself', () => {
  const values = [1, 2, 4, 8, 16]
  const space = {
    parameters: ['cores', 'batch'].map(
      (name) => ({ name, category: 'server', kind: 'ordinal', values, scale: 'log' }) as const,
    ),
    constraints: [{ text: 'batch != 2', holds: (c: Configuration) => c.batch !== 2 }],
  }
  const found = around(space, { cores: 4, batch: 4 }).map(({ cores, batch }) => `${cores} ${batch}`)
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

test('around a configuration of a sparse table are the recorded ones next to it, whatever is missing between', () => {
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
  const found = around(sparse, { vm: 'a', machines: 10 }).map(
    ({ vm, machines }) => `${vm} ${machines}`,
  )
  expect(found.toSorted()).toEqual(['a 14', 'b 16', 'b 6', 'c 2', 'c 30'])
})

test('in two steps to the next value that the space has eight may be missing, and no more', () => {
  const values = Array.from({ length: 30 }, (_, i) => i + 1)
  const reached = (from: number, left: readonly number[]) =>
    around(
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
