import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createOipMetadata, decodeOip, encodeOip } from './oip-http.ts'
import type { ReplyFormat, ServedModelInfo } from './tensors.ts'

const model: ServedModelInfo = {
  name: 'net',
  version: '3',
  task: 'tensor',
  inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, 2] }],
  outputs: [
    { name: 'y', datatype: 'FP32', shape: [-1, 2] },
    { name: 'label', datatype: 'INT32', shape: [-1] },
  ],
  sequenceLength: 128,
  provenance: 'measured',
  maxItems: 100,
}
const decode = (request: unknown, headerLength?: number) =>
  decodeOip(JSON.stringify(request), headerLength, model)
const x = (more: Record<string, unknown> = {}) => ({
  name: 'x',
  shape: [1, 2],
  datatype: 'FP32',
  data: [1, 2],
  ...more,
})

/** JSON, then raw bytes. */
function binaryRequest(request: unknown, ...parts: Uint8Array[]) {
  const header = Buffer.from(JSON.stringify(request))
  return decodeOip(new Uint8Array(Buffer.concat([header, ...parts])), header.length, model)
}
const bytesOf = (data: Float32Array | BigInt64Array | Uint8Array) =>
  new Uint8Array(data.buffer, data.byteOffset, data.byteLength)

describe('JSON tensors', () => {
  test('flat or nested, with the outputs asked for', () => {
    const { inputs, format } = decode({
      id: 'r1',
      inputs: [x({ data: [[1, 2]] })],
      outputs: [{ name: 'label' }],
    })
    expect(inputs).toEqual([{ name: 'x', shape: [1, 2], datatype: 'FP32', values: [1, 2] }])
    expect(format).toEqual({
      protocol: 'oip-v2',
      id: 'r1',
      outputs: [{ name: 'label', binary: false }],
    })
  })

  test.each([
    ['no JSON', '{"inputs":', /not JSON/],
    ['no object', '[]', /JSON object/],
    ['no inputs', '{}', /'inputs' must be a list/],
    ['empty inputs', '{"inputs":[]}', /at least one/],
    ['id', { id: 7, inputs: [x()] }, /'id' must be a string/],
    ['nameless', { inputs: [{ shape: [1] }] }, /needs a 'name'/],
    ['shape', { inputs: [x({ shape: [-1, 2] })] }, /'x': 'shape'/],
    ['shape type', { inputs: [x({ shape: 'big' })] }, /'x': 'shape'/],
    ['dimensions', { inputs: [x({ shape: Array(9).fill(1) })] }, /at most 8/],
    [
      'deep data',
      `{"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":${'['.repeat(1e5)}1${']'.repeat(1e5)}}]}`,
      /nested deeper than 500 levels/,
    ],
    ['datatype', { inputs: [x({ datatype: 'FLOAT' })] }, /'x': 'datatype' must be one of/],
    ['no data', { inputs: [x({ data: undefined })] }, /'x' needs a list 'data'/],
    ['too few', { inputs: [x({ data: [1] })] }, /has 1 values, but its shape \[1,2\] needs 2/],
    ['text as number', { inputs: [x({ data: [1, 'two'] })] }, /"two" is not FP32/],
    ['null', { inputs: [x({ data: [1, null] })] }, /null is not FP32/],
    ['fraction', { inputs: [x({ datatype: 'INT64', data: [1, 2.5] })] }, /2.5 is not INT64/],
    ['number as text', { inputs: [x({ datatype: 'BYTES' })] }, /must be strings/],
    ['outputs', { inputs: [x()], outputs: 'y' }, /'outputs' must be a list/],
    [
      'unknown output',
      { inputs: [x()], outputs: [{ name: 'z' }] },
      /unknown output "z"; model 'net' has the outputs y, label/,
    ],
    [
      'binary without header',
      { inputs: [x({ data: undefined, parameters: { binary_data_size: 8 } })] },
      /no Inference-Header-Content-Length/,
    ],
  ])('refuses: %s', (_what, request, message) => {
    const body = typeof request === 'string' ? request : JSON.stringify(request)
    expect(() => decodeOip(body, undefined, model)).toThrow(message)
    expect(() => decodeOip(body, undefined, model)).toThrow(
      expect.objectContaining({ status: 400 }),
    )
  })

  test('property: whatever JSON comes, it is decoded or refused with 400', () => {
    const pieces = fc.oneof(
      fc.jsonValue(),
      fc.record({
        inputs: fc.array(
          fc.record({
            name: fc.constant('x'),
            shape: fc.jsonValue(),
            datatype: fc.constantFrom('FP32', 'BYTES'),
            data: fc.jsonValue(),
          }),
        ),
      }),
    )
    fc.assert(
      fc.property(pieces, (value) => {
        try {
          decodeOip(JSON.stringify(value), undefined, model)
        } catch (error) {
          expect(error).toMatchObject({ name: 'RequestError', status: 400 })
        }
      }),
    )
  })
})

describe('the binary tensor data extension', () => {
  const head = (size: number, more: Record<string, unknown> = {}) =>
    x({ data: undefined, parameters: { binary_data_size: size }, ...more })

  test('reads numbers, 64-bit integers and BYTES, in the order of the inputs', () => {
    const words = Buffer.from([2, 0, 0, 0, 104, 105, 0, 0, 0, 0])
    const { inputs } = binaryRequest(
      {
        inputs: [
          head(8),
          x(),
          head(16, { name: 'ids', datatype: 'INT64' }),
          head(10, { name: 't', datatype: 'BYTES', shape: [2] }),
        ],
      },
      bytesOf(new Float32Array([0.5, -1])),
      bytesOf(new BigInt64Array([5n, -6n])),
      words,
    )
    expect(Array.from(inputs[0]!.values as Float32Array)).toEqual([0.5, -1])
    expect(inputs[1]!.values).toEqual([1, 2])
    expect(Array.from(inputs[2]!.values as Float64Array)).toEqual([5, -6])
    expect(
      (inputs[3]!.values as Uint8Array[]).map((bytes) => Buffer.from(bytes).toString()),
    ).toEqual(['hi', ''])
  })

  test.each([
    ['cut off', { inputs: [head(8)] }, 4, /cut off/],
    ['left over', { inputs: [head(8)] }, 12, /4 bytes of binary data belong to no input/],
    ['wrong size', { inputs: [head(4)] }, 4, /4 bytes of binary data; FP32 \[1,2\] needs 8/],
    ['size', { inputs: [head(-1)] }, 0, /'binary_data_size' must be/],
    ['both', { inputs: [{ ...head(8), data: [1, 2] }] }, 8, /both 'data' and/],
    [
      'BYTES cut off',
      { inputs: [head(6, { datatype: 'BYTES', shape: [1] })] },
      6,
      /element 1 .* is cut off|element 0 .* is cut off/,
    ],
  ])('refuses: %s', (_what, request, length, message) => {
    expect(() => binaryRequest(request, new Uint8Array(length).fill(1))).toThrow(message)
  })

  test('refuses a header beyond the body', () => {
    expect(() => decodeOip(new Uint8Array(10), 11, model)).toThrow(/beyond the body/)
  })
})

describe('replies', () => {
  const outputs = {
    y: { datatype: 'FP32', shape: [1, 2], data: new Float32Array([0.5, -3]) },
    label: { datatype: 'INT32', shape: [1], data: new Int32Array([7]) },
  } as const
  const format = (binary: boolean, id?: string): Extract<ReplyFormat, { protocol: 'oip-v2' }> => ({
    protocol: 'oip-v2',
    id,
    outputs: [
      { name: 'y', binary },
      { name: 'label', binary: false },
    ],
  })

  test('in JSON', () => {
    const { contentType, body } = encodeOip(format(false, 'a"b'), outputs, model)
    expect(contentType).toBe('application/json')
    expect(JSON.parse(body as string)).toEqual({
      model_name: 'net',
      model_version: '3',
      id: 'a"b',
      parameters: { provenance: 'measured' },
      outputs: [
        { name: 'y', datatype: 'FP32', shape: [1, 2], data: [0.5, -3] },
        { name: 'label', datatype: 'INT32', shape: [1], data: [7] },
      ],
    })
  })

  test('property: a float32 survives its JSON', () => {
    fc.assert(
      fc.property(
        fc.array(fc.float({ noNaN: true, noDefaultInfinity: true }), {
          minLength: 2,
          maxLength: 2,
        }),
        (pair) => {
          const data = new Float32Array(pair)
          const { body } = encodeOip(
            format(false),
            { ...outputs, y: { ...outputs.y, data } },
            model,
          )
          const back = new Float32Array(JSON.parse(body as string).outputs[0].data)
          expect(Array.from(back, (v) => v + 0)).toEqual(Array.from(data, (v) => v + 0))
        },
      ),
    )
  })

  test('with binary data after the JSON', () => {
    const { contentType, body, headerLength } = encodeOip(format(true), outputs, model)
    expect(contentType).toBe('application/octet-stream')
    const bytes = Buffer.from(body as Uint8Array)
    const json = JSON.parse(bytes.subarray(0, headerLength).toString())
    expect(json.outputs[0]).toEqual({
      name: 'y',
      datatype: 'FP32',
      shape: [1, 2],
      parameters: { binary_data_size: 8 },
    })
    expect(bytes.subarray(headerLength).readFloatLE(4)).toBe(-3)
  })

  test('numbers that JSON has no word for are an error, not null', () => {
    const broken = { ...outputs, y: { ...outputs.y, data: new Float32Array([Number.NaN, 0]) } }
    expect(() => encodeOip(format(false), broken, model)).toThrow(/'y' contains NaN/)
    expect(encodeOip(format(true), broken, model).headerLength).toBeGreaterThan(0)
  })
})

test('metadata names the simplest input of each task', () => {
  expect(createOipMetadata(model, ['3'], 'p', {}).inputs).toEqual(model.inputs)
  expect(createOipMetadata({ ...model, task: 'image' }, ['3'], 'p', {}).inputs).toEqual([
    { name: 'image', datatype: 'BYTES', shape: [-1] },
  ])
})
