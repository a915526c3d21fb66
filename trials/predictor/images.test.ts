import sharp from 'sharp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startPredictor } from './predictor.ts'
import type { RunningPredictor } from './running-predictor.ts'
import { get, post, testSettings } from './testing.contract.ts'

let predictor: RunningPredictor
let infer: string
let png: Buffer
let jpeg: Buffer
beforeAll(async () => {
  predictor = await startPredictor(
    testSettings({ MODEL: 'resnet50', BATCH_SIZE: '4', CPU_CORES: '2', MAX_DELAY_MS: '20' }),
  )
  infer = `${predictor.url}/v2/models/resnet50/infer`
  const picture = sharp({
    create: { width: 40, height: 30, channels: 3, background: { r: 200, g: 30, b: 90 } },
  })
  png = await picture.clone().png().toBuffer()
  jpeg = await picture.clone().jpeg().toBuffer()
})
afterAll(() => predictor.stop())

const base64 = (...images: Buffer[]) => ({
  inputs: [
    {
      name: 'image',
      shape: [images.length],
      datatype: 'BYTES',
      data: images.map((image) => image.toString('base64')),
    },
  ],
})

/** A request whose tensors follow its JSON as bytes. */
function binary(
  head: Record<string, unknown>,
  ...parts: Uint8Array[]
): [Uint8Array, Record<string, string>] {
  const json = Buffer.from(JSON.stringify(head))
  return [
    new Uint8Array(Buffer.concat([json, ...parts])),
    {
      'inference-header-content-length': String(json.length),
      'content-type': 'application/octet-stream',
    },
  ]
}

test('metadata asks for images as bytes', async () => {
  expect((await get(`${predictor.url}/v2/models/resnet50`)).json).toMatchObject({
    inputs: [{ name: 'image', datatype: 'BYTES', shape: [-1] }],
    outputs: [{ name: 'logits', shape: [-1, 1000] }],
  })
})

test('the same picture gives the same answer in base64, as raw bytes and over TensorFlow Serving', async () => {
  const inJson = await post(infer, base64(png))
  expect(inJson.json.outputs[0]).toMatchObject({
    name: 'logits',
    datatype: 'FP32',
    shape: [1, 1000],
  })
  const expected = inJson.json.outputs[0].data
  const length = Buffer.alloc(4)
  length.writeUInt32LE(png.length)
  const raw = await post(
    infer,
    ...binary(
      {
        inputs: [
          {
            name: 'image',
            shape: [1],
            datatype: 'BYTES',
            parameters: { binary_data_size: png.length + 4 },
          },
        ],
      },
      length,
      png,
    ),
  )
  expect(raw.json.outputs[0].data).toEqual(expected)
  const tfServing = await post(`${predictor.url}/v1/models/resnet50:predict`, {
    instances: [{ b64: png.toString('base64') }],
  })
  expect(tfServing.json.predictions[0]).toEqual(expected)
  expect((await post(infer, base64(jpeg, png))).json.outputs[0].shape).toEqual([2, 1000])
})

test('pixels as FP32 bytes, answered in bytes', async () => {
  const pixels = new Float32Array(2 * 224 * 224 * 3).fill(0.25)
  const input = {
    name: 'image',
    shape: [2, 224, 224, 3],
    datatype: 'FP32',
    parameters: { binary_data_size: pixels.byteLength },
  }
  const [body, headers] = binary(
    { inputs: [input], outputs: [{ name: 'logits', parameters: { binary_data: true } }] },
    new Uint8Array(pixels.buffer),
  )
  const answer = await fetch(infer, { method: 'POST', body, headers })
  expect(answer.status).toBe(200)
  expect(answer.headers.get('content-type')).toBe('application/octet-stream')
  const bytes = Buffer.from(await answer.arrayBuffer())
  const headerLength = Number(answer.headers.get('inference-header-content-length'))
  const reply = JSON.parse(bytes.subarray(0, headerLength).toString())
  expect(reply.outputs).toEqual([
    { name: 'logits', datatype: 'FP32', shape: [2, 1000], parameters: { binary_data_size: 8000 } },
  ])
  expect(bytes.length - headerLength).toBe(8000)
  const [first, second] = [
    bytes.subarray(headerLength, headerLength + 4000),
    bytes.subarray(headerLength + 4000),
  ]
  expect(first.equals(second)).toBe(true)
})

test('what is no picture is refused with 400, and the picture beside it named', async () => {
  const answer = await post(infer, base64(png, Buffer.from('not a picture')))
  expect(answer.status).toBe(400)
  expect(answer.json.error).toMatch(/image 1 cannot be decoded: not a JPEG or PNG/)
  const shape = await post(infer, {
    inputs: [{ name: 'image', shape: [1, 2], datatype: 'FP32', data: [1, 2] }],
  })
  expect([shape.status, shape.json.error]).toEqual([
    400,
    expect.stringMatching(/'image' must be \[-1,224,224,3\], not \[1,2\]/),
  ])
})
