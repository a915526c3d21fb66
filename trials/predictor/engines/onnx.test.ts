import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { decodeFloat16, encodeFloat16 } from '../../../profiler/protocols/tensor-bytes.ts'
import type { EngineOptions, Tensor } from '../engine.ts'
import { get, post, startForTest } from '../testing.contract.ts'
import {
  denseModel,
  denseRow,
  type ElementType,
  onnxModel,
  textModel,
} from './onnx/write-model.contract.ts'
import { createEngine } from './onnx.ts'

const folder = mkdtempSync(join(tmpdir(), 'onnx-'))
afterAll(() => rmSync(folder, { recursive: true }))

const written = (name: string, bytes: Uint8Array): string => {
  writeFileSync(join(folder, name), bytes)
  return join(folder, name)
}
const options: EngineOptions = {
  model: 'mine',
  batchSize: 4,
  sequenceLength: 6,
  precision: 'fp32',
  gpuMemoryPercent: 100,
  gpuSharing: 'time-slice',
  instances: 1,
  warmUpBatch: 2,
  cpuThreads: 2,
  seed: 0,
}
const loaded = async (modelPath: string, more: Partial<EngineOptions> = {}) => {
  const engine = createEngine({ ...options, ...more, modelPath })
  onTestFinished(() => engine.close())
  return { engine, info: await engine.load() }
}
const floats = (rows: readonly (readonly number[])[]): Tensor => ({
  datatype: 'FP32',
  shape: [rows.length, rows[0]!.length],
  data: Float32Array.from(rows.flat()),
})
const same = (op: string, type: ElementType) => {
  const value = (name: string) => ({ name, type, shape: ['n', 3] })
  return onnxModel({
    inputs: [value('x')],
    outputs: [value('y')],
    nodes: [{ op, inputs: ['x'], outputs: ['y'] }],
  })
}

describe('inference', () => {
  test('batches of any size give what plain arithmetic gives', async () => {
    const { engine, info } = await loaded(written('dense.onnx', denseModel()))
    expect(info).toMatchObject({
      task: 'tensor',
      inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, 3] }],
      outputs: [{ name: 'y', datatype: 'FP32', shape: [-1, 2] }],
      versions: { provider: 'cpu', onnxruntime: '1.30.0' },
    })
    expect([engine.device, engine.provenance]).toEqual([
      'CPU (ONNX Runtime, 2 threads)',
      'measured',
    ])
    for (const rows of [
      [[1, 2, 3]],
      [
        [0.5, -1, 2],
        [3, 0, 0],
        [-4, 1, 1],
      ],
    ]) {
      const { y } = await engine.infer({ x: floats(rows) }, 0)
      expect(y!.shape).toEqual([rows.length, 2])
      for (const [i, value] of rows.flatMap(denseRow).entries())
        expect(y!.data[i]).toBeCloseTo(value, 5)
    }
    expect(engine.utilization!().busyMs).toBeGreaterThan(0)
  })

  test.each([[false], [true]])(
    'a text model takes 64-bit tokens; token types (asked for: %s) are zeros',
    async (withTypes) => {
      const { engine, info } = await loaded(written(`text-${withTypes}.onnx`, textModel(withTypes)))
      expect(info.task).toBe('text')
      expect(info.inputs.map(({ name, datatype, shape }) => [name, datatype, shape])).toEqual([
        ['input_ids', 'INT32', [-1, 6]],
        ['attention_mask', 'INT32', [-1, 6]],
      ])
      const tensor = (...data: number[]): Tensor => ({
        datatype: 'INT32',
        shape: [1, 6],
        data: Int32Array.from(data),
      })
      const outputs = await engine.infer(
        {
          input_ids: tensor(101, 7, 2147483647, -5, 9, 9),
          attention_mask: tensor(1, 1, 1, 1, 0, 0),
        },
        0,
      )
      expect([...outputs.tokens!.data]).toEqual([101, 7, 2147483647, -5, 0, 0])
      expect(outputs.tokens!.datatype).toBe('INT32')
      expect(outputs.logits).toMatchObject({ datatype: 'FP32', shape: [1, 6] })
    },
  )

  test('half floats and truth values come and go as numbers', async () => {
    const half = await loaded(written('half.onnx', same('Neg', 'float16')))
    const y = await half.engine.infer({ x: floats([[1.5, -0.1, 1e-7]]) }, 0)
    expect([...y.y!.data]).toEqual([
      -1.5,
      decodeFloat16(encodeFloat16(0.1)),
      -decodeFloat16(encodeFloat16(1e-7)),
    ])
    const bool = await loaded(written('bool.onnx', same('Not', 'bool')))
    const not = await bool.engine.infer(
      { x: { datatype: 'INT32', shape: [1, 3], data: Int32Array.of(1, 0, 7) } },
      0,
    )
    expect([...not.y!.data]).toEqual([0, 1, 0])
  })

  test('an output number that the server cannot carry is an error, not another number', async () => {
    const sum = onnxModel({
      inputs: [{ name: 'x', type: 'int64', shape: ['n', 1] }],
      outputs: [{ name: 'y', type: 'int64', shape: ['n', 1] }],
      nodes: [{ op: 'Add', inputs: ['x', 'x'], outputs: ['y'] }],
    })
    const { engine } = await loaded(written('sum.onnx', sum))
    const x: Tensor = { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(2147483647) }
    await expect(engine.infer({ x }, 0)).rejects.toThrow(
      "output 'y' holds 4294967294, beyond INT32",
    )
  })
})

describe('what cannot be served is said', () => {
  const failing = async (path: string, more: Partial<EngineOptions> = {}) =>
    (await loaded(path, more).catch((e: Error) => e)) as Error

  test.each([
    ['no file', () => join(folder, 'none.onnx'), /no model at .*none\.onnx.*; pass the path/],
    [
      'not ONNX',
      () => written('text.onnx', Buffer.from('hello')),
      /text\.onnx' does not load: .*; check it with onnx\.checker/,
    ],
    [
      'no .onnx in the folder',
      () => mkdirSync(join(folder, 'empty', 'er'), { recursive: true })!,
      /contains no \.onnx file/,
    ],
    [
      'texts as tensors',
      () => written('string.onnx', same('Identity', 'string')),
      /tensor 'x' of the ONNX model has element type string/,
    ],
  ])('%s', async (_what, path, message) => {
    expect((await failing(path())).message).toMatch(message)
  })

  test('a fixed batch serves that batch alone', async () => {
    const one = written('one.onnx', denseModel(1))
    expect((await failing(one)).message).toMatch(
      /has a fixed first dimension of 1, so batches of up to 4.*dynamic_axes.*or pin batchSize to 1/,
    )
    const { engine } = await loaded(one, { batchSize: 1, warmUpBatch: 1 })
    expect((await engine.infer({ x: floats([[1, 0, 0]]) }, 0)).y!.data[0]).toBeCloseTo(1.1, 5)
    expect((await failing(written('four.onnx', denseModel(4)))).message).toMatch(
      /batches of 4 and no smaller/,
    )
  })

  test('a package that is not there, with the way to get it', async () => {
    const engine = createEngine(
      { ...options, modelPath: written('dense.onnx', denseModel()) },
      () => Promise.reject(new Error("Cannot find package 'onnxruntime-node'\nat somewhere")),
    )
    await expect(engine.load()).rejects.toThrow(
      /needs onnxruntime-node.*npm install onnxruntime-node@1\.30\.0.*ONNXRUNTIME_NODE_INSTALL=skip/,
    )
  })

  test('a GPU whose provider is not there is refused, not replaced by the CPU', async () => {
    const { message } = await failing(written('dense.onnx', denseModel()), { gpu: 'T4' })
    expect(message).toMatch(/cannot use GPU 'T4'.*ONNXRUNTIME_NODE_INSTALL=cuda12/)
  })
})

test('served over HTTP: metadata, batches, versions by folder, vocabulary beside the file', async () => {
  const versions = join(folder, 'versions')
  mkdirSync(join(versions, '3'), { recursive: true })
  writeFileSync(join(versions, '3', 'model.onnx'), textModel(true))
  writeFileSync(join(versions, '3', 'vocab.txt'), '[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\n')
  const settings = {
    ENGINE: 'onnx',
    GPU: 'none',
    MODEL: 'mine',
    SEQUENCE_LENGTH: '8',
    BATCH_SIZE: '4',
  }
  for (const MODEL_PATH of [versions, join(versions, '3', 'model.onnx')]) {
    const { url, device } = await startForTest({ ...settings, MODEL_PATH })
    expect(device).toBe('CPU (ONNX Runtime, 1 thread)')
    expect((await get(`${url}/v2/models/mine`)).json).toMatchObject({
      inputs: [{ name: 'text', datatype: 'BYTES' }],
    })
    const { json } = await post(`${url}/v2/models/mine/infer`, {
      inputs: [{ name: 'text', shape: [2], datatype: 'BYTES', data: ['unaffable', 'un'] }],
      outputs: [{ name: 'tokens' }],
    })
    expect(json.outputs[0]).toMatchObject({ name: 'tokens', datatype: 'INT32', shape: [2, 8] })
    expect(json.outputs[0].data).toEqual([2, 4, 5, 6, 3, 0, 0, 0, 2, 4, 3, 0, 0, 0, 0, 0])
  }
})

describe('a built-in model by its name', () => {
  test('runs as a graph with seeded weights, in fp32 and in fp16', async () => {
    for (const precision of ['fp32', 'fp16'] as const) {
      const engine = createEngine({
        ...options,
        model: 'bert-tiny',
        modelPath: undefined,
        precision,
        sequenceLength: 16,
      })
      const info = await engine.load()
      expect(info).toMatchObject({ task: 'text', versions: { provider: 'cpu', weights: 'seeded' } })
      const ids = {
        datatype: 'INT32' as const,
        shape: [2, 16],
        data: Int32Array.from({ length: 32 }, (_, i) => 100 + i),
      }
      const { logits } = await engine.infer(
        { input_ids: ids, attention_mask: { ...ids, data: new Int32Array(32).fill(1) } },
        0,
      )
      expect(logits!.shape).toEqual([2, 2])
      expect(new Set(logits!.data).size).toBe(4)
      await engine.close()
    }
  })
  test('in no other precision, and no other model', async () => {
    expect(() => createEngine({ ...options, modelPath: undefined, precision: 'int8' })).toThrow(
      /built-in models in fp32 or fp16, not int8/,
    )
    await expect(
      createEngine({ ...options, model: 'bort', modelPath: undefined }).load(),
    ).rejects.toThrow(/no built-in model 'bort'/)
  })
})
