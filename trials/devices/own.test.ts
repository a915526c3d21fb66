import { expect, test } from 'vitest'
import { architectureOf, parameterCount } from './architecture.ts'
import { findGpu } from './catalogue.ts'
import { deviceLatencyMs, fits } from './device-model.ts'
import { parseArchitecture, parseGpus } from './own.ts'

test('a GPU of the user: the figures given, a larger error bar', () => {
  const own = parseGpus('Home Card:\n  memoryGiB: 16\n  bandwidthGBs: 500\n  peakTflops: { fp32: 20, fp16: 80 }\n', 'gpus.yaml')
  const gpu = findGpu('home-card', own)
  const bert = architectureOf('bert')
  const { ms, relativeError } = deviceLatencyMs({ architecture: bert, gpu, batch: 8 })
  expect(ms).toBeLessThan(deviceLatencyMs({ architecture: bert, gpu: findGpu('T4'), batch: 8 }).ms)
  expect(relativeError).toBeGreaterThan(0.1)
  expect(fits({ architecture: bert, gpu, batch: 8 }).fits).toBe(true)
})

test('every problem of a GPU file at once, with its line', () => {
  const text = 'Mine:\n  memoryGiB: -1\n  bandwith: 500\n  peakTflops: { fp16: 80 }\n'
  const lines = (() => {
    try {
      return parseGpus(text, 'gpus.yaml').map((g) => g.name)
    } catch (error) {
      return (error as Error).message.split('\n')
    }
  })()
  expect(lines).toContainEqual('gpus.yaml:2: Mine.memoryGiB: expected a number above 0, got -1')
  expect(lines).toContainEqual(expect.stringMatching(/^gpus.yaml:3: Mine: unknown key 'bandwith'/))
  expect(lines).toContainEqual(expect.stringMatching(/^gpus.yaml:1: Mine.bandwidthGBs: expected a number/))
  expect(lines).toContainEqual(expect.stringMatching(/^gpus.yaml:4: Mine.peakTflops.fp32: expected a number/))
})

const base = {
  model_type: 'bert',
  hidden_size: 768,
  num_hidden_layers: 12,
  num_attention_heads: 12,
  intermediate_size: 3072,
  vocab_size: 30522,
  max_position_embeddings: 512,
  hidden_act: 'gelu',
}

test("a model's own config.json", () => {
  const mine = parseArchitecture(JSON.stringify(base), 'config.json', 'mine')
  expect(mine.kind).toBe('encoder')
  expect(parameterCount(mine)).toBe(parameterCount(architectureOf('bert')))
  const decoder = parseArchitecture(JSON.stringify({ ...base, model_type: 'llama', num_key_value_heads: 4 }), 'config.json', 'mine')
  expect(decoder).toMatchObject({ kind: 'decoder', kvHeads: 4, headSize: 64 })
})

test('a missing dimension is named', () => {
  const { hidden_size, vocab_size, ...rest } = base
  expect([hidden_size, vocab_size]).toEqual([768, 30522])
  const parse = () => parseArchitecture(JSON.stringify(rest), 'config.json', 'mine')
  expect(parse).toThrow(/config.json:1: hidden_size: expected a whole number/)
  expect(parse).toThrow(/config.json:1: vocab_size: expected a whole number/)
  expect(() => parseArchitecture(JSON.stringify({ ...base, num_attention_heads: 7 }), 'c.json', 'm')).toThrow(/give head_dim/)
})
