import { describe, expect, test } from 'vitest'
import { getMachineNowMs } from '../../clock.ts'
import type { EngineOptions, Tensors } from '../engine.ts'
import { createEngine, EmulatedDevice, Sleeper } from './emulated.ts'

const options = (more: Partial<EngineOptions> = {}): EngineOptions => ({
  model: 'bert-tiny',
  batchSize: 4,
  sequenceLength: 16,
  precision: 'fp16',
  gpu: 'T4',
  gpuMemoryPercent: 100,
  gpuSharing: 'time-slice',
  instances: 1,
  warmUpBatch: 4,
  cpuThreads: 1,
  seed: 1,
  ...more,
})
const ids = (rows: number[][], length = 16): Tensors => {
  const data = new Int32Array(rows.length * length)
  for (const [i, row] of rows.entries()) data.set(row, i * length)
  const shape = [rows.length, length]
  return {
    input_ids: { datatype: 'INT32', shape, data },
    attention_mask: { datatype: 'INT32', shape, data: data.map(Math.sign) },
  }
}
const infer = async (inputs: Tensors, more: Partial<EngineOptions> = {}) => {
  const engine = createEngine(options(more))
  await engine.load()
  return Array.from((await engine.infer(inputs, getMachineNowMs())).logits!.data)
}

describe('the emulated engine', () => {
  test('names itself as emulated and describes the model', async () => {
    const engine = createEngine(options({ gpuMemoryPercent: 25 }))
    expect([engine.provenance, engine.device]).toEqual([
      'emulated',
      'T4 (emulated), 25 % by time-slice',
    ])
    expect(await engine.load()).toMatchObject({
      task: 'text',
      inputs: [{ name: 'input_ids', shape: [-1, 16] }, { name: 'attention_mask' }],
    })
    expect(await createEngine(options({ model: 'resnet50' })).load()).toMatchObject({
      task: 'image',
      inputs: [{ name: 'image', datatype: 'FP32', shape: [-1, 224, 224, 3] }],
      outputs: [{ shape: [-1, 1000] }],
    })
  })

  test('outputs depend on the item and the seed alone', async () => {
    const [first, second] = [
      [101, 7, 102],
      [101, 8, 102],
    ]
    const both = await infer(ids([first, second]))
    expect(both).toHaveLength(4)
    expect(await infer(ids([second]))).toEqual(both.slice(2))
    expect(await infer(ids([second]), { seed: 2 })).not.toEqual(both.slice(2))
    expect(both.slice(0, 2)).not.toEqual(both.slice(2))
    for (const value of both) expect(Math.abs(value)).toBeLessThan(1)
  })

  test('takes at least the modelled time, longer for larger batches and smaller shares', async () => {
    const times: number[] = []
    for (const [rows, more] of [
      [1, {}],
      [32, {}],
      [32, { gpuMemoryPercent: 25 }],
    ] as const) {
      const engine = createEngine(
        options({ model: 'bert-base', batchSize: 32, sequenceLength: 128, ...more }),
      )
      await engine.load()
      const startedAt = getMachineNowMs()
      await engine.infer(ids(Array(rows).fill([101]), 128), startedAt)
      const { busyMs } = engine.utilization!()
      // Up to 0.6 ms are left for waking up.
      expect(getMachineNowMs() - startedAt).toBeGreaterThan(busyMs - 0.7)
      times.push(busyMs)
    }
    expect(times[1]).toBeGreaterThan(times[0]! * 2)
    expect(times[2]).toBeGreaterThan(times[1]! * 1.5)
  })

  test('every instance needs memory of its own', async () => {
    const alone = await createEngine(options({ model: 'bert-base' })).load()
    const two = await createEngine(options({ model: 'bert-base', instances: 2 })).load()
    expect(two.memoryMiB).toBeCloseTo(2 * alone.memoryMiB)
    const share = { model: 'bert-base', gpuMemoryPercent: (100 * 1.5 * alone.memoryMiB) / 15360 }
    await createEngine(options(share)).load()
    await expect(createEngine(options({ ...share, instances: 2 })).load()).rejects.toThrow(
      /CUDA out of memory \(emulated\).*2 instance/,
    )
  })

  test('a MIG slice bounds memory and speed', async () => {
    const slice = (migProfile: string) =>
      createEngine(options({ model: 'bert-large', gpu: 'A100-40GB', batchSize: 32, migProfile }))
    const [small, large] = [slice('1g.5gb'), slice('3g.20gb')]
    for (const engine of [small, large]) {
      await engine.load()
      await engine.infer(ids([[101], [102]]), getMachineNowMs())
    }
    expect(small.device).toBe('A100-40GB (emulated), slice 1g.5gb')
    expect(small.utilization!().busyMs).toBeGreaterThan(large.utilization!().busyMs)
    const four = createEngine(
      options({ model: 'bert-large', gpu: 'A100-40GB', migProfile: '1g.5gb', instances: 8 }),
    )
    await expect(four.load()).rejects.toThrow(
      /CUDA out of memory \(emulated\).* a A100-40GB slice 1g.5gb has 4\d\d\d MiB/,
    )
    expect(() => createEngine(options({ migProfile: '1g.5gb' }))).toThrow(/T4 has no MIG/)
  })

  test('refuses what it cannot emulate', () => {
    expect(() => createEngine(options({ gpu: undefined }))).toThrow(/needs a GPU/)
    expect(() => createEngine(options({ model: 'llama-3.1-8b' }))).toThrow(/generates text/)
    expect(() => createEngine(options({ model: 'bort' }))).toThrow(
      /unknown model architecture 'bort'/,
    )
  })
})

test('a device does one batch after the other, and is busy for the sum of them', () => {
  const device = new EmulatedDevice()
  expect(device.occupy(10, 5)).toBe(15)
  expect(device.occupy(11, 5)).toBe(20)
  expect(device.occupy(40, 5)).toBe(45)
  expect(device.busyMs).toBe(15)
})

test('sleeping takes no CPU', () => {
  const sleeper = new Sleeper()
  const before = process.cpuUsage()
  const startedAt = getMachineNowMs()
  for (let i = 0; i < 20; i++) sleeper.sleepUntil(startedAt + (i + 1) * 10)
  const { user, system } = process.cpuUsage(before)
  expect(getMachineNowMs() - startedAt).toBeGreaterThan(198)
  expect((user + system) / 1000).toBeLessThan(100)
})
