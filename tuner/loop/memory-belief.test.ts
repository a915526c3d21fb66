import { expect, test } from 'vitest'
import { memoryBelief } from './memory-belief.ts'

const slice = { gpu: 'A100-80GB', migProfile: '1g.10gb', batchSize: 8, instances: 5 }
const half = { ...slice, gpu: 'A100-80GB', migProfile: '3g.40gb' }
const lacked = [{ configuration: slice, lacked: true }]

test('a launch that lacked memory makes others of as much doubtful, the more the nearer they are', () => {
  const serves = memoryBelief(lacked)
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

test('one that lacked it with the least batch as well says that it is the processes', () => {
  const least = { configuration: { ...slice, batchSize: 1 }, lacked: true }
  const largest = { configuration: { ...slice, batchSize: 256 }, lacked: true }
  const between = { ...slice, batchSize: 8 }
  expect(memoryBelief([largest])(between)).toBeGreaterThan(0.3)
  expect(memoryBelief([largest, least])(between)).toBeLessThan(0.1)
})

test('one that served shows what suffices', () => {
  const served = { configuration: { ...slice, instances: 4, batchSize: 64 }, lacked: false }
  const serves = memoryBelief([...lacked, served])
  expect(serves({ ...slice, instances: 4 })).toBeGreaterThan(0.9)
  expect(serves({ ...slice, instances: 4 })).toBeGreaterThan(
    memoryBelief(lacked)({ ...slice, instances: 4 }),
  )
})

test('nothing is said where nothing lacked memory, of other settings, or without a GPU', () => {
  expect(memoryBelief([{ configuration: slice, lacked: false }])(slice)).toBe(1)
  expect(memoryBelief(lacked)({ ...slice, precision: 'int8' })).toBe(1)
  expect(memoryBelief(lacked)({ gpu: 'none', batchSize: 8, instances: 5 })).toBe(1)
})
