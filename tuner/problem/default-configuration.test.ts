import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { validateConfiguration } from '../../search/index.ts'
import type { Parameter, Problem } from '../../search/types.ts'
import { chooseDefaultConfiguration } from './default-configuration.ts'

const cores: Parameter = {
  kind: 'ordinal',
  name: 'cpuCores',
  category: 'resource',
  values: [1, 2, 4],
  scale: 'log',
}
const gpu: Parameter = {
  kind: 'categorical',
  name: 'gpu',
  category: 'resource',
  values: ['V100', 'T4', 'L4'],
}
const share: Parameter = {
  kind: 'ordinal',
  name: 'gpuMemoryPercent',
  category: 'resource',
  values: [25, 50, 100],
  scale: 'log',
}
const batch: Parameter = {
  kind: 'ordinal',
  name: 'batchSize',
  category: 'server',
  values: [1, 8, 32],
  scale: 'log',
}
const prices: Record<string, number> = { V100: 2.5, T4: 0.35, L4: 0.6 }

const problem = (parameters: Parameter[], more: Partial<Problem> = {}): Problem => ({
  space: { parameters, constraints: [] },
  objective: { kind: 'price-per-request' },
  pricePerHour: (c) => (prices[String(c.gpu)] ?? 0) + Number(c.cpuCores ?? 0) * 0.03,
  ...more,
})

test('has the cheapest whole GPU, batch 1 and the middle of the other ranges', () => {
  expect(chooseDefaultConfiguration(problem([cores, gpu, share, batch]))).toEqual({
    cpuCores: 2,
    gpu: 'T4',
    gpuMemoryPercent: 100,
    batchSize: 1,
  })
})

test('has one prefill and one decode server where the space has pools', () => {
  const pool = (name: string): Parameter => ({
    kind: 'ordinal',
    name,
    category: 'resource',
    values: [0, 1, 2],
    scale: 'linear',
  })
  expect(
    chooseDefaultConfiguration(problem([gpu, pool('prefillReplicas'), pool('decodeReplicas')])),
  ).toEqual({
    gpu: 'T4',
    prefillReplicas: 0,
    decodeReplicas: 0,
  })
})

test('skips a GPU that cannot serve', () => {
  const cannotServe = (c: { gpu?: unknown }) => c.gpu === 'T4'
  expect(
    chooseDefaultConfiguration(problem([cores, gpu, share, batch], { cannotServe })),
  ).toMatchObject({
    gpu: 'L4',
  })
})

test('respects conditions and steps', () => {
  const threads: Parameter = {
    kind: 'int',
    name: 'threads',
    category: 'server',
    min: 1,
    max: 8,
    step: 1,
    scale: 'linear',
    when: { text: "workerClass == 'gthread'", holds: (c) => c.workerClass === 'gthread' },
  }
  const workerClass: Parameter = {
    kind: 'categorical',
    name: 'workerClass',
    category: 'server',
    values: ['sync', 'gthread'],
  }
  const space = problem([workerClass, threads])
  const configuration = chooseDefaultConfiguration(space)
  expect(configuration).toEqual({ workerClass: 'sync', threads: 1 })
  expect(validateConfiguration(space.space, configuration ?? {})).toEqual([])
})

test('is undefined where the space has none', () => {
  const constraints = [
    { text: 'batchSize > 4', holds: (c: { batchSize?: unknown }) => Number(c.batchSize) > 4 },
  ]
  expect(
    chooseDefaultConfiguration(problem([batch], { space: { parameters: [batch], constraints } })),
  ).toBeUndefined()
})

test('has the first of equally cheap GPUs', () => {
  const alike = { ...problem([gpu]), pricePerHour: () => 1 }
  expect(chooseDefaultConfiguration(alike)).toEqual({ gpu: 'V100' })
  expect(chooseDefaultConfiguration(problem([cores]))).toEqual({ cpuCores: 2 })
})

describe('the typical value of a parameter', () => {
  const typicalValue = (parameter: Record<string, unknown>) =>
    chooseDefaultConfiguration(
      problem([{ category: 'server', name: 'x', ...parameter } as Parameter]),
    )?.x

  test.each<[string, Record<string, unknown>, number | string]>([
    ['is the middle value', { kind: 'ordinal', values: [1, 2, 40], scale: 'log' }, 2],
    [
      'is the lower of two middle values',
      { kind: 'ordinal', values: [1, 2, 8, 40], scale: 'log' },
      2,
    ],
    ['is the first name', { kind: 'categorical', values: ['b', 'a'] }, 'b'],
    [
      'is the arithmetic mean on a linear scale',
      { kind: 'float', min: 1, max: 4, scale: 'linear' },
      2.5,
    ],
    [
      'is the geometric mean on a logarithmic scale',
      { kind: 'float', min: 1, max: 16, scale: 'log' },
      4,
    ],
    ['is the nearest whole number', { kind: 'int', min: 1, max: 50, scale: 'log' }, 7],
    [
      'is the nearest step from the minimum',
      { kind: 'float', min: 0.5, max: 2.6, step: 0.4, scale: 'linear' },
      1.7,
    ],
    [
      'is the nearest step of whole numbers',
      { kind: 'int', min: 3, max: 20, step: 5, scale: 'linear' },
      13,
    ],
  ])('%s', (_, parameter, value) => {
    expect(typicalValue(parameter)).toBe(value)
  })

  test('is the smallest batch and the largest share of a GPU', () => {
    const range = (name: string, max: number, step?: number): Parameter =>
      ({ kind: 'int', name, category: 'server', min: 2, max, step, scale: 'linear' }) as Parameter
    const space = problem([range('batchSize', 64), range('gpuMemoryPercent', 100, 20)])
    // 2, 22, 42, 62, 82: there is no 100.
    expect(chooseDefaultConfiguration(space)).toEqual({ batchSize: 2, gpuMemoryPercent: 82 })
    expect(validateConfiguration(space.space, chooseDefaultConfiguration(space)!)).toEqual([])
  })
})

test('is a valid configuration of any space', () => {
  const range = fc
    .record({
      kind: fc.constantFrom('int' as const, 'float' as const),
      name: fc.constantFrom('batchSize', 'gpuMemoryPercent', 'threads'),
      min: fc.integer({ min: 1, max: 20 }),
      width: fc.integer({ min: 0, max: 100 }),
      step: fc.option(fc.integer({ min: 1, max: 30 }), { nil: undefined }),
      scale: fc.constantFrom('log' as const, 'linear' as const),
    })
    .map(
      ({ min, width, ...rest }) =>
        ({ ...rest, min, max: min + width, category: 'server' }) as Parameter,
    )
  fc.assert(
    fc.property(range, (parameter) => {
      const { space, ...rest } = problem([parameter])
      expect(validateConfiguration(space, chooseDefaultConfiguration({ space, ...rest })!)).toEqual(
        [],
      )
    }),
  )
})
