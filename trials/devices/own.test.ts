import { Matrix, solve } from 'ml-matrix'
import { expect, test } from 'vitest'
import { architectureOf, type Decoder, parameterCount } from './architecture.ts'
import { findGpu, type Gpu, gpuCatalogue } from './catalogue.ts'
import { deviceLatencyMs, fits } from './device-model.ts'
import { processOf } from './device-physics.ts'
import { completed, parseArchitecture, parseGpus, thriftyWatts } from './own.ts'

test('a GPU of the user: the figures given, a larger error bar', () => {
  const own = parseGpus('Home Card:\n  memoryGiB: 16\n  bandwidthGBs: 500\n  peakTflops: { fp32: 20, fp16: 80 }\n', 'gpus.yaml')
  const gpu = findGpu('home-card', own)
  const bert = architectureOf('bert')
  const { ms, relativeError } = deviceLatencyMs({ architecture: bert, gpu, batch: 8 })
  expect(ms).toBeLessThan(deviceLatencyMs({ architecture: bert, gpu: findGpu('T4'), batch: 8 }).ms)
  expect(relativeError).toBeGreaterThan(0.1)
  expect(fits({ architecture: bert, gpu, batch: 8 }).fits).toBe(true)
})

test('power that a datasheet does not tell is that of the catalogue’s GPUs, and one of them left out is met to 25 %', () => {
  const known = gpuCatalogue.filter((gpu) => gpu.peakTflops.fp16 !== undefined)
  const truth = (gpu: Gpu) => Math.log((gpu.tdpWatts * 12) / processOf(gpu))
  const row = (gpu: Gpu) => [1, Math.log(gpu.bandwidthGBs), Math.log(gpu.peakTflops.fp32!)]
  const fitted = (gpus: readonly Gpu[]) => solve(new Matrix(gpus.map(row)), Matrix.columnVector(gpus.map(truth))).to1DArray()
  const told = (x: readonly number[], gpu: Gpu) => row(gpu).reduce((sum, value, i) => sum + value * x[i]!, 0)
  const all = fitted(known)
  for (const gpu of known) expect(Math.log(thriftyWatts(gpu)), gpu.name).toBeCloseTo(told(all, gpu), 1)
  const left = known.map((gpu) => told(fitted(known.filter((other) => other !== gpu)), gpu) - truth(gpu))
  expect(Math.sqrt(left.reduce((sum, e) => sum + e ** 2, 0) / left.length)).toBeLessThan(0.26)
})

test('a GPU of which the generation alone is not told is as unsure as one with guessed figures, and its process lies between those there are', () => {
  const { name: _, bare: __, ...sheet } = findGpu('A10')
  const { generation, ...rest } = sheet
  expect(completed('Card', { ...rest, generation }).bare).toBeUndefined()
  expect(completed('Card', rest)).toMatchObject({ bare: true, processNm: 8 })
  const ms = (gpu: Gpu) => deviceLatencyMs({ architecture: architectureOf('bert'), gpu, batch: 64 }).ms
  expect(ms(completed('Card', { ...rest, generation: 'Turing' }))).toBeGreaterThan(ms(completed('Card', rest)))
  expect(ms(completed('Card', { ...rest, generation: 'Ada' }))).toBeLessThan(ms(completed('Card', rest)))
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

test('a mixture of experts: Mixtral by its names, Qwen by its own; what a token goes through must be said, and MLA is refused', () => {
  const base = { hidden_size: 4096, num_hidden_layers: 32, num_attention_heads: 32, num_key_value_heads: 8, vocab_size: 32000 }
  const read = (more: Record<string, unknown>) =>
    parseArchitecture(JSON.stringify({ ...base, model_type: 'mixtral', ...more }, null, 1), 'config.json', 'mine') as Decoder
  const mixtral = read({ intermediate_size: 14336, num_local_experts: 8, num_experts_per_tok: 2 })
  expect(mixtral.experts).toEqual({ count: 8, active: 2 })
  // As published: 46.7 billion.
  expect(parameterCount(mixtral) / 1e9).toBeCloseTo(46.7, 1)
  const qwen = read({ intermediate_size: 6144, moe_intermediate_size: 768, num_experts: 128, num_experts_per_tok: 8 })
  expect([qwen.intermediate, qwen.experts]).toEqual([768, { count: 128, active: 8 }])
  expect(parameterCount(architectureOf('qwen3-30b-a3b')) / 1e9).toBeCloseTo(30.5, 1)
  expect(() => read({ intermediate_size: 14336, num_local_experts: 8 })).toThrow(/num_experts_per_tok: expected how many of the 8 experts/)
  expect(() => read({ intermediate_size: 14336, kv_lora_rank: 512 })).toThrow(/config\.json:\d+.*MLA/)
})

test('a missing dimension is named', () => {
  const { hidden_size, vocab_size, ...rest } = base
  expect([hidden_size, vocab_size]).toEqual([768, 30522])
  const parse = () => parseArchitecture(JSON.stringify(rest), 'config.json', 'mine')
  expect(parse).toThrow(/config.json:1: hidden_size: expected a whole number/)
  expect(parse).toThrow(/config.json:1: vocab_size: expected a whole number/)
  expect(() => parseArchitecture(JSON.stringify({ ...base, num_attention_heads: 7 }), 'c.json', 'm')).toThrow(/give head_dim/)
})
