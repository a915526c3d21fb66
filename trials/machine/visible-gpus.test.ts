import { describe, expect, test } from 'vitest'
import type { GpuFacts } from './nvidia-smi.ts'
import { selectVisibleGpus } from './visible-gpus.ts'

const gpu = (index: number, more: Partial<GpuFacts> = {}): GpuFacts => ({
  vendor: 'nvidia',
  index,
  uuid: `GPU-${index}${index}abcdef-0000`,
  name: 'Tesla T4',
  usedMemoryMiB: 0,
  driver: '550.54',
  computeMode: 'Default',
  migEnabled: false,
  migDevices: [],
  ...more,
})
const four = [0, 1, 2, 3].map((index) => gpu(index))
const slice = (uuid: string) => ({ uuid, profile: '1g.5gb', memoryMiB: 5120 })
const left = (gpus: readonly GpuFacts[], environment: Record<string, string>) => {
  const { gpus: seen, problem } = selectVisibleGpus(gpus, environment)
  return { indices: seen.map(({ index }) => index), problem }
}

describe('CUDA_VISIBLE_DEVICES', () => {
  test.each<[string, number[], string | undefined]>([
    ['2', [2], "CUDA_VISIBLE_DEVICES='2' leaves 1 of 4 GPUs"],
    ['3, 1', [3, 1], "CUDA_VISIBLE_DEVICES='3, 1' leaves 2 of 4 GPUs"],
    ['0,1,2,3', [0, 1, 2, 3], undefined],
    ['', [], "CUDA_VISIBLE_DEVICES='' leaves 0 of 4 GPUs"],
    ['GPU-22abc', [2], "CUDA_VISIBLE_DEVICES='GPU-22abc' leaves 1 of 4 GPUs"],
    [
      '0,2,-1,1',
      [0, 2],
      "CUDA_VISIBLE_DEVICES='0,2,-1,1' leaves 2 of 4 GPUs; this machine has no '-1', and every GPU listed after it is hidden too",
    ],
    [
      'GPU-',
      [],
      "CUDA_VISIBLE_DEVICES='GPU-' leaves 0 of 4 GPUs; this machine has no 'GPU-', and every GPU listed after it is hidden too",
    ],
    [
      'NoDevFiles',
      [],
      "CUDA_VISIBLE_DEVICES='NoDevFiles' leaves 0 of 4 GPUs; this machine has no 'NoDevFiles', and every GPU listed after it is hidden too",
    ],
  ])("'%s'", (value, indices, problem) => {
    expect(left(four, { CUDA_VISIBLE_DEVICES: value })).toEqual({ indices, problem })
  })

  test('a beginning that two have names neither', () => {
    const alike = [gpu(0), gpu(1, { uuid: 'GPU-00abcdef-1111' })]
    expect(left(alike, { CUDA_VISIBLE_DEVICES: 'GPU-00ab' }).indices).toEqual([])
    expect(left(alike, { CUDA_VISIBLE_DEVICES: 'GPU-00abcdef-1' }).indices).toEqual([1])
  })

  test('MIG slices, by either form of their UUIDs; a GPU named by its place keeps all of them', () => {
    const cut = gpu(0, {
      migEnabled: true,
      migDevices: [slice('MIG-a1'), slice('MIG-b2'), slice('MIG-GPU-00abcdef-0000/3/0')],
    })
    const slices = (value: string) =>
      selectVisibleGpus([cut, gpu(1)], { CUDA_VISIBLE_DEVICES: value }).gpus.map(({ migDevices }) =>
        migDevices.map(({ uuid }) => uuid),
      )
    expect(slices('MIG-b2,MIG-GPU-00abcdef-0000/3/0')).toEqual([
      ['MIG-b2', 'MIG-GPU-00abcdef-0000/3/0'],
    ])
    expect(slices('0')).toEqual([['MIG-a1', 'MIG-b2', 'MIG-GPU-00abcdef-0000/3/0']])
    expect(left([cut, gpu(1)], { CUDA_VISIBLE_DEVICES: 'MIG-b2' }).problem).toBe(
      "CUDA_VISIBLE_DEVICES='MIG-b2' leaves 1 of 4 GPUs",
    )
  })

  test('a place among several models is not CUDA’s, unless it is told to count so', () => {
    const mixed = [gpu(0), gpu(1, { name: 'NVIDIA A100-SXM4-40GB' })]
    expect(left(mixed, { CUDA_VISIBLE_DEVICES: '1' }).problem).toMatch(
      /leaves 1 of 2 GPUs; GPUs are numbered as in nvidia-smi; CUDA numbers the fastest first/,
    )
    expect(
      left(mixed, { CUDA_VISIBLE_DEVICES: '1', CUDA_DEVICE_ORDER: 'PCI_BUS_ID' }).problem,
    ).toBe("CUDA_VISIBLE_DEVICES='1' leaves 1 of 2 GPUs")
    expect(left(mixed, { CUDA_VISIBLE_DEVICES: mixed[1]!.uuid }).problem).not.toContain('fastest')
  })
})

test('without a word, or for a vendor that is not here: all', () => {
  expect(selectVisibleGpus(four, {})).toEqual({ gpus: four })
  expect(selectVisibleGpus(four, { HIP_VISIBLE_DEVICES: '0', ROCR_VISIBLE_DEVICES: '1' })).toEqual({
    gpus: four,
  })
})

test('AMD’s by UUID, as its runtimes write it, in either case; the dies of one package by their places alone', () => {
  const cards = ['GPU-719d230578348e8c', 'GPU-00000000005d9b00', undefined].map(
    (runtimeUuid, index) => gpu(index, { vendor: 'amd', uuid: `AMD-${index}`, runtimeUuid }),
  )
  expect(left(cards, { ROCR_VISIBLE_DEVICES: 'GPU-719D230578348E8C' })).toEqual({
    indices: [0],
    problem: "ROCR_VISIBLE_DEVICES='GPU-719D230578348E8C' leaves 1 of 3 GPUs",
  })
  expect(left(cards, { ROCR_VISIBLE_DEVICES: 'gpu-0000,0' }).indices).toEqual([1, 0])
  expect(left(cards, { HIP_VISIBLE_DEVICES: 'GPU-719d' }).indices).toEqual([0])
  expect(left(cards, { ROCR_VISIBLE_DEVICES: 'GPU-5d9b00' }).problem).toContain(
    "this machine has no 'GPU-5d9b00'",
  )
  const dies = [0, 1].map((index) =>
    gpu(index, { vendor: 'amd', uuid: `AMD-${index}`, runtimeUuid: 'GPU-719d230578348e8c' }),
  )
  expect(left(dies, { ROCR_VISIBLE_DEVICES: 'GPU-719d230578348e8c' }).indices).toEqual([])
})

test('HIP reads CUDA_VISIBLE_DEVICES for want of its own; an empty list is none', () => {
  const cards = [0, 1, 2].map((index) =>
    gpu(index, { vendor: 'amd', uuid: `AMD-${index}`, name: `card ${index}` }),
  )
  expect(left(cards, { CUDA_VISIBLE_DEVICES: '2,1' })).toEqual({
    indices: [2, 1],
    problem: "CUDA_VISIBLE_DEVICES='2,1' leaves 2 of 3 GPUs",
  })
  expect(left(cards, { CUDA_VISIBLE_DEVICES: '2', HIP_VISIBLE_DEVICES: '0' }).indices).toEqual([0])
  expect(left(cards, { CUDA_VISIBLE_DEVICES: '2', HIP_VISIBLE_DEVICES: '' }).indices).toEqual([2])
  for (const name of ['CUDA_VISIBLE_DEVICES', 'HIP_VISIBLE_DEVICES'])
    expect(left(cards, { [name]: '' })).toEqual({ indices: [0, 1, 2], problem: undefined })
  expect(left(cards, { ROCR_VISIBLE_DEVICES: '' }).indices).toEqual([])
  expect(left([gpu(0), ...cards], { CUDA_VISIBLE_DEVICES: '0' }).indices).toEqual([0, 0, 1, 2])
})

test('AMD’s runtime counts what ROCR_VISIBLE_DEVICES leaves it', () => {
  const cards = [0, 1, 2].map((index) => gpu(index, { vendor: 'amd', uuid: `AMD-${index}` }))
  expect(left(cards, { HIP_VISIBLE_DEVICES: '2' }).indices).toEqual([2])
  const { gpus } = selectVisibleGpus([gpu(0), ...cards], {
    ROCR_VISIBLE_DEVICES: '2,0',
    HIP_VISIBLE_DEVICES: '1',
  })
  expect(gpus.map(({ vendor, index, ordinal }) => [vendor, index, ordinal])).toEqual([
    ['nvidia', 0, undefined],
    ['amd', 0, 1],
  ])
})
