import * as tf from '@tensorflow/tfjs-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Encoder, findArchitecture } from '../../devices/architecture.ts'
import { startWasm, type WasmBackend } from '../engines/tfjs/wasm.ts'
import { buildEncoder, type EncoderVariant } from './encoder.ts'
import { createSeededNoise } from './weights.ts'

let backend: WasmBackend
beforeAll(async () => {
  backend = await startWasm(1)
})
afterAll(() => backend.close())

const tiny: Encoder = {
  kind: 'encoder',
  name: 'tiny',
  layers: 2,
  hidden: 12,
  heads: 3,
  intermediate: 20,
  vocabulary: 40,
  maxSequenceLength: 16,
}
const bert: EncoderVariant = { activation: 'gelu', tokenTypes: 2, pooler: 'tanh' }
const seed = 7

type Row = number[]

/**
 * The same encoder in plain loops over doubles, for one text, written from the papers rather than
 * from the graph.
 */
function plainLogits(
  spec: Encoder,
  variant: EncoderVariant,
  ids: number[],
  mask: number[],
): number[] {
  const matrix = (name: string, rows: number, columns: number): Row[] => {
    const flat = createSeededNoise(seed, name, rows * columns, 0.02)
    return Array.from({ length: rows }, (_, r) => [...flat.slice(r * columns, (r + 1) * columns)])
  }
  const dense = (x: Row, name: string, to: number): Row => {
    const kernel = matrix(`${name}/kernel`, x.length, to)
    const bias = matrix(`${name}/bias`, 1, to)[0]!
    return bias.map((b, j) => x.reduce((sum, value, i) => sum + value * kernel[i]![j]!, b))
  }
  const norm = (x: Row): Row => {
    const mean = x.reduce((a, b) => a + b) / x.length
    const variance = x.reduce((a, b) => a + (b - mean) ** 2, 0) / x.length
    return x.map((v) => (v - mean) / Math.sqrt(variance + 1e-12))
  }
  const activate = variant.activation === 'gelu' ? gelu : geluByTanh
  const width = spec.embedding ?? spec.hidden
  const words = matrix('embeddings/word', spec.vocabulary, width)
  const positions = matrix('embeddings/position', spec.maxSequenceLength, width)
  const type =
    variant.tokenTypes > 0
      ? matrix('embeddings/type', variant.tokenTypes, width)[0]!
      : Array.from({ length: width }, () => 0)
  let rows = ids.map((id, s) =>
    norm(words[id % spec.vocabulary]!.map((v, j) => v + positions[s]![j]! + type[j]!)),
  )
  if (width !== spec.hidden)
    rows = rows.map((row) => dense(row, 'embeddings/projection', spec.hidden))
  const size = spec.hidden / spec.heads
  for (let l = 0; l < spec.layers; l++) {
    const layer = spec.sharedLayers ? 'layer' : `layer${l}`
    const [q, k, v] = ['query', 'key', 'value'].map((part) =>
      rows.map((row) => dense(row, `${layer}/${part}`, spec.hidden)),
    )
    const attended = rows.map((_, s) => {
      const out: Row = []
      for (let head = 0; head < spec.heads; head++) {
        const slice = (row: Row) => row.slice(head * size, (head + 1) * size)
        const dot = (a: Row, b: Row) => a.reduce((sum, value, i) => sum + value * b[i]!, 0)
        const scores = rows.map(
          (_, t) => Math.exp(dot(slice(q![s]!), slice(k![t]!)) / Math.sqrt(size)) * mask[t]!,
        )
        const total = scores.reduce((a, b) => a + b)
        for (let j = 0; j < size; j++)
          out.push(scores.reduce((sum, score, t) => sum + (score / total) * slice(v![t]!)[j]!, 0))
      }
      return out
    })
    rows = rows.map((row, s) => {
      const inner = norm(
        dense(attended[s]!, `${layer}/attention_output`, spec.hidden).map(
          (value, j) => value + row[j]!,
        ),
      )
      const fed = dense(
        dense(inner, `${layer}/intermediate`, spec.intermediate).map(activate),
        `${layer}/output`,
        spec.hidden,
      )
      return norm(fed.map((value, j) => value + inner[j]!))
    })
  }
  const pooled = dense(rows[0]!, 'pooler', spec.hidden).map(
    variant.pooler === 'tanh' ? Math.tanh : (x) => Math.max(0, x),
  )
  return dense(pooled, 'classifier', 2)
}

const gelu = (x: number) => (x / 2) * (1 + erf(x / Math.SQRT2))
const geluByTanh = (x: number) =>
  (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))

/** Maclaurin series, exact to double precision for the small arguments here. */
function erf(x: number): number {
  let term = x
  let sum = x
  for (let n = 1; n < 60; n++) {
    term *= (-x * x) / n
    sum += term / (2 * n + 1)
  }
  return (2 / Math.sqrt(Math.PI)) * sum
}

function logitsOf(
  spec: Encoder,
  variant: EncoderVariant,
  ids: number[][],
  masks: number[][],
): number[][] {
  const model = buildEncoder(spec, ids[0]!.length, seed, backend.pack, variant)
  const shape: [number, number] = [ids.length, ids[0]!.length]
  const feeds = {
    input_ids: tf.tensor2d(ids.flat(), shape, 'int32'),
    attention_mask: tf.tensor2d(masks.flat(), shape, 'int32'),
  }
  const { logits } = model.run(feeds) as { logits: tf.Tensor2D }
  const values = logits.arraySync()
  tf.dispose([logits, feeds.input_ids, feeds.attention_mask])
  model.dispose()
  return values
}

function expectClose(got: number[], want: number[]) {
  expect(got).toHaveLength(want.length)
  for (const [i, value] of want.entries()) expect(got[i]).toBeCloseTo(value, 5)
}

const texts = [
  [1, 17, 3, 39, 0, 0],
  [5, 5, 8, 30, 22, 11],
  [2, 9, 33, 0, 0, 0],
]
const masks = texts.map((text) => text.map((id) => (id === 0 ? 0 : 1)))

describe('the graph agrees with plain loops over doubles', () => {
  test.each<[string, Encoder, EncoderVariant]>([
    ['BERT', tiny, bert],
    ['DistilBERT', tiny, { activation: 'gelu', tokenTypes: 0, pooler: 'relu' }],
    [
      'ALBERT',
      { ...tiny, embedding: 5, sharedLayers: true },
      { activation: 'gelu_new', tokenTypes: 2, pooler: 'tanh' },
    ],
    ['one head', { ...tiny, heads: 1, layers: 1 }, bert],
  ])('%s', (_, spec, variant) => {
    const got = logitsOf(spec, variant, texts, masks)
    texts.forEach((text, i) => {
      const want = plainLogits(spec, variant, text, masks[i]!)
      expectClose(got[i]!, want)
    })
  })
})

test('padding does not change the answer, and texts of a batch do not touch each other', () => {
  const alone = logitsOf(tiny, bert, [texts[0]!], [masks[0]!])[0]!
  const inBatch = logitsOf(tiny, bert, texts, masks)[0]!
  const other = logitsOf(tiny, bert, [[1, 17, 3, 39, 13, 21]], [masks[0]!])[0]!
  expectClose(inBatch, alone)
  expectClose(other, alone)
  expect(logitsOf(tiny, bert, [texts[1]!], [masks[1]!])[0]![0]).not.toBeCloseTo(alone[0]!, 5)
})

/**
 * Parameters as the published checkpoints have them: Devlin et al.'s and Turc et al.'s BERTs with
 * pooler; Hugging Face's distilbert-base and albert-base-v2.
 */
test.each([
  ['bert-tiny', 4_385_920],
  ['bert-small', 28_763_648],
  ['bert-base', 109_482_240],
  ['albert', 11_683_584],
  ['distilbert', 66_362_880],
])('%s has the published number of parameters', (name, published) => {
  const spec = findArchitecture(name) as Encoder
  const model = buildEncoder(spec, 32, 1, backend.pack)
  // Beyond the encoder: a two-class head, and DistilBERT's layer before it.
  const head = 2 * spec.hidden + 2 + (name === 'distilbert' ? spec.hidden * (spec.hidden + 1) : 0)
  expect(model.parameters).toBe(published + head)
  model.dispose()
})

test('nothing is left behind', () => {
  const before = tf.memory()
  logitsOf(tiny, bert, texts, masks)
  const after = tf.memory()
  expect([after.numTensors, after.numDataBuffers]).toEqual([
    before.numTensors,
    before.numDataBuffers,
  ])
})

test('a sequence length beyond the position table is refused', () => {
  expect(() => buildEncoder(tiny, 17, 1)).toThrow(
    /sequence length 17 does not fit tiny: it takes whole numbers from 2 to 16/,
  )
})
