import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startPredictor } from './predictor.ts'
import type { RunningPredictor } from './running-predictor.ts'
import { get, metric, post, startForTest, testSettings } from './testing.contract.ts'

let predictor: RunningPredictor
let infer: string
let predict: string
beforeAll(async () => {
  predictor = await startPredictor(
    testSettings({ QUEUE_LIMIT: '50', MAX_BODY_MIB: '0.1', SEQUENCE_LENGTH: '16' }),
  )
  infer = `${predictor.url}/v2/models/bert-tiny/infer`
  predict = `${predictor.url}/v1/models/bert-tiny:predict`
})
afterAll(() => predictor.stop())

const ids = (shape: number[], datatype = 'INT64', name = 'input_ids') => ({
  name,
  shape,
  datatype,
  data: Array(shape.reduce((a, b) => a * b, 1)).fill(1),
})

describe('bad requests get a protocol error that says what is wrong', () => {
  test.each([
    ['malformed JSON', '{"inputs": [', /not JSON/],
    ['nothing but brackets', '['.repeat(90_000), /nested deeper than 500 levels/],
    [
      'brackets deep inside',
      `{"inputs": ${'['.repeat(600)}1${']'.repeat(600)}}`,
      /nested deeper than 500 levels/,
    ],
    ['an empty body', '', /no body|not JSON/],
    [
      'an unknown input',
      { inputs: [ids([1, 4], 'INT64', 'tokens')] },
      /'text' \(BYTES \[-1\]\), or 'input_ids'.*got 'tokens' \(INT64\)/,
    ],
    ['a wrong type', { inputs: [ids([1, 4], 'FP32')] }, /got 'input_ids' \(FP32\)/],
    ['one dimension', { inputs: [ids([4])] }, /must be \[items, 1 to 16\], not \[4\]/],
    ['too many tokens', { inputs: [ids([1, 17])] }, /must be \[items, 1 to 16\], not \[1,17\]/],
    ['no items', { inputs: [ids([0, 4])] }, /at least one item/],
    [
      'more items than the queue holds',
      { inputs: [ids([51, 1])] },
      /may contain at most 50 items, not 51/,
    ],
    [
      'uneven inputs',
      { inputs: [ids([2, 4]), ids([3, 4], 'INT64', 'attention_mask')] },
      /'attention_mask' has 3 items, 'input_ids' has 2/,
    ],
    [
      'another width',
      { inputs: [ids([2, 4]), ids([2, 5], 'INT64', 'attention_mask')] },
      /'attention_mask' is \[2,5\]/,
    ],
    ['an input twice', { inputs: [ids([1, 4]), ids([1, 4])] }, /'input_ids' appears twice/],
    [
      'sentence pairs',
      { inputs: [ids([1, 4]), ids([1, 4], 'INT64', 'token_type_ids')] },
      /sentence pairs/,
    ],
    [
      'text of two per item',
      { inputs: [{ name: 'text', shape: [1, 2], datatype: 'BYTES', data: ['a', 'b'] }] },
      /\[items\] or \[items,1\]/,
    ],
    ['a negative token', { inputs: [{ ...ids([1, 1]), data: [-3] }] }, /-3, which is not a token/],
  ])('%s', async (_what, body, message) => {
    const { status, json } = await post(infer, body)
    expect(json.error).toMatch(message)
    expect(status).toBe(400)
  })

  test('in TensorFlow Serving too', async () => {
    for (const [body, message] of [
      ['nonsense', /not JSON/],
      [{ instances: [] }, /at least one value/],
      [{ instances: [[1, 2], [3]] }, /not rectangular/],
      [{ instances: [{ txt: 'a' }] }, /got 'txt'/],
    ] as const) {
      const { status, json } = await post(predict, body)
      expect(status).toBe(400)
      expect(json.error).toMatch(message)
    }
  })

  test('binary data that does not fit', async () => {
    const answer = await post(infer, '{}', { 'inference-header-content-length': '900' })
    expect([answer.status, answer.json.error]).toEqual([
      400,
      expect.stringMatching(/beyond the body/),
    ])
    const word = await post(infer, '{}', { 'inference-header-content-length': 'many' })
    expect([word.status, word.json.error]).toEqual([400, expect.stringMatching(/number of bytes/)])
  })

  test('a compressed body: 415', async () => {
    expect((await post(infer, 'gzip bytes', { 'content-encoding': 'gzip' })).status).toBe(415)
  })

  test('a body beyond the limit: 413', async () => {
    const { status, json } = await post(
      infer,
      `{"inputs":[{"name":"text","data":["${'a'.repeat(200_000)}"]}]}`,
    )
    expect(status).toBe(413)
    expect(json.error).toMatch(/too large/)
  })

  test.each([
    ['/v2/models/gpt/infer', /unknown model 'gpt'; this predictor serves 'bert-tiny'/],
    ['/v2/models/bert-tiny/versions/9/infer', /has no version '9'; there is 1/],
    ['/v1/models/gpt:predict', /unknown model 'gpt'/],
    ['/v1/models/bert-tiny/versions/9:predict', /no version '9'/],
    ['/v1/models/bert-tiny:classify', /is not supported; use :predict/],
    ['/v1/models/bert-tiny', /is not supported; use :predict/],
    ['/v1/models/a:b:c', /malformed path/],
    ['/v3', /no route POST/],
  ])('%s: 404', async (path, message) => {
    const { status, json } = await post(predictor.url + path, { instances: ['a'] })
    expect(json.error).toMatch(message)
    expect(status).toBe(404)
  })

  test.each([
    ['/v2/models/gpt', 404],
    ['/v2/models/gpt/ready', 404],
    ['/v2/models/bert-tiny/versions/2/ready', 404],
    ['/v1/models/gpt', 404],
    ['/v1/models/gpt/metadata', 404],
    ['/v1/models/bert-tiny:predict', 404],
    ['/nothing', 404],
  ])('GET %s: %d', async (path, status) => {
    expect((await get(predictor.url + path)).status).toBe(status)
  })
})

test('bodies that do not come end at their deadline, and block nobody', async () => {
  const slow = await startForTest({ REQUEST_TIMEOUT_S: '0.4' })
  const { port } = slow
  const head = 'POST /v2/models/bert-tiny/infer HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{'
  const ends = await Promise.all(
    ['', 'POST /v2', head]
      .flatMap((said) => [said, said, said])
      .map(
        (said) =>
          new Promise<string>((resolve) => {
            const socket = connect(port, '127.0.0.1', () => socket.write(said))
            let heard = ''
            socket.on('data', (chunk) => {
              heard += chunk
            })
            socket.on('close', () => resolve(heard))
            // One that goes on, a byte at a time, has no more time than another.
            const more = setInterval(
              () => said === head && socket.writable && socket.write(' '),
              50,
            )
            socket.on('close', () => clearInterval(more))
            if (said === '') setTimeout(() => socket.destroy(), 1_000)
          }),
      ),
  )
  expect(ends.slice(3)).toEqual(Array(6).fill(expect.stringMatching(/^HTTP\/1.1 408 /)))
  expect(
    (await post(`${slow.url}/v1/models/bert-tiny:predict`, { instances: ['still here'] })).status,
  ).toBe(200)
})

test('after all of that it serves, and has counted', async () => {
  const { status, json } = await post(predict, {
    instances: ['still here', { b64: Buffer.from('as bytes').toString('base64') }],
  })
  expect(status).toBe(200)
  expect(json.predictions).toHaveLength(2)
  expect(json.parameters).toEqual({ provenance: 'emulated' })
  expect((await post(predict, { inputs: { text: ['columns'] } })).json.outputs).toHaveLength(1)
  expect(
    (await get(`${predictor.url}/v1/models/bert-tiny`)).json.model_version_status[0],
  ).toMatchObject({
    version: '1',
    state: 'AVAILABLE',
  })
  expect(
    (await get(`${predictor.url}/v1/models/bert-tiny/versions/1/metadata`)).json.model_spec.name,
  ).toBe('bert-tiny')
  expect(await metric(predictor.url, 'predictor_rejected_total')).toBe(0)
})
