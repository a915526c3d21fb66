import { describe, expect, test } from 'vitest'
import { findGpu } from '../../devices/catalogue.ts'
import type { MachineFacts } from '../../machine/machine-facts.ts'
import type { GpuFacts } from '../../machine/nvidia-smi.ts'
import { parseResources } from '../../resources.ts'
import { countCores, createResourcePool, type GpuUse } from './resource-pool.ts'

const gpu = (more: Partial<GpuFacts> = {}): GpuFacts => ({
  vendor: 'nvidia',
  index: 0,
  uuid: 'GPU-0',
  name: 'Tesla T4',
  memoryMiB: 15360,
  usedMemoryMiB: 0,
  driver: '550.54',
  computeMode: 'Default',
  migEnabled: false,
  migDevices: [],
  ...more,
})
const a100 = gpu({
  uuid: 'GPU-A',
  name: 'NVIDIA A100-SXM4-40GB',
  memoryMiB: 40960,
  migEnabled: true,
  migDevices: [
    { uuid: 'MIG-20', profile: '3g.20gb', memoryMiB: 20480 },
    { uuid: 'MIG-5', profile: '1g.5gb', memoryMiB: 5120 },
    { uuid: 'MIG-10', profile: '2g.10gb', memoryMiB: 10240 },
  ],
})
const machine = (more: Partial<MachineFacts> = {}): MachineFacts => ({
  platform: 'linux',
  cpuModel: 'x',
  cores: 8,
  affinity: [0, 1, 2, 3],
  memoryMiB: 1,
  availableMemoryMiB: 1,
  cgroups: { version: 0 },
  gpus: [],
  mps: false,
  packages: [],
  ...more,
})
const never = new AbortController().signal
const real = { real: true, boundsMemory: false }
const reserve = (
  facts: MachineFacts,
  configuration: Record<string, number | string>,
  use: GpuUse = real,
) => createResourcePool(facts).reserve(parseResources(configuration), use, never)

describe('cores', () => {
  test('come from the end, so that the first stays with the load generator', async () => {
    const reservation = await reserve(machine(), { cpuCores: 2 })
    expect(reservation.coreList).toBe('2-3')
    expect(reservation.coresText).toBe('cores 2-3 (core 0 left to the load generator)')
  })
  test('all of them: shared, and said so', async () => {
    expect((await reserve(machine(), { cpuCores: 4 })).coresText).toContain(
      'shared with the load generator',
    )
  })
  test('only those this process may use', async () => {
    expect((await reserve(machine({ affinity: [1, 5, 6] }), { cpuCores: 2 })).coreList).toBe('5-6')
  })
  test('parts of a core take a whole one', async () => {
    expect((await reserve(machine(), { cpuCores: 1.5 })).coreList).toBe('2-3')
  })
  test('are never held twice; the next waits until they are released', async () => {
    const pool = createResourcePool(machine())
    const first = await pool.reserve(parseResources({ cpuCores: 3 }), real, never)
    let second: string | undefined
    const waiting = pool
      .reserve(parseResources({ cpuCores: 2 }), real, never)
      .then((reservation) => {
        second = reservation.coreList
      })
    await Promise.resolve()
    expect(second).toBeUndefined()
    first.release()
    first.release()
    await waiting
    expect(second).toBe('2-3')
  })
  test('fractions of one trial share cores, those of another trial do not', async () => {
    const pool = createResourcePool(machine())
    const reserveShare = async (cpuCores: number, trial: number) =>
      pool.reserve(parseResources({ cpuCores }), real, never, trial)
    const first = await reserveShare(0.5, 1)
    expect((await reserveShare(0.25, 1)).coreList).toBe('3')
    expect((await reserveShare(0.5, 1)).coreList).toBe('2')
    expect((await reserveShare(0.5, 2)).coreList).toBe('1')
    expect((await reserveShare(1, 1)).coreList).toBe('0')
    first.release()
    expect((await reserveShare(0.75, 1)).coreList).toBe('3')
  })
  test.each([
    { cores: [0.5, 0.25, 0.5], count: 2 },
    { cores: [0.5, 0.5, 2], count: 3 },
    { cores: [1.5, 0.25], count: 3 },
    { cores: [0.1, 0.2, 0.7], count: 1 },
  ])('predictors with $cores cores reserve $count together', async ({ cores, count }) => {
    expect(countCores(cores)).toBe(count)
    const pool = createResourcePool(machine())
    const lists = []
    for (const cpuCores of cores)
      lists.push((await pool.reserve(parseResources({ cpuCores }), real, never, 1)).coreList)
    const used = lists.flatMap((list) =>
      list.split(',').flatMap((range) => {
        const [from = 0, to = from] = range.split('-').map(Number)
        return Array.from({ length: to - from + 1 }, (_, i) => from + i)
      }),
    )
    expect(new Set(used).size).toBe(count)
  })
  test('waiting ends with the signal', async () => {
    const pool = createResourcePool(machine())
    await pool.reserve(parseResources({ cpuCores: 4 }), real, never)
    const abort = new AbortController()
    const waiting = pool.reserve(parseResources({ cpuCores: 1 }), real, abort.signal)
    abort.abort(new Error('interrupted'))
    await expect(waiting).rejects.toThrow('interrupted')
  })
})

describe('GPUs', () => {
  test('whole, by uuid', async () => {
    const reservation = await reserve(machine({ gpus: [gpu()] }), { gpu: 'T4' })
    expect(reservation.env).toEqual({ CUDA_VISIBLE_DEVICES: 'GPU-0' })
    expect(reservation).toMatchObject({
      devices: [{ uuid: 'GPU-0' }],
      gpuMemoryFraction: 1,
      gpuText: 'whole T4',
    })
  })
  test('others’ use of its memory is said', async () => {
    expect(
      (await reserve(machine({ gpus: [gpu({ usedMemoryMiB: 3000 })] }), { gpu: 'T4' })).gpuText,
    ).toContain('3000 MiB of it in use by other processes')
  })
  test('a share by MPS where its daemon runs: memory and threads', async () => {
    const { env, gpuText } = await reserve(machine({ gpus: [gpu()], mps: true }), {
      gpu: 'T4',
      gpuMemoryPercent: 25,
    })
    expect(env).toEqual({
      CUDA_VISIBLE_DEVICES: 'GPU-0',
      CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: '0=3840M',
      CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: '25',
    })
    expect(gpuText).toContain('MPS')
  })
  test('a share that the server itself keeps to: it alone is told', async () => {
    const { env, gpuText } = await reserve(
      machine({ gpus: [gpu()] }),
      { gpu: 'T4', gpuMemoryPercent: 25 },
      { real: true, boundsMemory: true },
    )
    expect(env).toEqual({ CUDA_VISIBLE_DEVICES: 'GPU-0' })
    expect(gpuText).toBe('25 % of a T4 by its own limit (memory only)')
  })
  test('a share that nothing enforces does not exist', async () => {
    const quarter = { gpu: 'T4', gpuMemoryPercent: 25 }
    await expect(reserve(machine({ gpus: [gpu()] }), quarter)).rejects.toThrow(
      /25 % of a T4: nothing on this machine enforces a share/,
    )
    const alone = machine({ gpus: [gpu({ computeMode: 'Exclusive_Process' })] })
    await expect(reserve(alone, quarter, { real: true, boundsMemory: true })).rejects.toThrow(
      /nothing on this machine enforces a share/,
    )
  })
  test('shares of trials at once add up to one GPU', async () => {
    const pool = createResourcePool(machine({ gpus: [gpu()], mps: true }))
    const half = parseResources({ gpu: 'T4', gpuMemoryPercent: 50 })
    const [first] = await Promise.all([
      pool.reserve(half, real, never),
      pool.reserve(half, real, never),
    ])
    const third = pool.reserve(half, real, AbortSignal.timeout(20))
    await expect(third).rejects.toThrow(/timeout/)
    first.release()
    await pool.reserve(half, real, never)
  })
  test('a MIG slice by the name of its profile; never by a share, and never the GPU around it', async () => {
    const reservation = await reserve(machine({ gpus: [a100] }), {
      gpu: 'A100-40GB',
      migProfile: '1g.5gb',
    })
    expect(reservation).toMatchObject({
      devices: [{ uuid: 'MIG-5' }],
      env: { CUDA_VISIBLE_DEVICES: 'MIG-5' },
      gpuMemoryFraction: 1,
    })
    expect(reservation.gpuText).toBe('A100-40GB slice 1g.5gb (MIG)')
    for (const configuration of [{}, { gpuMemoryPercent: 25 }, { migProfile: '4g.20gb' }] as Record<
      string,
      string | number
    >[])
      await expect(
        reserve(machine({ gpus: [a100] }), { gpu: 'A100-40GB', ...configuration }),
      ).rejects.toMatchObject({
        reason: 'no-such-gpu',
        message: expect.stringContaining('3g.20gb, 1g.5gb, 2g.10gb'),
      })
  })
  test('slices one at a time, whatever there are: a process sees no second one', async () => {
    const two = { gpu: 'A100-40GB', migProfile: '1g.5gb', gpus: 2 }
    await expect(reserve(machine({ gpus: [a100] }), two)).rejects.toThrow(
      /needs 2 MIG slices, but a process can use only one/,
    )
  })
  test('an AMD GPU by its index', async () => {
    const mi300x = gpu({
      vendor: 'amd',
      index: 1,
      uuid: 'AMD-1',
      name: 'AMD Instinct MI300X',
      memoryMiB: 196592,
    })
    const here = machine({ gpus: [mi300x] })
    expect((await reserve(here, { gpu: 'MI300X' })).env).toEqual({ HIP_VISIBLE_DEVICES: '1' })
    expect((await reserve(here, { cpuCores: 1 })).env).toEqual({ HIP_VISIBLE_DEVICES: '-1' })
    // MPS is NVIDIA's.
    await expect(
      reserve({ ...here, mps: true }, { gpu: 'MI300X', gpuMemoryPercent: 50 }),
    ).rejects.toThrow(/nothing on this machine enforces/)
  })
  test('beside another vendor’s: the one that is held, and none of the other', async () => {
    const both = machine({
      gpus: [gpu(), gpu({ vendor: 'amd', uuid: 'AMD-0', name: 'AMD Instinct MI300X' })],
    })
    expect((await reserve(both, { gpu: 'T4' })).env).toEqual({
      CUDA_VISIBLE_DEVICES: 'GPU-0',
      HIP_VISIBLE_DEVICES: '-1',
    })
    expect((await reserve(both, { gpu: 'MI300X' })).env).toEqual({
      CUDA_VISIBLE_DEVICES: '',
      HIP_VISIBLE_DEVICES: '0',
    })
    expect((await reserve(both, { cpuCores: 1 })).env).toEqual({
      CUDA_VISIBLE_DEVICES: '',
      HIP_VISIBLE_DEVICES: '-1',
    })
  })
  test('an AMD GPU by the runtime’s number where that counts a part of them', async () => {
    const die = gpu({
      vendor: 'amd',
      index: 5,
      ordinal: 1,
      uuid: 'AMD-5',
      name: 'AMD Instinct MI210',
    })
    expect((await reserve(machine({ gpus: [die] }), { gpu: 'MI210' })).env).toEqual({
      HIP_VISIBLE_DEVICES: '1',
    })
  })
  test('a Jetson’s by its index: the runtime takes no UUID without its prefix', async () => {
    const own = [{ ...findGpu('T4'), name: 'Orin (nvgpu)' }]
    const orin = gpu({
      index: 0,
      uuid: '54d0709b-558d-5a59-9c65-0c5fc14a21a4',
      name: 'Orin (nvgpu)',
    })
    const reservation = await createResourcePool(machine({ gpus: [orin] }), own).reserve(
      parseResources({ gpu: 'Orin (nvgpu)' }, {}, own),
      real,
      never,
    )
    expect(reservation.env).toEqual({ CUDA_VISIBLE_DEVICES: '0' })
  })
  test('the one that others use least', async () => {
    const two = machine({
      gpus: [gpu({ usedMemoryMiB: 9000 }), gpu({ uuid: 'GPU-1', usedMemoryMiB: 3 })],
    })
    expect((await reserve(two, { gpu: 'T4' })).env).toEqual({ CUDA_VISIBLE_DEVICES: 'GPU-1' })
  })
  test('several', async () => {
    const two = machine({ gpus: [gpu(), gpu({ uuid: 'GPU-1' })] })
    expect((await reserve(two, { gpu: 'T4', gpus: 2 })).env).toEqual({
      CUDA_VISIBLE_DEVICES: 'GPU-0,GPU-1',
    })
    expect((await reserve(two, { gpu: 'T4', gpus: 2 })).devices.map(({ uuid }) => uuid)).toEqual([
      'GPU-0',
      'GPU-1',
    ])
    await expect(reserve(two, { gpu: 'T4', gpus: 3 })).rejects.toMatchObject({
      reason: 'no-such-gpu',
    })
  })
  test('of another model, prohibited, or none: no such GPU, and what there is', async () => {
    const here = machine({ gpus: [gpu({ computeMode: 'Prohibited' })] })
    await expect(reserve(here, { gpu: 'T4' })).rejects.toMatchObject({ reason: 'no-such-gpu' })
    await expect(reserve(here, { gpu: 'V100' })).rejects.toThrow(
      /this machine has no V100; found: Tesla T4/,
    )
    await expect(
      reserve(machine({ gpuProblem: 'driver mismatch' }), { gpu: 'T4' }),
    ).rejects.toThrow(/driver mismatch/)
  })
  test('emulated ones take nothing', async () => {
    const reservation = await reserve(
      machine(),
      { gpu: 'V100', gpuMemoryPercent: 50 },
      { real: false, boundsMemory: false },
    )
    expect(reservation).toMatchObject({ env: {}, devices: [], gpuText: 'GPU V100 emulated, 50 %' })
  })
  test('a configuration without one does not find the machine’s', async () => {
    expect((await reserve(machine({ gpus: [gpu()] }), { gpu: 'none' })).env).toEqual({
      CUDA_VISIBLE_DEVICES: '',
    })
  })
})
