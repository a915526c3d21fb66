import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { validateConfiguration } from '../../search/index.ts'
import type { Parameter, Problem } from '../../search/types.ts'
import { defaultConfiguration } from './default-configuration.ts'

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

test('the cheapest whole GPU, batch 1, the middle of the rest', () => {
  expect(defaultConfiguration(problem([cores, gpu, share, batch]))).toEqual({
    cpuCores: 2,
    gpu: 'T4',
    gpuMemoryPercent: 100,
    batchSize: 1,
  })
})

test('one server for prompts and answers where pools of them are in the space', () => {
  const pool = (name: string): Parameter => ({
    kind: 'ordinal',
    name,
    category: 'resource',
    values: [0, 1, 2],
    scale: 'linear',
  })
  expect(
    defaultConfiguration(problem([gpu, pool('prefillReplicas'), pool('decodeReplicas')])),
  ).toEqual({
    gpu: 'T4',
    prefillReplicas: 0,
    decodeReplicas: 0,
  })
})

test('a GPU that certainly cannot serve is passed over', () => {
  const cannotServe = (c: { gpu?: unknown }) => c.gpu === 'T4'
  expect(defaultConfiguration(problem([cores, gpu, share, batch], { cannotServe }))).toMatchObject({
    gpu: 'L4',
  })
})

test('keeps conditions and steps', () => {
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
  const configuration = defaultConfiguration(space)
  expect(configuration).toEqual({ workerClass: 'sync', threads: 1 })
  expect(validateConfiguration(space.space, configuration ?? {})).toEqual([])
})

test('nothing of the kind in the space', () => {
  const constraints = [
    { text: 'batchSize > 4', holds: (c: { batchSize?: unknown }) => Number(c.batchSize) > 4 },
  ]
  expect(
    defaultConfiguration(problem([batch], { space: { parameters: [batch], constraints } })),
  ).toBeUndefined()
})

test('of as cheap ones the first', () => {
  const alike = { ...problem([gpu]), pricePerHour: () => 1 }
  expect(defaultConfiguration(alike)).toEqual({ gpu: 'V100' })
  expect(defaultConfiguration(problem([cores]))).toEqual({ cpuCores: 2 })
})

describe('the middle of a parameter', () => {
  const middleOf = (parameter: Record<string, unknown>) =>
    defaultConfiguration(problem([{ category: 'server', name: 'x', ...parameter } as Parameter]))?.x

  test.each<[string, Record<string, unknown>, number | string]>([
    ['the middle one of an odd number', { kind: 'ordinal', values: [1, 2, 40], scale: 'log' }, 2],
    [
      'the lower one of two in the middle',
      { kind: 'ordinal', values: [1, 2, 8, 40], scale: 'log' },
      2,
    ],
    ['the first name', { kind: 'categorical', values: ['b', 'a'] }, 'b'],
    ['the arithmetic mean', { kind: 'float', min: 1, max: 4, scale: 'linear' }, 2.5],
    [
      'the geometric mean of a logarithmic one',
      { kind: 'float', min: 1, max: 16, scale: 'log' },
      4,
    ],
    ['the nearest whole number', { kind: 'int', min: 1, max: 50, scale: 'log' }, 7],
    [
      'the nearest step from the least on',
      { kind: 'float', min: 0.5, max: 2.6, step: 0.4, scale: 'linear' },
      1.7,
    ],
    [
      'the nearest step of whole numbers',
      { kind: 'int', min: 3, max: 20, step: 5, scale: 'linear' },
      13,
    ],
  ])('%s', (_, parameter, value) => {
    expect(middleOf(parameter)).toBe(value)
  })

  test('but the least batch and the most of a GPU that the space has', () => {
    const range = (name: string, max: number, step?: number): Parameter =>
      ({ kind: 'int', name, category: 'server', min: 2, max, step, scale: 'linear' }) as Parameter
    const space = problem([range('batchSize', 64), range('gpuMemoryPercent', 100, 20)])
    // 2, 22, 42, 62, 82: there is no 100.
    expect(defaultConfiguration(space)).toEqual({ batchSize: 2, gpuMemoryPercent: 82 })
    expect(validateConfiguration(space.space, defaultConfiguration(space)!)).toEqual([])
  })
})

test('whatever the space, a configuration of it', () => {
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
      expect(validateConfiguration(space, defaultConfiguration({ space, ...rest })!)).toEqual([])
    }),
  )
})
