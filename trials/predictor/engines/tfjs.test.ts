import * as tf from '@tensorflow/tfjs-core'
import { afterEach, describe, expect, test } from 'vitest'
import type { Engine, EngineOptions, Tensors } from '../engine.ts'
import { createEngine } from './tfjs.ts'

const defaults: EngineOptions = {
  model: 'bert-tiny',
  batchSize: 4,
  sequenceLength: 16,
  precision: 'fp32',
  gpuMemoryPercent: 100,
  gpuSharing: 'time-slice',
  instances: 1,
  warmUpBatch: 1,
  cpuThreads: 1,
  seed: 3,
}

const engines: Engine[] = []
const started = async (options: Partial<EngineOptions> = {}) => {
  const engine = createEngine({ ...defaults, ...options })
  engines.push(engine)
  return { engine, info: await engine.load() }
}
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close()
})

const texts = (batch: number, length = 16): Tensors => ({
  input_ids: {
    datatype: 'INT32',
    shape: [batch, length],
    data: Int32Array.from({ length: batch * length }, (_, i) => (i * 7919) % 30522),
  },
  attention_mask: {
    datatype: 'INT32',
    shape: [batch, length],
    data: new Int32Array(batch * length).fill(1),
  },
})

const expectClose = (got: ArrayLike<number>, want: ArrayLike<number>) => {
  expect(got).toHaveLength(want.length)
  for (let i = 0; i < want.length; i++) expect(got[i]).toBeCloseTo(want[i]!, 5)
}

describe('bert-tiny', () => {
  test('says what it is and what it runs on', async () => {
    const { engine, info } = await started()
    expect(engine).toMatchObject({
      name: 'tfjs',
      provenance: 'measured',
      device: 'CPU (WebAssembly SIMD, 1 thread)',
    })
    expect(info).toMatchObject({
      task: 'text',
      versions: { tfjs: '4.22.0', backend: 'wasm', weights: 'seeded' },
    })
    expect(info.memoryMiB).toBeGreaterThan(20)
    expect(info.inputs.map(({ name, shape }) => [name, shape])).toEqual([
      ['input_ids', [-1, 16]],
      ['attention_mask', [-1, 16]],
    ])
  })

  test('answers every item of a batch as it answers the item alone', async () => {
    const { engine } = await started()
    const batch = texts(3)
    const { logits } = await engine.infer(batch, 0)
    expect(logits!.shape).toEqual([3, 2])
    for (let item = 0; item < 3; item++) {
      const alone = Object.fromEntries(
        Object.entries(batch).map(([name, t]) => [
          name,
          { ...t, shape: [1, 16], data: t.data.slice(item * 16, (item + 1) * 16) },
        ]),
      )
      const one = await engine.infer(alone, 0)
      expectClose(logits!.data.slice(item * 2, item * 2 + 2), one.logits!.data)
    }
  })

  test('gives the same answers for the same seed, others for another, and the same with two threads', async () => {
    const answers: number[][] = []
    for (const options of [{}, {}, { seed: 4 }, { cpuThreads: 2 }]) {
      const { engine } = await started(options)
      answers.push([...(await engine.infer(texts(2), 0)).logits!.data])
      await engine.close()
    }
    expect(answers[1]).toEqual(answers[0])
    expect(answers[2]).not.toEqual(answers[0])
    expectClose(answers[3]!, answers[0]!)
  })

  test('keeps no tensors from batch to batch, nor after it is closed', async () => {
    const empty = tf.engine().state.numTensors
    const { engine } = await started()
    await engine.infer(texts(1), 0)
    const before = tf.memory()
    for (const batch of [1, 4, 2]) await engine.infer(texts(batch), 0)
    const after = tf.memory()
    expect([after.numTensors, after.numDataBuffers, after.numBytes]).toEqual([
      before.numTensors,
      before.numDataBuffers,
      before.numBytes,
    ])
    await expect(
      engine.infer(
        {
          ...texts(1),
          input_ids: { datatype: 'INT32', shape: [1, 16], data: new Int32Array(16).fill(-1) },
        },
        0,
      ),
    ).rejects.toThrow()
    expect(tf.memory().numTensors).toBe(before.numTensors)
    await engine.close()
    expect(tf.engine().state.numTensors).toBe(empty)
  })

  test('counts the time it computes', async () => {
    const { engine } = await started()
    const before = engine.utilization!().busyMs
    await engine.infer(texts(4), 0)
    expect(engine.utilization!().busyMs).toBeGreaterThan(before)
  })
})

describe('what cannot be run is refused', () => {
  test.each<[string, Partial<EngineOptions>, RegExp]>([
    [
      'an unknown model',
      { model: 'brt-tiny' },
      /no built-in model 'brt-tiny' .*; did you mean bert-tiny/,
    ],
    ['a name near an alias', { model: 'brt' }, /did you mean bert\?/],
    [
      'a model that can only be emulated',
      { model: 'llama-3.1-8b' },
      /no built-in model 'llama-3\.1-8b'/,
    ],
    ['a sequence beyond 512 tokens', { sequenceLength: 513 }, /513 does not fit bert-tiny/],
    ['a GPU without its library', { gpu: 'T4' }, /needs @tensorflow\/tfjs-node-gpu.*npm install/],
  ])('%s', async (_, options, message) => {
    await expect(started(options)).rejects.toThrow(message)
  })

  test('a precision that the engine does not compute in', () => {
    expect(() => createEngine({ ...defaults, precision: 'int8' })).toThrow(
      /computes in fp32, not int8/,
    )
  })
})
