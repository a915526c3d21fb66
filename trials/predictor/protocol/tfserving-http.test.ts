import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ServedModelInfo } from './tensors.ts'
import {
  createTfServingMetadata,
  createTfServingStatus,
  decodeTfServing,
  encodeTfServing,
} from './tfserving-http.ts'

const text: ServedModelInfo = {
  name: 'bert',
  version: '1',
  task: 'text',
  inputs: [
    { name: 'input_ids', datatype: 'INT32', shape: [-1, 8] },
    { name: 'attention_mask', datatype: 'INT32', shape: [-1, 8] },
  ],
  outputs: [{ name: 'logits', datatype: 'FP32', shape: [-1, 2] }],
  sequenceLength: 8,
  provenance: 'measured',
  maxItems: 100,
}
const two: ServedModelInfo = {
  ...text,
  task: 'tensor',
  inputs: [
    { name: 'a', datatype: 'FP32', shape: [-1, 2] },
    { name: 'b', datatype: 'INT32', shape: [-1] },
  ],
  outputs: [
    { name: 'y', datatype: 'FP32', shape: [-1, 1, 2] },
    { name: 'n', datatype: 'INT32', shape: [-1] },
  ],
}
const decode = (request: unknown, model = text) => decodeTfServing(JSON.stringify(request), model)

describe('rows', () => {
  test('of one input, unnamed', () => {
    const { inputs, format } = decode({
      signature_name: 'serving_default',
      instances: ['one', { b64: 'dHdv' }],
    })
    expect(format).toEqual({ protocol: 'tfserving', style: 'row' })
    expect(inputs).toEqual([
      { name: 'text', shape: [2], datatype: 'BYTES', values: ['one', Buffer.from('two')] },
    ])
    expect(decode({ instances: [[101, 102]] }).inputs).toEqual([
      { name: 'input_ids', shape: [1, 2], datatype: 'INT64', values: [101, 102] },
    ])
  })

  test('of several inputs, named', () => {
    const { inputs } = decode(
      {
        instances: [
          { a: [1, 2], b: 3 },
          { b: 4, a: [5, 6.5] },
        ],
      },
      two,
    )
    expect(inputs).toEqual([
      { name: 'a', shape: [2, 2], datatype: 'FP32', values: [1, 2, 5, 6.5] },
      { name: 'b', shape: [2], datatype: 'INT64', values: [3, 4] },
    ])
  })
})

test('columns', () => {
  expect(decode({ inputs: { a: [[1, 2]], b: [3] } }, two)).toEqual({
    inputs: [
      { name: 'a', shape: [1, 2], datatype: 'INT64', values: [1, 2] },
      { name: 'b', shape: [1], datatype: 'INT64', values: [3] },
    ],
    format: { protocol: 'tfserving', style: 'columnar' },
  })
  expect(decode({ inputs: ['x'] }).inputs[0]).toMatchObject({ name: 'text', shape: [1] })
})

test.each([
  ['neither', {}, text, /either "instances"/],
  ['both', { instances: ['a'], inputs: ['a'] }, text, /either "instances"/],
  ['signature', { signature_name: 'other', instances: ['a'] }, text, /"other" not found/],
  ['no rows', { instances: [] }, text, /at least one value/],
  ['no list', { instances: 'a' }, text, /at least one value/],
  ['columns not lists', { inputs: { a: 3, b: [1] } }, two, /"a" must be a list/],
  ['unnamed for two', { instances: [[1, 2]] }, two, /the model has 2 inputs: name them \(a, b\)/],
  [
    'uneven rows',
    { instances: [{ a: [1, 2], b: 3 }, { a: [1, 2] }] },
    two,
    /instance 1 does not have the same inputs/,
  ],
  [
    'a first row unnamed',
    { instances: [null, { a: [1, 2], b: 3 }] },
    two,
    /instance 0 does not name its inputs/,
  ],
  [
    'mixed rows',
    { instances: [{ a: [1, 2], b: 3 }, 7] },
    two,
    /instance 1 does not have the same inputs/,
  ],
  ['ragged', { instances: [[1, 2], [3]] }, text, /not rectangular/],
  [
    'ragged deeper',
    {
      instances: [
        [1, 2],
        [3, [4]],
      ],
    },
    text,
    /not rectangular/,
  ],
  ['mixed', { instances: [[1, 'a']] }, text, /mixes numbers with "a"/],
  [
    'deep',
    `{"instances":${'['.repeat(1e5)}1${']'.repeat(1e5)}}`,
    text,
    /nested deeper than 500 levels/,
  ],
  ['null', { instances: [null] }, text, /null, which is neither/],
])('refuses: %s', (_what, request, model, message) => {
  const body = typeof request === 'string' ? request : JSON.stringify(request)
  expect(() => decodeTfServing(body, model)).toThrow(message)
  expect(() => decodeTfServing(body, model)).toThrow(expect.objectContaining({ status: 400 }))
})

test('property: whatever JSON comes, it is decoded or refused with 400', () => {
  const request = fc.oneof(
    fc.jsonValue(),
    fc.record({ instances: fc.jsonValue() }),
    fc.record({ inputs: fc.jsonValue() }),
  )
  fc.assert(
    fc.property(request, fc.constantFrom(text, two), (value, model) => {
      try {
        decode(value, model)
      } catch (error) {
        expect(error).toMatchObject({ name: 'RequestError', status: 400 })
      }
    }),
  )
})

describe('replies', () => {
  const logits = {
    logits: { datatype: 'FP32', shape: [2, 2], data: new Float32Array([1, 2, 3, 4]) },
  } as const
  const both = {
    y: { datatype: 'FP32', shape: [2, 1, 2], data: new Float32Array([1, 2, 3, 4]) },
    n: { datatype: 'INT32', shape: [2], data: new Int32Array([5, 6]) },
  } as const
  const json = (...args: Parameters<typeof encodeTfServing>) =>
    JSON.parse(encodeTfServing(...args).body as string)

  test('rows: one output bare, several named', () => {
    expect(json({ protocol: 'tfserving', style: 'row' }, logits, text)).toEqual({
      predictions: [
        [1, 2],
        [3, 4],
      ],
    })
    expect(json({ protocol: 'tfserving', style: 'row' }, both, two)).toEqual({
      predictions: [
        { y: [[1, 2]], n: 5 },
        { y: [[3, 4]], n: 6 },
      ],
    })
  })

  test('columns', () => {
    expect(json({ protocol: 'tfserving', style: 'columnar' }, logits, text)).toEqual({
      outputs: [
        [1, 2],
        [3, 4],
      ],
    })
    expect(json({ protocol: 'tfserving', style: 'columnar' }, both, two)).toEqual({
      outputs: { y: [[[1, 2]], [[3, 4]]], n: [5, 6] },
    })
  })

  test('an emulated device is named', () => {
    expect(
      json({ protocol: 'tfserving', style: 'row' }, logits, { ...text, provenance: 'emulated' })
        .parameters,
    ).toEqual({
      provenance: 'emulated',
    })
  })
})

test('status and metadata have the shape of TensorFlow Serving', () => {
  expect(createTfServingStatus(['2'])).toEqual({
    model_version_status: [
      { version: '2', state: 'AVAILABLE', status: { error_code: 'OK', error_message: '' } },
    ],
  })
  const { model_spec, metadata } = createTfServingMetadata(text)
  expect(model_spec).toEqual({ name: 'bert', signature_name: '', version: '1' })
  expect(metadata.signature_def.signature_def.serving_default).toEqual({
    inputs: {
      text: {
        dtype: 'DT_STRING',
        tensor_shape: { dim: [{ size: '-1', name: '' }], unknown_rank: false },
        name: 'text:0',
      },
    },
    outputs: {
      logits: {
        dtype: 'DT_FLOAT',
        tensor_shape: {
          dim: [
            { size: '-1', name: '' },
            { size: '2', name: '' },
          ],
          unknown_rank: false,
        },
        name: 'logits:0',
      },
    },
    method_name: 'tensorflow/serving/predict',
  })
})
