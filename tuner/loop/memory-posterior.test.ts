import { expect, test } from 'vitest'
import { inferMemoryFit } from './memory-posterior.ts'

const slice = { gpu: 'A100-80GB', migProfile: '1g.10gb', batchSize: 8, instances: 5 }
const half = { ...slice, gpu: 'A100-80GB', migProfile: '3g.40gb' }
const ranOutOnce = [{ configuration: slice, ranOut: true }]

test('after a launch ran out of memory, similar configurations are less likely to fit', () => {
  const serves = inferMemoryFit(ranOutOnce)
  const [same, smaller, fewer, alone] = [
    slice,
    { ...slice, batchSize: 4 },
    { ...slice, instances: 4 },
    { ...slice, instances: 1 },
  ].map(serves)
  expect(same).toBeLessThan(0.1)
  expect(smaller).toBeGreaterThan(same!)
  expect(fewer).toBeGreaterThan(same!)
  expect(fewer).toBeLessThan(0.5)
  expect(alone).toBeGreaterThan(0.7)
  expect(serves(half)).toBeGreaterThan(0.7)
})

test('running out with the smallest batch too shows that the fixed memory is too large', () => {
  const least = { configuration: { ...slice, batchSize: 1 }, ranOut: true }
  const largest = { configuration: { ...slice, batchSize: 256 }, ranOut: true }
  const between = { ...slice, batchSize: 8 }
  expect(inferMemoryFit([largest])(between)).toBeGreaterThan(0.3)
  expect(inferMemoryFit([largest, least])(between)).toBeLessThan(0.1)
})

test('a launch that served makes smaller configurations likely to fit', () => {
  const served = { configuration: { ...slice, instances: 4, batchSize: 64 }, ranOut: false }
  const serves = inferMemoryFit([...ranOutOnce, served])
  expect(serves({ ...slice, instances: 4 })).toBeGreaterThan(0.9)
  expect(serves({ ...slice, instances: 4 })).toBeGreaterThan(
    inferMemoryFit(ranOutOnce)({ ...slice, instances: 4 }),
  )
})

test('the probability is 1 without a shortage, with other settings, and without a GPU', () => {
  expect(inferMemoryFit([{ configuration: slice, ranOut: false }])(slice)).toBe(1)
  expect(inferMemoryFit(ranOutOnce)({ ...slice, precision: 'int8' })).toBe(1)
  expect(inferMemoryFit(ranOutOnce)({ gpu: 'none', batchSize: 8, instances: 5 })).toBe(1)
})
