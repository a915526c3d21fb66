import fc from 'fast-check'
import { expect, test } from 'vitest'
import { architectureOf, architectures } from './architecture.ts'
import { findGpu, gpuCatalogue } from './catalogue.ts'
import { deviceLatencyMs, fits, gpuMemoryMiB } from './model.ts'

const bert = architectureOf('bert')
const t4 = findGpu('T4')

const call = fc.record({
  architecture: fc.constantFrom(...architectures),
  gpu: fc.constantFrom(...gpuCatalogue),
  batch: fc.integer({ min: 1, max: 128 }),
  sequenceLength: fc.constantFrom(16, 64, 128, 384),
  share: fc.constantFrom(0.1, 0.25, 0.5, 1),
})

test('a larger batch takes longer and needs more memory, but not longer for each item', () => {
  fc.assert(
    fc.property(call, (c) => {
      const twice = { ...c, batch: 2 * c.batch }
      expect(deviceLatencyMs(twice).ms).toBeGreaterThan(deviceLatencyMs(c).ms)
      expect(deviceLatencyMs(twice).ms).toBeLessThanOrEqual(2.0001 * deviceLatencyMs(c).ms)
      expect(gpuMemoryMiB(twice).mib).toBeGreaterThan(gpuMemoryMiB(c).mib)
    }),
  )
})

test('less of a GPU is never faster, and error bars are positive', () => {
  fc.assert(
    fc.property(call, (c) => {
      const whole = deviceLatencyMs({ ...c, share: 1 })
      expect(deviceLatencyMs(c).ms).toBeGreaterThanOrEqual(whole.ms)
      expect(whole.relativeError).toBeGreaterThan(0)
      expect(deviceLatencyMs({ ...c, sharing: 'memory-only' }).ms).toBe(whole.ms)
    }),
  )
})

test('memory: BERT-base fits a quarter T4, a 14 B model does not fit a whole one', () => {
  expect(fits({ architecture: bert, gpu: t4, batch: 32, share: 0.25 }).fits).toBe(true)
  const large = fits({ architecture: architectureOf('qwen2.5-14b'), gpu: t4, batch: 1 })
  expect(large.fits).toBe(false)
  expect(large.neededMiB).toBeGreaterThan(28_000)
  expect(fits({ architecture: bert, gpu: t4, batch: 1 }, 300).fits).toBe(false)
})

test('impossible calls are refused with the reason', () => {
  expect(() => deviceLatencyMs({ architecture: bert, gpu: t4, batch: 1, share: 0 })).toThrow('a GPU share of 0 is not in (0, 1]')
  expect(() => deviceLatencyMs({ architecture: bert, gpu: t4, batch: 0 })).toThrow('a batch of 0 is below 1')
  expect(() => deviceLatencyMs({ architecture: bert, gpu: t4, batch: 1, sequenceLength: 1024 })).toThrow(
    'bert-base takes at most 512 tokens, not 1024; lower sequenceLength',
  )
})
