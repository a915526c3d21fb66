import { expect, test } from 'vitest'
import {
  countGpus,
  describeConfiguration,
  parseResources,
  readServingParameters,
} from './resources.ts'

test('standard names become resources', () => {
  expect(
    parseResources({ cpuCores: 2, gpu: 'Tesla T4', gpuMemoryPercent: 25, batchSize: 8 }),
  ).toEqual({
    cpuCores: 2,
    memoryMiB: 4096,
    gpu: 'T4',
    gpus: 1,
    gpuShare: 0.25,
    gpuMemoryMiB: 3840,
  })
  expect(parseResources({ cpuCores: 4, gpu: 'none' }, { memoryMiB: 2048 })).toEqual({
    cpuCores: 4,
    memoryMiB: 2048,
    gpus: 0,
    gpuShare: 0,
  })
})

test('a MIG profile decides share and memory', () => {
  const held = parseResources({ gpu: 'A100-80GB', migProfile: '1g.10gb', gpuMemoryPercent: 50 })
  expect(held).toMatchObject({ gpuShare: 1 / 7, gpuMemoryMiB: 9984, migProfile: '1g.10gb' })
  expect(() => parseResources({ gpu: 'T4', migProfile: '1g.10gb' })).toThrow(
    /T4 has no MIG profiles/,
  )
})

test('pools of servers hold what each of their servers holds, as often as there are servers', () => {
  const each = { cpuCores: 2, memoryMiB: 1024, gpu: 'H100', gpus: 2 }
  const pooled = { ...each, prefillReplicas: 1, decodeReplicas: 3 }
  expect(parseResources(pooled)).toMatchObject({
    cpuCores: 8,
    memoryMiB: 4096,
    gpus: 8,
    pools: { prefill: 1, decode: 3 },
  })
  expect([countGpus(pooled), countGpus(each)]).toEqual([8, 2])
  const unlike = { ...pooled, decodeGpus: 4 }
  expect(parseResources(unlike)).toMatchObject({
    cpuCores: 8,
    gpus: 14,
    pools: { prefillGpus: 2, decodeGpus: 4 },
  })
  expect([
    countGpus(unlike),
    countGpus({ ...each, decodeReplicas: 0, prefillReplicas: 0, decodeGpus: 4 }),
  ]).toEqual([14, 2])
  const none = { ...each, prefillReplicas: 0, decodeReplicas: 0 }
  expect(parseResources(none)).toEqual(parseResources(each))
  expect(parseResources(none)).not.toHaveProperty('pools')
  expect(describeConfiguration(none)).toBe(describeConfiguration(each))
})

test('bad values say which and why', () => {
  expect(() => parseResources({ prefillReplicas: 2 })).toThrow(
    'prefillReplicas is 2 and decodeReplicas 0; set at least one of each, or both to 0',
  )
  expect(() => parseResources({ prefillReplicas: 1.5, decodeReplicas: 1 })).toThrow(
    'prefillReplicas is 1.5; use a whole number',
  )
  expect(() => parseResources({ cpuCores: -1 })).toThrow('cpuCores is -1; use a number above 0')
  expect(() => parseResources({ cpuCores: Number.NaN })).toThrow('cpuCores is NaN')
  expect(() => parseResources({ gpu: 'T4', gpuMemoryPercent: 120 })).toThrow('at most 100')
  expect(() => parseResources({ gpu: 'T5' })).toThrow(/unknown GPU 'T5'; did you mean T4/)
  expect(() => readServingParameters({ precision: 'fp15' })).toThrow(
    /precision is 'fp15'; did you mean .*fp16/,
  )
})

test.each([
  [
    { cpuCores: 2, gpu: 'T4', gpuMemoryPercent: 25, batchSize: 8 },
    '2 cores, 1/4 T4 (4 GiB), batch 8',
  ],
  [{ cpuCores: 1, gpu: 'V100', gpuMemoryPercent: 100, batchSize: 1 }, '1 core, V100, batch 1'],
  [{ cpuCores: 1, gpu: 'none', batchSize: 4 }, '1 core, no GPU, batch 4'],
  [{ gpu: 'A100-40GB', migProfile: '2g.10gb', precision: 'int8' }, 'A100-40GB slice 2g.10gb, int8'],
  [
    { cpuCores: 1.5, gpu: 'T4', gpuMemoryPercent: 35, workers: 3 },
    '1.5 cores, 35 % of a T4 (5.6 GiB), workers 3',
  ],
  [{ gpu: 'H100', gpus: 4 }, '4 x H100'],
  [{ cpuCores: 0.15, memoryMiB: 16 }, '0.15 cores, 16 MiB memory'],
  [{ cpuCores: 0.125, memoryMiB: 1023 }, '0.125 cores, 1023 MiB memory'],
  [{ cpuCores: 1.25, memoryMiB: 1536 }, '1.25 cores, 1.5 GiB memory'],
  [{ cpuCores: 64, memoryMiB: 10_752 }, '64 cores, 10.5 GiB memory'],
  [
    { cpuCores: 1, gpu: 'H100', gpus: 2, prefillReplicas: 1, decodeReplicas: 2 },
    '3 cores, 1 prefill + 2 decode of 2 x H100',
  ],
  [{ gpu: 'L4', prefillReplicas: 2, decodeReplicas: 1 }, '2 prefill + 1 decode of L4'],
  [
    { gpu: 'H100', gpus: 1, prefillReplicas: 1, decodeReplicas: 2, decodeGpus: 2 },
    '1 prefill of H100 + 2 decode of 2 x H100',
  ],
])('%j reads %s', (configuration, text) => {
  expect(describeConfiguration(configuration)).toBe(text)
})
