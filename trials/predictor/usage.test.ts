import { expect, test } from 'vitest'
import { post, startForTest } from './testing.contract.ts'
import { readCounters, usageBetween } from './usage.ts'

const counters = { readySeconds: 10, busySeconds: 4, devices: 1, memoryMiB: 900, items: 40, batches: 10 }

test('use between two moments', () => {
  expect(usageBetween(counters)).toEqual({ gpuMemoryMiB: 900, gpuUtilization: 0.4, realisedBatch: 4 })
  const later = { ...counters, readySeconds: 12, busySeconds: 5, items: 56, batches: 12 }
  expect(usageBetween(later, counters)).toEqual({ gpuMemoryMiB: 900, gpuUtilization: 0.5, realisedBatch: 8 })
  expect(usageBetween({ ...later, devices: 2 }, counters).gpuUtilization).toBe(0.25)
  expect(usageBetween(counters, counters)).toEqual({ gpuMemoryMiB: 900, gpuUtilization: undefined, realisedBatch: undefined })
})

test('is read from a predictor', async () => {
  const { url } = await startForTest({ MODEL: 'bert-base', BATCH_SIZE: '4', INSTANCES: '2' })
  const before = await readCounters(url)
  expect(before).toMatchObject({ items: 0, batches: 0, busySeconds: 0, devices: 1 })
  await post(`${url}/v1/models/bert-base:predict`, { instances: ['a', 'b', 'c', 'd'] })
  const use = usageBetween(await readCounters(url), before)
  expect(use.realisedBatch).toBe(4)
  expect(use.gpuUtilization).toBeGreaterThan(0)
  expect(use.gpuUtilization).toBeLessThanOrEqual(1)
  expect(use.gpuMemoryMiB).toBeGreaterThan(500)
})
