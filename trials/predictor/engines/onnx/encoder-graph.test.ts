import '@tensorflow/tfjs-backend-cpu'
import * as tf from '@tensorflow/tfjs-core'
import * as runtime from 'onnxruntime-node'
import { describe, expect, test } from 'vitest'
import type { Encoder } from '../../../devices/architecture.ts'
import { buildEncoder } from '../../models/encoder.ts'
import { createEncoderGraph } from './encoder-graph.ts'

const small: Encoder = {
  kind: 'encoder',
  name: 'small',
  layers: 2,
  hidden: 32,
  heads: 4,
  intermediate: 64,
  vocabulary: 30522,
  maxSequenceLength: 32,
}
const kinds: readonly [string, Encoder][] = [
  ['BERT', small],
  ['DistilBERT', { ...small, name: 'distilbert' }],
  ['ALBERT', { ...small, name: 'albert', embedding: 16, sharedLayers: true, vocabulary: 1000 }],
]
const length = 8
const ids = [
  [101, 7592, 2088, 102, 0, 0, 0, 0],
  [101, 30521, 5, 6, 7, 8, 9, 102],
]
const masks = [
  [1, 1, 1, 1, 0, 0, 0, 0],
  [1, 1, 1, 1, 1, 1, 1, 1],
]

async function byOnnx(spec: Encoder, half: boolean): Promise<number[]> {
  const session = await runtime.InferenceSession.create(createEncoderGraph(spec, length, 7, half), {
    executionProviders: ['cpu'],
    logSeverityLevel: 3,
  })
  const tensor = (rows: number[][]) =>
    new runtime.Tensor('int32', Int32Array.from(rows.flat()), [rows.length, length])
  const { logits } = await session.run({ input_ids: tensor(ids), attention_mask: tensor(masks) })
  await session.release()
  return [...(logits!.data as Float32Array)]
}

async function byTfjs(spec: Encoder): Promise<number[]> {
  await tf.setBackend('cpu')
  const model = buildEncoder(spec, length, 7)
  const tensor = (rows: number[][]) => tf.tensor2d(rows, [rows.length, length], 'int32')
  const { logits } = await model.run({ input_ids: tensor(ids), attention_mask: tensor(masks) })
  return [...(await logits!.data<'float32'>())]
}

describe.each(kinds)('%s as an ONNX graph', (_, spec) => {
  test('computes what the built-in model computes, with the same weights', async () => {
    const expected = await byTfjs(spec)
    const given = await byOnnx(spec, false)
    expect(given).toHaveLength(4)
    expect(new Set(given).size).toBe(4)
    for (const [i, value] of given.entries()) expect(value).toBeCloseTo(expected[i]!, 5)
  })
  test('in fp16 the same to three digits', async () => {
    const expected = await byTfjs(spec)
    for (const [i, value] of (await byOnnx(spec, true)).entries())
      expect(Math.abs(value - expected[i]!)).toBeLessThan(2e-3)
  })
})
