import { expect, test } from 'vitest'
import { validateConfiguration } from '../../search/index.ts'
import type { Parameter, Problem } from '../../search/types.ts'
import { defaultConfiguration } from './default-configuration.ts'

const cores: Parameter = { kind: 'ordinal', name: 'cpuCores', category: 'resource', values: [1, 2, 4], scale: 'log' }
const gpu: Parameter = { kind: 'categorical', name: 'gpu', category: 'resource', values: ['V100', 'T4', 'L4'] }
const share: Parameter = { kind: 'ordinal', name: 'gpuMemoryPercent', category: 'resource', values: [25, 50, 100], scale: 'log' }
const batch: Parameter = { kind: 'ordinal', name: 'batchSize', category: 'server', values: [1, 8, 32], scale: 'log' }
const prices: Record<string, number> = { V100: 2.5, T4: 0.35, L4: 0.6 }

const problem = (parameters: Parameter[], more: Partial<Problem> = {}): Problem => ({
  space: { parameters, constraints: [] },
  objective: { kind: 'price-per-request' },
  pricePerHour: (c) => (prices[String(c.gpu)] ?? 0) + Number(c.cpuCores ?? 0) * 0.03,
  ...more,
})

test('the cheapest whole GPU, batch 1, the middle of the rest', () => {
  expect(defaultConfiguration(problem([cores, gpu, share, batch]))).toEqual({ cpuCores: 2, gpu: 'T4', gpuMemoryPercent: 100, batchSize: 1 })
})

test('a GPU that certainly cannot serve is passed over', () => {
  const cannotServe = (c: { gpu?: unknown }) => c.gpu === 'T4'
  expect(defaultConfiguration(problem([cores, gpu, share, batch], { cannotServe }))).toMatchObject({ gpu: 'L4' })
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
  const workerClass: Parameter = { kind: 'categorical', name: 'workerClass', category: 'server', values: ['sync', 'gthread'] }
  const space = problem([workerClass, threads])
  const configuration = defaultConfiguration(space)
  expect(configuration).toEqual({ workerClass: 'sync', threads: 1 })
  expect(validateConfiguration(space.space, configuration ?? {})).toEqual([])
})

test('nothing of the kind in the space', () => {
  const constraints = [{ text: 'batchSize > 4', holds: (c: { batchSize?: unknown }) => Number(c.batchSize) > 4 }]
  expect(defaultConfiguration(problem([batch], { space: { parameters: [batch], constraints } }))).toBeUndefined()
})
