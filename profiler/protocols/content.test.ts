import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { RequestBody } from '../model/target.ts'
import type { ItemCounts, PayloadSource } from '../payload-source.ts'
import { createUniform } from '../seeded-random.ts'
import { type Handler, startGrpcServer } from '../testing/known-grpc-server.ts'
import { unwire, wire } from '../testing/wire.ts'
import { protocolFor } from './index.ts'
import { sampleBodySizes, sampleItemCount } from './items.ts'
import type { ProtocolOptions } from './protocol-module.ts'
import type { ProtocolName } from './protocol-table.ts'

const { signal } = new AbortController()
const parsed = (body: RequestBody) => JSON.parse(Buffer.from(body.body).toString())
let folder: string
let server: Server
let url: string
/** Inputs of the Open Inference Protocol; TensorFlow Serving's signature. */
let inputs: unknown[] = []
let signature: unknown = {}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'content-'))
  const answers: Record<string, (asked: { instances?: unknown[] }) => object> = {
    '/v2/models/m': () => ({ name: 'm', inputs }),
    '/v2/models/m/infer': () => ({
      outputs: [{ name: 'y', datatype: 'FP32', shape: [1], data: [0] }],
    }),
    '/v1/models/m/metadata': () => ({
      metadata: { signature_def: { signature_def: { serving_default: { inputs: signature } } } },
    }),
    '/v1/models/m:predict': ({ instances }) => ({ predictions: instances!.map(() => 0) }),
    '/predict': () => ({ label: 'good' }),
  }
  server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    response.end(
      JSON.stringify(
        answers[request.url!]?.(JSON.parse(body || '{}')) ?? { error: 'no such path' },
      ),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(async () => {
  server.close()
  await rm(folder, { recursive: true })
})
beforeEach(() => {
  inputs = [{ name: 'text', datatype: 'BYTES', shape: [-1] }]
  signature = { text: { dtype: 'DT_STRING', tensor_shape: { dim: [{ size: '-1' }] } } }
})

const bodies = async (
  protocol: ProtocolName,
  payload: PayloadSource,
  options: ProtocolOptions = {},
  at = url,
) => (await protocolFor(protocol, options).prepare(at, 'm', payload, signal)).bodies
const generated = { kind: 'generated', seed: 1, count: 20 } as const
const order = (of: object) => ({ file: 'trace.csv', lines: [2, 3, 4], ...of })

describe('numbers of items', () => {
  test.each<[ItemCounts, number, number]>([
    [{ kind: 'fixed', items: 8 }, 8, 8],
    [{ kind: 'uniform', from: 2, to: 5 }, 2, 5],
    [{ kind: 'lognormal', median: 4, sigma: 5 }, 1, 4096],
    [{ kind: 'weighted', items: [1, 7], weights: [1, 3] }, 1, 7],
  ])('%j stays within its bounds', (counts, least, most) => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const items = sampleItemCount(counts, createUniform(seed))
        return Number.isInteger(items) && items >= least && items <= most
      }),
    )
  })

  test('weights are shares', () => {
    const uniform = createUniform(3)
    const drawn = Array.from({ length: 20_000 }, () =>
      sampleItemCount({ kind: 'weighted', items: [1, 8, 32], weights: [70, 20, 10] }, uniform),
    )
    const share = (items: number) => drawn.filter((value) => value === items).length / drawn.length
    expect(share(1)).toBeCloseTo(0.7, 1)
    expect(share(8)).toBeCloseTo(0.2, 1)
    expect(share(32)).toBeCloseTo(0.1, 1)
  })

  test('all texts of a file are used by default', () => {
    const sizes = sampleBodySizes(
      { kind: 'texts', path: '', seed: 1, items: { kind: 'fixed', items: 4 } },
      10,
    )
    expect(sizes).toEqual([4, 4, 4])
  })
})

describe('several items in a request', () => {
  const items = { kind: 'weighted', items: [1, 3], weights: [1, 1] } as const
  test('are a batch dimension', async () => {
    inputs.push({ name: 'scores', datatype: 'FP32', shape: [-1, 2] })
    const made = (await bodies('oip-v2', { ...generated, items })).map(parsed)
    const sizes = made.map(({ inputs: [text] }) => text.shape[0])
    expect(new Set(sizes)).toEqual(new Set([1, 3]))
    for (const { inputs: both } of made) {
      const [text, scores] = both
      expect(text.data).toHaveLength(text.shape[0])
      expect([scores.shape, scores.data.length]).toEqual([[text.shape[0], 2], text.shape[0] * 2])
    }
  })

  test('are instances', async () => {
    const sizes = (await bodies('tfserving', { ...generated, items })).map(
      (body) => parsed(body).instances.length,
    )
    expect(new Set(sizes)).toEqual(new Set([1, 3]))
  })

  test('are raw contents and shapes over gRPC', async () => {
    const oip = '/inference.GRPCInferenceService/'
    const minusOne = Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01])
    const methods: Record<string, Handler> = {
      [`${oip}ModelMetadata`]: () =>
        wire([1, 'm'], [4, wire([1, 'text'], [2, 'BYTES'], [3, minusOne])]),
      [`${oip}ModelInfer`]: () =>
        wire(
          [1, 'm'],
          [5, wire([1, 'logits'], [2, 'FP32'], [3, Buffer.from([1])])],
          [6, Buffer.alloc(4)],
        ),
    }
    const grpc = await startGrpcServer(methods)
    const [body] = await bodies(
      'grpc-v2',
      { ...generated, count: 1, items: { kind: 'fixed', items: 3 } },
      {},
      grpc.url,
    )
    grpc.stop()
    const fields = unwire(body!.body as Buffer)
    expect(unwire(fields.get(5)![0] as Buffer).get(3)).toEqual([Buffer.from([3])])
    const raw = fields.get(7)![0] as Buffer
    let elements = 0
    for (let at = 0; at < raw.length; at += 4 + raw.readUInt32LE(at)) elements++
    expect(elements).toBe(3)
  })

  test('need a list placeholder in a template', async () => {
    const [body] = await bodies(
      'json',
      { ...generated, items: { kind: 'fixed', items: 2 } },
      { template: '{"q": {{texts}}}' },
    )
    expect(parsed(body!).q).toEqual([expect.stringMatching(/\w/), expect.stringMatching(/\w/)])
    await expect(bodies('json', { ...generated, items })).rejects.toMatchObject({
      name: 'PayloadError',
      hint: expect.stringContaining('{{texts}}'),
    })
  })

  test('do not fit a fixed batch', async () => {
    inputs = [{ name: 'x', datatype: 'FP32', shape: [1, 2] }]
    await expect(
      bodies('oip-v2', { ...generated, items: { kind: 'fixed', items: 2 } }),
    ).rejects.toThrow(/'x' has the fixed shape \[1, 2\]/)
    expect(await bodies('oip-v2', generated)).toHaveLength(20)
  })

  test('do not apply to language models or complete requests', async () => {
    await expect(bodies('openai', { ...generated, items })).rejects.toThrow(/one prompt/)
    await expect(
      bodies('oip-v2', { kind: 'file', path: 'x.jsonl', order: order({ items: [1, 2, 3] }) }),
    ).rejects.toThrow(/complete requests/)
  })
})

describe('texts of a file', () => {
  const write = async (text: string | Buffer) => {
    const path = join(folder, 'texts.txt')
    await writeFile(path, text)
    return { kind: 'texts', path, seed: 1 } as const
  }
  test('are taken line by line', async () => {
    const source = await write('one\n\ntwo "quoted"\r\nthree\n')
    const texts = (await bodies('oip-v2', source)).map((body) => parsed(body).inputs[0].data[0])
    expect(texts).toEqual(['one', 'two "quoted"', 'three'])
    const [pair, rest] = (
      await bodies('tfserving', { ...source, items: { kind: 'fixed', items: 2 } })
    ).map((body) => parsed(body).instances)
    expect([pair, rest]).toEqual([
      [{ text: 'one' }, { text: 'two "quoted"' }],
      [{ text: 'three' }, { text: 'one' }],
    ])
    expect((await bodies('json', source)).map(parsed)[1]).toEqual({ text: 'two "quoted"' })
  })

  test.each<[string, string | Buffer, RegExp]>([
    ['nothing', '\n  \n', /texts\.txt:1: no text/],
    ['something else than UTF-8', Buffer.from([0x61, 0x0a, 0xff, 0xfe]), /texts\.txt:2: not UTF-8/],
  ])('%s is an error with its line', async (_, text, message) => {
    await expect(bodies('oip-v2', await write(text))).rejects.toThrow(message)
  })

  test('a model with numeric inputs takes none', async () => {
    inputs = [{ name: 'input_ids', datatype: 'INT64', shape: [-1, 8] }]
    await expect(bodies('oip-v2', await write('a'))).rejects.toThrow(
      /holds texts, but the model takes input_ids \(integer, \[1, 8\]\)/,
    )
  })
})

describe('images of a folder', () => {
  let path: string
  const red = { width: 6, height: 4, channels: 3, background: { r: 255, g: 0, b: 51 } } as const
  beforeAll(async () => {
    path = await mkdtemp(join(folder, 'pictures-'))
    await sharp({ create: red }).png().toFile(join(path, 'a.png'))
    await sharp({ create: red }).jpeg().toFile(join(path, 'b.JPG'))
    await writeFile(join(path, 'notes.md'), 'no picture')
  })
  const source = () => ({ kind: 'images', path, seed: 1 }) as const

  test('fill any byte input', async () => {
    inputs = [{ name: 'x', datatype: 'BYTES', shape: [-1] }]
    const made = (await bodies('oip-v2', source())).map((body) =>
      Buffer.from(parsed(body).inputs[0].data[0], 'base64'),
    )
    expect(made.map((bytes) => bytes.subarray(0, 2).toString('hex')).sort()).toEqual([
      '8950',
      'ffd8',
    ])
    const [row] = await bodies('tfserving', source())
    expect(parsed(row!).instances[0].text.b64).toMatch(/^(iVBOR|\/9j\/)/)
  })

  test.each<[string, number[], string, number[]]>([
    ['channels first, floats', [-1, 3, 2, 2], 'FP32', [1, 1, 1, 1, 0, 0, 0, 0, 0.2, 0.2, 0.2, 0.2]],
    ['channels last, whole numbers', [-1, 1, 2, 3], 'UINT8', [255, 0, 51, 255, 0, 51]],
  ])('are decoded for tensors: %s', async (_, shape, datatype, values) => {
    inputs = [{ name: 'x', datatype, shape }]
    const only = await mkdtemp(join(folder, 'one-'))
    await sharp({ create: red }).png().toFile(join(only, 'a.png'))
    const [body] = await bodies('oip-v2', { ...source(), path: only })
    expect(parsed(body!).inputs[0]).toEqual({
      name: 'x',
      datatype,
      shape: [1, ...shape.slice(1)],
      data: values,
    })
  })

  test('files that are no images are reported, and an empty folder', async () => {
    const bad = await mkdtemp(join(folder, 'bad-'))
    await expect(bodies('oip-v2', { ...source(), path: bad })).rejects.toThrow(/holds no images/)
    await writeFile(join(bad, 'x.png'), 'GIF89a')
    await expect(bodies('oip-v2', { ...source(), path: bad })).rejects.toThrow(
      /not an image, despite its name: .*x\.png/,
    )
    inputs = [{ name: 'x', datatype: 'FP32', shape: [-1, 3, 2, 2] }]
    await writeFile(join(bad, 'x.png'), Buffer.from('89504e470d0a1a0a00', 'hex'))
    await expect(bodies('oip-v2', { ...source(), path: bad })).rejects.toThrow(
      /x\.png cannot be decoded/,
    )
  })

  test('a model of token ids takes none', async () => {
    inputs = [{ name: 'input_ids', datatype: 'INT64', shape: [-1, 8] }]
    await expect(bodies('oip-v2', source())).rejects.toThrow(
      /holds images, but the model takes input_ids/,
    )
  })
})

describe('the order of a trace', () => {
  test('sizes: each request has the items of its line; equal sizes may share a body', async () => {
    const sizes = [1, 5, 1, 2, 1]
    const made = await bodies('tfserving', {
      ...generated,
      count: 3,
      order: order({ items: sizes, lines: [2, 3, 4, 5, 6] }),
    })
    expect(made.map((body) => parsed(body).instances.length)).toEqual(sizes)
    expect(made[2]).toBe(made[0])
  })

  test('bodies: by number; a missing one is reported with its line', async () => {
    const path = join(folder, 'bodies.jsonl')
    await writeFile(path, '{"inputs":[0]}\n{"inputs":[1]}\n')
    const made = await bodies('oip-v2', { kind: 'file', path, order: order({ bodies: [1, 0, 1] }) })
    expect(made.map((body) => parsed(body).inputs[0])).toEqual([1, 0, 1])
    const beyond = bodies('oip-v2', { kind: 'file', path, order: order({ bodies: [0, 2, 1] }) })
    await expect(beyond).rejects.toThrow('trace.csv:3: body 2, but the payload has only 2')
  })
})
