import { expect, test } from 'vitest'
import { type Decoder, findArchitecture } from '../../devices/architecture.ts'
import { findGpu } from '../../devices/catalogue.ts'
import { OutOfMemoryError } from '../engine.ts'
import { computeCacheSize } from './step-costs.ts'
import type { LlmDevice } from './step-model.ts'
import { composedStepTimes } from './testing/composed-steps.ts'

const on = (gpu: string, model = 'llama-3.1-8b', tensorParallel = 1): LlmDevice => ({
  architecture: findArchitecture(model) as Decoder,
  gpu: findGpu(gpu),
  precision: 'fp16',
  tensorParallel,
})
const decode = (decodes: number, context = 500) => ({
  prefillTokens: 0,
  decodes,
  decodeContext: decodes * context,
})
const prefill = (prefillTokens: number) => ({ prefillTokens, decodes: 0, decodeContext: 0 })

test('a step is never faster than reading the weights, and batches of decodes are cheap', () => {
  const stepMs = composedStepTimes(on('L4'))
  // 16.06 GB of weights, the input embedding is looked up: 15 GB over 300 GB/s.
  expect(stepMs(decode(1))).toBeGreaterThan(50)
  expect(stepMs(decode(1))).toBeLessThan(90)
  expect(stepMs(decode(16))).toBeLessThan(1.5 * stepMs(decode(1)))
})

test('prompts cost computing, and beside decodes they share the reading of the weights', () => {
  const stepMs = composedStepTimes(on('L4'))
  expect(stepMs(prefill(2048))).toBeGreaterThan(3 * stepMs(prefill(256)))
  const mixed = stepMs({ prefillTokens: 512, decodes: 16, decodeContext: 16 * 500 })
  expect(mixed).toBeGreaterThan(stepMs(prefill(512)))
  expect(mixed).toBeLessThan(stepMs(prefill(512)) + stepMs(decode(16)))
})

test('two GPUs are faster than one, and less than twice as fast', () => {
  const [one, two] = [
    composedStepTimes(on('A100-80GB')),
    composedStepTimes(on('A100-80GB', 'llama-3.1-8b', 2)),
  ]
  for (const work of [decode(8), prefill(1024)]) {
    expect(two(work)).toBeLessThan(one(work))
    expect(two(work)).toBeGreaterThan(one(work) / 2)
  }
})

test('the cache gets what weights leave, and running out of it is out of memory', () => {
  const small = computeCacheSize(on('L4'), 0.9, 2048, 4096).tokens
  const large = computeCacheSize(on('A100-80GB'), 0.9, 2048, 4096).tokens
  expect(small).toBeGreaterThan(20_000)
  expect(small).toBeLessThan(60_000)
  expect(large).toBeGreaterThan(350_000)
  expect(computeCacheSize(on('L4', 'llama-3.1-8b', 2), 0.9, 2048, 4096).tokens).toBeGreaterThan(
    3 * small,
  )
  const quantised = computeCacheSize({ ...on('L4'), quantization: 'awq' }, 0.9, 2048, 4096).tokens
  // 13 GB of layers become 3.7: 75,000 more tokens of 128 KiB.
  expect(quantised - small).toBeGreaterThan(70_000)
  expect(quantised - small).toBeLessThan(90_000)
  expect(() => computeCacheSize(on('T4'), 0.9, 2048, 4096)).toThrow(OutOfMemoryError)
  expect(() => computeCacheSize(on('L4', 'qwen2.5-14b'), 0.9, 2048, 4096)).toThrow(
    /emulated.*max-model-len/,
  )
})
