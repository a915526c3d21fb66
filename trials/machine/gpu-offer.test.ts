import { describe, expect, test } from 'vitest'
import {
  findCatalogueName,
  findShareBound,
  getForeignMemoryMiB,
  isWhole,
  listGpuWarnings,
} from './gpu-offer.ts'
import type { GpuFacts } from './nvidia-smi.ts'

const gpu = (more: Partial<GpuFacts> = {}): GpuFacts => ({
  vendor: 'nvidia',
  index: 1,
  uuid: 'GPU-1',
  name: 'NVIDIA A100-SXM4-40GB',
  memoryMiB: 40_960,
  usedMemoryMiB: 4,
  driver: '550.54',
  computeMode: 'Default',
  migEnabled: false,
  migDevices: [],
  ...more,
})
const amd = gpu({ vendor: 'amd', name: 'AMD Instinct MI300X' })
const exclusive = gpu({ computeMode: 'Exclusive_Process' })

test('a GPU is whole unless it is cut into slices or lets nobody in', () => {
  expect([gpu(), exclusive].map(isWhole)).toEqual([true, true])
  expect([gpu({ migEnabled: true }), gpu({ computeMode: 'Prohibited' })].map(isWhole)).toEqual([
    false,
    false,
  ])
})

test('it is called by the catalogue, else by the driver', () => {
  expect(findCatalogueName('NVIDIA A100-SXM4-40GB')).toMatch(/^A100/)
  expect(findCatalogueName('Unheard of 9000')).toBe('Unheard of 9000')
})

describe('a share of a GPU exists', () => {
  test.each<[string, readonly GpuFacts[], boolean, boolean, ReturnType<typeof findShareBound>]>([
    ['where an MPS daemon runs', [gpu()], true, false, 'mps'],
    ['by the daemon rather than by the server', [gpu(), gpu()], true, true, 'mps'],
    ["by the server's own limit", [gpu()], false, true, 'server'],
    ['by the server on AMD, which has no MPS', [gpu(), amd], true, true, 'server'],
    [
      'under MPS in exclusive mode too: the daemon is the one process',
      [exclusive],
      true,
      true,
      'mps',
    ],
  ])('%s', (_, gpus, mps, serverBounds, bound) => {
    expect(findShareBound(gpus, mps, serverBounds)).toBe(bound)
  })

  test.each<[string, readonly GpuFacts[], boolean, boolean]>([
    ['where nothing enforces it', [gpu()], false, false],
    ['of AMD under MPS', [amd], true, false],
    ['of one of which a second process could not have the rest', [gpu(), exclusive], false, true],
    [
      'of one in the exclusive mode of drivers before it',
      [gpu({ computeMode: 'Exclusive_Thread' })],
      false,
      true,
    ],
    ['where there is no GPU', [], true, true],
    ['where there are slices alone', [gpu({ migEnabled: true })], true, true],
  ])('not %s', (_, gpus, mps, serverBounds) => {
    expect(findShareBound(gpus, mps, serverBounds)).toBeUndefined()
  })
})

test('others hold memory once it is more than a display takes', () => {
  expect(
    [512, 513, 30_000].map((usedMemoryMiB) => getForeignMemoryMiB(gpu({ usedMemoryMiB }))),
  ).toEqual([0, 513, 30_000])
})

describe('what is said of a GPU', () => {
  const slice = { uuid: 'MIG-1', profile: '1g.5gb' } as unknown as GpuFacts['migDevices'][number]

  test('is nothing where it is idle, nor of one that MPS shares, nor of one whose slices are made', () => {
    expect(listGpuWarnings(gpu(), false)).toEqual([])
    expect(listGpuWarnings(exclusive, true)).toEqual([])
    expect(listGpuWarnings(gpu({ migEnabled: true, migDevices: [slice] }), false)).toEqual([])
  })

  test('that nothing can run on it comes alone', () => {
    expect(listGpuWarnings(gpu({ computeMode: 'Prohibited', usedMemoryMiB: 9000 }), false)).toEqual(
      [
        'NVIDIA A100-SXM4-40GB (GPU 1) is in compute mode Prohibited: nothing can run on it (nvidia-smi -i 1 -c DEFAULT)',
      ],
    )
  })

  test('is what to type where it has no slice, by the smallest profile that it knows', () => {
    const [said, ...others] = listGpuWarnings(gpu({ migEnabled: true }), false)
    expect(others).toEqual([])
    expect(said).toContain('nvidia-smi mig -i 1 -cgi 1g.5gb -C')
    expect(listGpuWarnings(gpu({ name: 'Unheard of 9000', migEnabled: true }), false)[0]).toContain(
      '-cgi PROFILE -C',
    )
  })

  test('is that its memory failed', () => {
    expect(listGpuWarnings(gpu({ eccErrors: 0 }), false)).toEqual([])
    expect(listGpuWarnings(gpu({ eccErrors: 2 }), false)).toEqual([
      'NVIDIA A100-SXM4-40GB (GPU 1): 2 uncorrected memory errors since its driver was loaded: processes on it may crash or return wrong results (nvidia-smi -i 1 -q -d ECC,ROW_REMAPPER)',
    ])
  })

  test('is who has it beside us, and whether one process alone may', () => {
    const found = listGpuWarnings(
      gpu({ usedMemoryMiB: 9000, computeMode: 'Exclusive_Process' }),
      false,
    )
    expect(found).toEqual([
      expect.stringContaining('9000 of 40960 MiB are in use by other processes'),
      expect.stringContaining('is in exclusive mode: a server with several processes fails'),
    ])
  })
})
