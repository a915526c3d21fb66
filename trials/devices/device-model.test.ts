import fc from 'fast-check'
import { expect, test } from 'vitest'
import { architectures, findArchitecture } from './architecture.ts'
import { findGpu, gpuCatalogue } from './catalogue.ts'
import { fits, predictDeviceLatency, predictGpuMemory } from './device-model.ts'
import { findMigProfile } from './mig.ts'
import { foretoldShortages } from './testing/anchored-tables.ts'

const bert = findArchitecture('bert')
const t4 = findGpu('T4')

const call = fc.record({
  architecture: fc.constantFrom(...architectures),
  gpu: fc.constantFrom(...gpuCatalogue),
  batch: fc.integer({ min: 1, max: 128 }),
  sequenceLength: fc.constantFrom(16, 64, 128, 384),
  share: fc.constantFrom(0.1, 0.25, 0.5, 1),
})

test('a larger batch takes no less time and needs more memory; an item costs little more once the cache spills', () => {
  fc.assert(
    fc.property(call, (c) => {
      const twice = { ...c, batch: 2 * c.batch }
      // From one to two sequences of 16 tokens nothing changes but the noise of the tables that
      // correct the physics: at most 0.2 % down.
      expect(predictDeviceLatency(twice).ms).toBeGreaterThan(0.998 * predictDeviceLatency(c).ms)
      expect(predictDeviceLatency(twice).ms).toBeLessThanOrEqual(
        2 * 1.4 * predictDeviceLatency(c).ms,
      )
      expect(predictGpuMemory(twice).mib).toBeGreaterThan(predictGpuMemory(c).mib)
    }),
  )
})

test('less of a GPU is never faster, and error bars are positive', () => {
  fc.assert(
    fc.property(call, (c) => {
      const whole = predictDeviceLatency({ ...c, share: 1 })
      expect(predictDeviceLatency(c).ms).toBeGreaterThanOrEqual(whole.ms)
      expect(whole.relativeError).toBeGreaterThan(0)
      expect(predictDeviceLatency({ ...c, sharing: 'memory-only' }).ms).toBe(whole.ms)
    }),
  )
})

test('memory: BERT-base fits a quarter T4, a 14 B model does not fit a whole one', () => {
  expect(fits({ architecture: bert, gpu: t4, batch: 32, share: 0.25 }).fits).toBe(true)
  const large = fits({ architecture: findArchitecture('qwen2.5-14b'), gpu: t4, batch: 1 })
  expect(large.fits).toBe(false)
  expect(large.neededMiB).toBeGreaterThan(28_000)
  expect(fits({ architecture: bert, gpu: t4, batch: 1 }, 300).fits).toBe(false)
})

test.each([
  [1, 'fp16', 948],
  [128, 'fp16', 1440],
  [128, 'fp32', 2204],
] as const)(
  'a framework on an H200 with batches of %i in %s needs what PyTorch took: %i MiB',
  (batch, precision, mib) => {
    const needed = predictGpuMemory({
      architecture: bert,
      gpu: findGpu('H200'),
      batch,
      precision,
      sequenceLength: 128,
      isEager: true,
    }).mib
    expect(needed / mib).toBeGreaterThan(0.9)
    expect(needed / mib).toBeLessThan(1.15)
  },
)

test('of cells that ran out of memory in PyTorch some are foreseen, and none that served', () => {
  const shortages = ['bert', 'resnet50', 'vgg16', 'mobilenetv2'].map(foretoldShortages)
  expect(shortages.reduce((sum, { found }) => sum + found, 0)).toBeGreaterThan(50)
  expect(shortages.reduce((sum, { falseAlarms }) => sum + falseAlarms, 0)).toBe(0)
})

test('impossible calls are refused with the reason', () => {
  expect(() => predictDeviceLatency({ architecture: bert, gpu: t4, batch: 1, share: 0 })).toThrow(
    'a GPU share of 0 is not in (0, 1]',
  )
  expect(() => predictDeviceLatency({ architecture: bert, gpu: t4, batch: 0 })).toThrow(
    'a batch of 0 is below 1',
  )
  expect(() =>
    predictDeviceLatency({ architecture: bert, gpu: t4, batch: 1, sequenceLength: 1024 }),
  ).toThrow('bert-base takes at most 512 tokens, not 1024; lower sequenceLength')
})

test('published latencies of calibrated GPUs come back within their spread', () => {
  // NVIDIA/TensorRT demo/BERT: T4 fp16, 128 tokens; L4 int8, 384 tokens.
  const base = (name: string, batch: number, precision: 'fp16' | 'int8', sequenceLength: number) =>
    predictDeviceLatency({
      architecture: bert,
      gpu: findGpu(name),
      batch,
      precision,
      sequenceLength,
    }).ms
  expect(base('T4', 8, 'fp16', 128) / 8.77).toBeCloseTo(1, 1)
  expect(base('T4', 1, 'fp16', 128) / 1.95).toBeCloseTo(1, 1)
  expect(base('A100', 128, 'fp16', 128) / 15.6).toBeCloseTo(1, 1)
})

test('error bars: smallest where tables are, larger for another model, largest for another GPU', () => {
  const error = (name: string, model: string) =>
    predictDeviceLatency({ architecture: findArchitecture(model), gpu: findGpu(name), batch: 8 })
      .relativeError
  expect(error('T4', 'bert')).toBeLessThan(0.05)
  expect(error('T4', 'bert-tiny')).toBeGreaterThan(error('T4', 'bert'))
  expect(error('RTX-4090', 'mobilenet')).toBeGreaterThan(error('RTX-4090', 'bert'))
  expect(error('RTX-4090', 'bert')).toBeGreaterThan(error('T4', 'bert'))
})

test('one slice of seven gives about a seventh of the throughput', () => {
  const a100 = findGpu('A100')
  const whole = predictDeviceLatency({ architecture: bert, gpu: a100, batch: 64 }).ms
  const slice = predictDeviceLatency({
    architecture: bert,
    gpu: a100,
    batch: 64,
    mig: findMigProfile(a100, '1g.5gb'),
  }).ms
  // Published: a 1g slice gives 0.13-0.14 of the whole (ParvaGPU, SC '24).
  expect(whole / slice).toBeGreaterThan(0.11)
  expect(whole / slice).toBeLessThan(0.16)
})

test('a runtime is one of the calibrated ones', () => {
  const resnet = { architecture: findArchitecture('resnet50'), gpu: findGpu('V100'), batch: 1 }
  expect(predictDeviceLatency({ ...resnet, runtime: 'pytorch' }).ms).toBeGreaterThan(
    2 * predictDeviceLatency(resnet).ms,
  )
  expect(() => predictDeviceLatency({ ...resnet, runtime: 'abacus' })).toThrow(
    /unknown runtime 'abacus'; known: tensorrt, .*pytorch/,
  )
})
