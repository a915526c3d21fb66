import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as tf from '@tensorflow/tfjs-core'
import { layers, sequential } from '@tensorflow/tfjs-layers'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Engine, EngineOptions, Tensor } from '../../engine.ts'
import { createEngine } from '../tfjs.ts'
import { startWasm } from './wasm.ts'

const folder = mkdtempSync(join(tmpdir(), 'user-model-'))
afterAll(() => rmSync(folder, { recursive: true }))

const options: EngineOptions = {
  model: 'mine',
  batchSize: 4,
  sequenceLength: 6,
  precision: 'fp32',
  gpuMemoryPercent: 100,
  gpuSharing: 'time-slice',
  instances: 1,
  warmUpBatch: 1,
  cpuThreads: 1,
  seed: 0,
}
let engine: Engine | undefined
const load = async (modelPath: string) => {
  engine = createEngine({ ...options, modelPath })
  return { engine, info: await engine.load() }
}
afterEach(async () => {
  await engine?.close()
  engine = undefined
})

/** Writes model.json and weights as tensorflowjs_converter does; returns the folder. */
function write(name: string, json: object, weights: Float32Array, shards = 1): string {
  const path = join(folder, name)
  mkdirSync(path, { recursive: true })
  const bytes = Buffer.from(weights.buffer)
  const cut = Math.ceil(bytes.length / shards)
  for (let i = 0; i < shards; i++)
    writeFileSync(
      join(path, `group1-shard${i + 1}of${shards}.bin`),
      bytes.subarray(i * cut, (i + 1) * cut),
    )
  writeFileSync(join(path, 'model.json'), JSON.stringify(json))
  return path
}
const manifest = (weights: object[], shards = 1) => [
  {
    paths: Array.from({ length: shards }, (_, i) => `group1-shard${i + 1}of${shards}.bin`),
    weights,
  },
]

const versions = { producer: 440 }
const float = { dtype: { type: 'DT_FLOAT' } }
const placeholder = (name: string, type: string, dims: number[]) => ({
  name,
  op: 'Placeholder',
  attr: {
    dtype: { type },
    shape: { shape: { dim: dims.map((size) => ({ size: String(size) })) } },
  },
})
/** x W + 1 as a graph, x: ?×3, W: 3×2, with a signature that names them 'features' and 'scores'. */
function graphModel(name: string, more: object = {}): string {
  const json = {
    format: 'graph-model',
    modelTopology: {
      versions,
      node: [
        placeholder('x', 'DT_FLOAT', [-1, 3]),
        { name: 'W', op: 'Const', attr: float },
        { name: 'one', op: 'Const', attr: float },
        { name: 'product', op: 'MatMul', input: ['x', 'W'], attr: { T: { type: 'DT_FLOAT' } } },
        {
          name: 'Identity',
          op: 'AddV2',
          input: ['product', 'one'],
          attr: { T: { type: 'DT_FLOAT' } },
        },
      ],
    },
    signature: {
      inputs: {
        features: {
          name: 'x:0',
          dtype: 'DT_FLOAT',
          tensorShape: { dim: [{ size: '-1' }, { size: '3' }] },
        },
      },
      outputs: {
        scores: {
          name: 'Identity:0',
          dtype: 'DT_FLOAT',
          tensorShape: { dim: [{ size: '-1' }, { size: '2' }] },
        },
      },
    },
    weightsManifest: manifest(
      [
        { name: 'W', shape: [3, 2], dtype: 'float32' },
        { name: 'one', shape: [], dtype: 'float32' },
      ],
      2,
    ),
    ...more,
  }
  return write(name, json, Float32Array.of(1, 2, 3, 4, 5, 6, 1), 2)
}
const rows: Tensor = { datatype: 'FP32', shape: [2, 3], data: Float32Array.of(1, 0, 0, 1, 1, 1) }

describe('a graph model', () => {
  test.each(['its folder', 'its model.json'])(
    'by %s: runs under the names of its signature',
    async (by) => {
      const path = graphModel('graph')
      const { engine, info } = await load(by === 'its folder' ? path : join(path, 'model.json'))
      expect(info).toMatchObject({
        task: 'tensor',
        inputs: [{ name: 'features', datatype: 'FP32', shape: [-1, 3] }],
        outputs: [{ name: 'scores', datatype: 'FP32' }],
      })
      const { scores } = await engine.infer({ features: rows }, 0)
      expect([scores!.shape, [...scores!.data]]).toEqual([[2, 2], [2, 3, 10, 13]]) // biome-ignore format: one line
    },
  )

  test('keeps no tensors from batch to batch', async () => {
    const { engine } = await load(graphModel('graph'))
    await engine.infer({ features: rows }, 0)
    const before = tf.memory().numTensors
    for (let i = 0; i < 3; i++) await engine.infer({ features: rows }, 0)
    expect(tf.memory().numTensors).toBe(before)
  })
})

describe('a layers model', () => {
  let path: string
  let expected: number[]
  beforeAll(async () => {
    const backend = await startWasm(1)
    const model = sequential({
      layers: [layers.dense({ units: 2, inputShape: [3], activation: 'tanh', name: 'scores' })],
    })
    expected = [...(model.predict(tf.tensor2d(rows.data, [2, 3])) as tf.Tensor).dataSync()]
    await model.save({
      async save({ modelTopology, weightSpecs, weightData }) {
        const weights = new Float32Array(weightData as ArrayBuffer)
        path = write(
          'layers',
          { format: 'layers-model', modelTopology, weightsManifest: manifest(weightSpecs!) },
          weights,
        )
        return { modelArtifactsInfo: { dateSaved: new Date(0), modelTopologyType: 'JSON' } }
      },
    })
    model.dispose()
    backend.close()
  })

  test('gives what it gave before it was saved', async () => {
    const { engine, info } = await load(path)
    const [input, output] = [info.inputs[0]!, info.outputs[0]!]
    expect(input).toMatchObject({ datatype: 'FP32', shape: [-1, 3] })
    const outputs = await engine.infer({ [input.name]: rows }, 0)
    for (const [i, value] of [...outputs[output.name]!.data].entries())
      expect(value).toBeCloseTo(expected[i]!, 5)
  })
})

describe('what a model is for shows in its inputs', () => {
  const identity = (inputs: object[], names: string[]) => ({
    modelTopology: {
      versions,
      node: [
        ...inputs,
        ...names.map((name) => ({ name: `${name}_out`, op: 'Identity', input: [name] })),
      ],
    },
    signature: undefined,
  })
  test.each([
    ['texts', ['input_ids', 'attention_mask']],
    ['texts with token types, which are zeros', ['input_ids', 'attention_mask', 'token_type_ids']],
  ])('%s', async (_, names) => {
    const inputs = names.map((name) => placeholder(name, 'DT_INT32', [-1, -1]))
    const sum = { name: 'sum', op: 'AddN', input: names, attr: { N: { i: String(names.length) } } }
    const scores = {
      name: 'scores',
      op: 'Cast',
      input: ['sum'],
      attr: { SrcT: { type: 'DT_INT32' }, DstT: { type: 'DT_FLOAT' } },
    }
    const modelTopology = { versions, node: [...inputs, sum, scores] }
    const { engine, info } = await load(
      graphModel('texts', { modelTopology, signature: undefined }),
    )
    expect(info.task).toBe('text')
    expect(info.inputs.map(({ name, shape }) => [name, shape])).toEqual([
      ['input_ids', [-1, 6]],
      ['attention_mask', [-1, 6]],
    ])
    const before = tf.memory().numTensors
    const tensor = (value: number): Tensor => ({
      datatype: 'INT32',
      shape: [2, 6],
      data: new Int32Array(12).fill(value),
    })
    const outputs = await engine.infer({ input_ids: tensor(40), attention_mask: tensor(1) }, 0)
    expect([...outputs.scores!.data]).toEqual(new Array(12).fill(41))
    expect(tf.memory().numTensors).toBe(before)
  })
  test('images', async () => {
    const { info } = await load(
      graphModel(
        'images',
        identity([placeholder('pixels', 'DT_FLOAT', [-1, 8, 8, 3])], ['pixels']),
      ),
    )
    expect(info).toMatchObject({
      task: 'image',
      inputs: [{ name: 'pixels', shape: [-1, 8, 8, 3] }],
    })
  })
  test('an output that does not hold what is declared is refused', async () => {
    const path = graphModel(
      'integers',
      identity([placeholder('numbers', 'DT_INT32', [-1, 3])], ['numbers']),
    )
    await expect(load(path)).rejects.toThrow(
      /output 'numbers_out' holds int32, but is declared FP32/,
    )
  })
  test('a type that requests cannot carry is refused', async () => {
    const path = graphModel(
      'strings',
      identity([placeholder('words', 'DT_STRING', [-1])], ['words']),
    )
    await expect(load(path)).rejects.toThrow(
      /tensor 'words' of '.*strings.*' has type string; inputs and outputs must be float32 or int32/,
    )
  })
})

describe('what does not load says why', () => {
  test('no such path', async () => {
    await expect(load(join(folder, 'none'))).rejects.toThrow(
      /no model at '.*none'; pass the path of a model\.json/,
    )
  })
  test('a folder without a model', async () => {
    mkdirSync(join(folder, 'empty'), { recursive: true })
    await expect(load(join(folder, 'empty'))).rejects.toThrow(
      /not a model that TensorFlow\.js can load; it needs a model\.json/,
    )
  })
  test('a SavedModel without TensorFlow', async () => {
    mkdirSync(join(folder, 'saved'), { recursive: true })
    writeFileSync(join(folder, 'saved', 'saved_model.pb'), '')
    await expect(load(join(folder, 'saved'))).rejects.toThrow(
      /is a TensorFlow SavedModel, which needs @tensorflow\/tfjs-node-gpu.*tensorflowjs_converter/,
    )
  })
  test('rubbish for JSON, and JSON that is no model', async () => {
    const path = graphModel('rubbish')
    writeFileSync(join(path, 'model.json'), '{')
    await expect(load(path)).rejects.toThrow(/model\.json' is not JSON/)
    writeFileSync(join(path, 'model.json'), '{"a":1}')
    await expect(load(path)).rejects.toThrow(
      /model\.json' is not a TensorFlow\.js model: modelTopology/,
    )
  })
  test('a missing and a short weight file', async () => {
    const path = graphModel('short')
    truncateSync(join(path, 'group1-shard2of2.bin'), 4)
    await expect(load(path)).rejects.toThrow(
      /weights of '.*model\.json' have 18 bytes, but the model needs 28/,
    )
    rmSync(join(path, 'group1-shard2of2.bin'))
    await expect(load(path)).rejects.toThrow(/cannot read '.*group1-shard2of2\.bin'/)
    symlinkSync('/dev/zero', join(path, 'group1-shard2of2.bin'))
    await expect(load(path)).rejects.toThrow(/group1-shard2of2\.bin is a device/)
  })
  test('an operation that TensorFlow.js does not have', async () => {
    const path = graphModel('unknown', {
      modelTopology: {
        versions,
        node: [placeholder('x', 'DT_FLOAT', [-1, 3]), { name: 'y', op: 'NoSuchOp', input: ['x'] }],
      },
      signature: undefined,
    })
    await expect(load(path)).rejects.toThrow(/NoSuchOp/)
  })
})
