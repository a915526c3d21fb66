import { expect, test } from 'vitest'
import type { Decoder } from './architecture.ts'
import { countKvBytesPerToken, countParameters, findArchitecture } from './architecture.ts'
import { countFlops, type Work } from './call-work.ts'
import { countWork } from './work.ts'

/** Weights read in one call, bytes. */
const weightBytesOf = (work: Work): number =>
  work.products.reduce((sum, p) => sum + p.columns * p.depth * p.count, 0) * work.weightElementBytes

// Parameter counts as published with each model; MACs of the convolutional networks from their
// papers or torchvision.
test.each([
  ['bert', 109.48e6],
  ['bert-large', 335.1e6],
  ['bert-tiny', 4.39e6],
  ['distilbert', 66.4e6],
  ['albert', 11.7e6],
  ['resnet50', 25.56e6],
  ['mobilenet', 4.23e6],
  ['mobilenetv2', 3.5e6],
  ['vgg16', 138.36e6],
  ['alexnet', 61.1e6],
  ['llama-3.1-8b', 8.03e9],
  ['llama-3.1-405b', 405.85e9],
  ['llama-2-70b', 68.98e9],
  ['llama-3.2-1b', 1.236e9],
  ['qwen2.5-14b', 14.77e9],
  ['qwen2.5-72b', 72.7e9],
  ['qwen3-4b', 4.02e9],
  ['qwen3-235b-a22b', 235.1e9],
  ['mixtral-8x22b', 140.6e9],
  ['mistral-small-24b', 23.57e9],
  ['phi-4', 14.66e9],
  ['gemma-2-9b', 9.24e9],
  ['gemma-2-27b', 27.23e9],
])('%s has %d parameters within 1 %', (name, published) => {
  expect(Math.abs(countParameters(findArchitecture(name)) / published - 1)).toBeLessThan(0.01)
})

test.each([
  ['resnet50', 4.09e9],
  ['mobilenet', 0.569e9],
  ['mobilenetv2', 0.3e9],
  ['vgg16', 15.47e9],
  ['alexnet', 0.714e9],
])('%s takes %d multiply-accumulates an image within 1 %', (name, macs) => {
  expect(
    Math.abs(countFlops(countWork(findArchitecture(name), { batch: 1 }, 'fp16')) / (2 * macs) - 1),
  ).toBeLessThan(0.01)
})

test('BERT-base at 128 tokens is about 22 GFLOP a text', () => {
  const work = countWork(findArchitecture('bert'), { batch: 1, sequenceLength: 128 }, 'fp16')
  expect(countFlops(work) / 1e9).toBeCloseTo(22.35, 1)
})

test('work grows with the batch, weights do not', () => {
  const one = countWork(findArchitecture('bert'), { batch: 1 }, 'fp16')
  const eight = countWork(findArchitecture('bert'), { batch: 8 }, 'fp16')
  expect(countFlops(eight)).toBe(8 * countFlops(one))
  expect(weightBytesOf(eight)).toBe(weightBytesOf(one))
})

test('decoding reads weights and the cache, one token of products', () => {
  const llama = findArchitecture('llama-3.1-8b') as Decoder
  // 32 layers × 2 × 8 heads × 128 × 2 bytes = 128 KiB a token.
  expect(countKvBytesPerToken(llama, 'fp16')).toBe(131072)
  const decode = countWork(llama, { batch: 4, sequenceLength: 1000, phase: 'decode' }, 'fp16')
  const prefill = countWork(llama, { batch: 4, sequenceLength: 1000 }, 'fp16')
  expect(decode.kvBytes).toBe(4 * 1000 * 131072)
  expect(countFlops(prefill) / countFlops(decode)).toBeGreaterThan(800)
  expect(weightBytesOf(decode) / (2 * (8.03e9 - 128256 * 4096))).toBeCloseTo(1, 2)
})

test('an unknown model tells which are close', () => {
  expect(() => findArchitecture('bert-bas')).toThrow(
    /unknown model architecture 'bert-bas'; did you mean bert-base/,
  )
  expect(() => findArchitecture('meta-llama/Llama-3.1-8B-Instruct')).toThrow(
    /did you mean llama-3\.1-8b/,
  )
})
