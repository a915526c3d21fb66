/**
 * What servers of others take and give: narrow numbers, columns, no batch, compressed bodies, typed
 * contents.
 */
import { createServer, type RequestListener } from 'node:http'
import { createServer as createHttp2Server } from 'node:http2'
import type { AddressInfo, Server } from 'node:net'
import { brotliCompressSync, createGzip, deflateSync, gzipSync } from 'node:zlib'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { HttpLoadGenerator } from '../load/http-generator.ts'
import { TokenStream } from '../load/token-stream.ts'
import type { Load } from '../model/load.ts'
import { type Handler, startGrpcServer } from '../testing/known-grpc-server.ts'
import { unwire, wire } from '../testing/wire.ts'
import { decodeMessage } from './grpc/definitions.ts'
import { protocolFor } from './index.ts'

const { signal } = new AbortController()
const generated = { kind: 'generated', seed: 1, count: 3 } as const
const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})
const generator = new HttpLoadGenerator()
afterAll(() => generator.close())

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stops.push(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

type Answer = (path: string, body: Record<string, unknown>) => unknown
/** Answers by method and path; undefined is a 404, and an error a 400. */
const serve = (answer: Answer) =>
  listen(
    createServer((request, response) => {
      let text = ''
      request.on('data', (chunk) => (text += chunk))
      request.on('end', () => {
        const said = answer(`${request.method} ${request.url}`, text === '' ? {} : JSON.parse(text))
        response.writeHead(said === undefined ? 404 : said instanceof Error ? 400 : 200)
        response.end(JSON.stringify(said instanceof Error ? { error: said.message } : (said ?? {})))
      })
    }),
  )

const ranges: Readonly<Record<string, readonly [number, number]>> = {
  INT8: [-128, 127],
  UINT8: [0, 255],
  INT16: [-32_768, 32_767],
  UINT16: [0, 65_535],
  UINT32: [0, 2 ** 32 - 1],
  INT64: [0, 30_000],
}

describe('whole numbers stay in the range of their type', () => {
  test.each(Object.entries(ranges))(
    '%s, by two protocols, in rows as in pixels',
    async (datatype, [least, most]) => {
      const seen: number[] = []
      const shapes = [64, 3 * 4 * 4]
      const answer = (path: string, { inputs }: Record<string, unknown>) => {
        if (path === 'GET /v2/models/m')
          return {
            inputs: [
              { name: 'x', datatype, shape: [-1, shapes[0]] },
              { name: 'y', datatype, shape: [-1, 3, 4, 4] },
            ],
          }
        for (const { data } of inputs as { data: number[] }[]) seen.push(...data)
        return { outputs: [{ name: 'o', datatype: 'FP32', shape: [1], data: [0] }] }
      }
      const target = await protocolFor('oip-v2').prepare(
        await serve(answer),
        'm',
        generated,
        signal,
      )
      expect(target.bodies).toHaveLength(3)
      expect(new Set(seen).size).toBeGreaterThan(20)
      expect(
        seen.filter((value) => !Number.isInteger(value) || value < least || value > most),
      ).toEqual([])
      const dtype = `DT_${datatype}`
      const signature = {
        inputs: { x: { dtype, tensor_shape: { dim: [{ size: '-1' }, { size: '64' }] } } },
        outputs: {},
      }
      const rows: number[] = []
      const tensorflow = await serve((path, { instances }) => {
        if (path.startsWith('GET'))
          return { metadata: { signature_def: { signature_def: { serving_default: signature } } } }
        rows.push(...(instances as { x: number[] }[]).flatMap(({ x }) => x))
        return { predictions: [1] }
      })
      await protocolFor('tfserving').prepare(tensorflow, 'm', generated, signal)
      expect(rows.length).toBeGreaterThan(0)
      expect(rows.filter((value) => value < least || value > most)).toEqual([])
    },
  )
})

const dims = (...sizes: number[]) => ({
  tensor_shape: { dim: sizes.map((size) => ({ size: String(size) })) },
})
/**
 * As TensorFlow Serving: rows are stacked to a batch, columns stand as they are, and another
 * signature has to be named.
 */
const tensorflow =
  (signatures: Record<string, { inputs: Record<string, object> }>): Answer =>
  (path, body) => {
    if (path === 'GET /v1/models/m/metadata')
      return { metadata: { signature_def: { signature_def: signatures } } }
    if (path !== 'POST /v1/models/m:predict') return undefined
    const {
      signature_name = 'serving_default',
      instances,
      inputs,
    } = body as { signature_name?: string; instances?: unknown[]; inputs?: object }
    const signature = signatures[signature_name]
    if (signature === undefined)
      return new Error(`Serving signature name: "${signature_name}" not found in signature def`)
    const given = inputs === undefined ? Object.keys(instances![0] as object) : Object.keys(inputs)
    if (given.join() !== Object.keys(signature.inputs).join())
      return new Error(`wrong inputs ${given}`)
    return inputs === undefined ? { predictions: instances!.map(() => 1) } : { outputs: [0.5] }
  }

describe('TensorFlow Serving', () => {
  const rows = { inputs: { x: { dtype: 'DT_FLOAT', ...dims(-1, 2) } }, outputs: {} }
  const fixed = { inputs: { z: { dtype: 'DT_FLOAT', ...dims(3) } }, outputs: {} }

  test.each([
    [
      'the usual one',
      { serving_default: rows, other: fixed },
      undefined,
      { instances: [{ x: [expect.any(Number), expect.any(Number)] }] },
    ],
    [
      'the only one',
      { classify: rows },
      undefined,
      { signature_name: 'classify', instances: [{ x: expect.anything() }] },
    ],
    [
      'one that is asked for',
      { serving_default: fixed, classify: rows },
      'classify',
      { signature_name: 'classify', instances: expect.anything() },
    ],
    [
      'one without a batch, in columns',
      { serving_default: fixed },
      undefined,
      { inputs: { z: [expect.any(Number), expect.any(Number), expect.any(Number)] } },
    ],
  ])('a signature: %s', async (_, signatures, signature, body) => {
    const target = await protocolFor('tfserving', { signature }).prepare(
      await serve(tensorflow(signatures)),
      'm',
      generated,
      signal,
    )
    expect(JSON.parse(String(target.bodies[0]!.body))).toEqual(body)
    expect(target.expect).toBe('inputs' in body ? '"outputs"' : '"predictions"')
    const load: Load = {
      kind: 'open',
      rateRps: 40,
      arrivals: { kind: 'constant' },
      durationS: 0.2,
      seed: 1,
    }
    expect((await generator.play(target, load, signal)).errorKinds).toEqual({})
  })

  test('an unknown signature is reported with the known ones', async () => {
    const asked = protocolFor('tfserving', { signature: 'clasify' }).prepare(
      await serve(tensorflow({ classify: rows })),
      'm',
      generated,
      signal,
    )
    await expect(asked).rejects.toMatchObject({
      message: "the model has no signature 'clasify' with inputs",
      hint: 'it has classify (--signature)',
    })
  })

  test('several items do not fit a model without a batch dimension', async () => {
    const items = { kind: 'fixed', items: 2 } as const
    const asked = protocolFor('tfserving').prepare(
      await serve(tensorflow({ serving_default: fixed })),
      'm',
      { ...generated, items },
      signal,
    )
    await expect(asked).rejects.toThrow('fixed shape [3]')
  })
})

describe('an answer without the batch dimension', () => {
  const oip = (shape: number[], declared: number[]) =>
    serve((path) =>
      path === 'GET /v2/models/m'
        ? {
            inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, 2] }],
            outputs: [{ name: 'y', datatype: 'FP32', shape: declared }],
          }
        : {
            outputs: [
              {
                name: 'y',
                datatype: 'FP32',
                shape,
                data: Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => 0),
              },
            ],
          },
    )

  test('fits a single item', async () => {
    await expect(
      protocolFor('oip-v2').prepare(await oip([3], [-1, 3]), 'm', generated, signal),
    ).resolves.toBeDefined()
  })

  test.each([
    [[4], [-1, 3]],
    [[3], [1, 3, 3]],
  ])('%j does not fit %j', async (shape, declared) => {
    await expect(
      protocolFor('oip-v2').prepare(await oip(shape, declared), 'm', generated, signal),
    ).rejects.toThrow('has the shape')
  })

  test('does not fit several items', async () => {
    const items = { kind: 'fixed', items: 2 } as const
    await expect(
      protocolFor('oip-v2').prepare(await oip([3], [-1, 3]), 'm', { ...generated, items }, signal),
    ).rejects.toThrow('has the shape')
  })
})

const encodings = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync }
const loads: Load[] = [
  { kind: 'closed', connections: 8, durationS: 0.1 },
  { kind: 'closed', connections: 2, durationS: 0.1 },
  { kind: 'open', rateRps: 40, arrivals: { kind: 'constant' }, durationS: 0.2, seed: 1 },
]

describe.each(Object.entries(encodings))('bodies in %s', (encoding, compress) => {
  const handle: RequestListener = (request, response) =>
    request.resume().on('end', () => {
      const metadata = { inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, 2] }] }
      const answer = { outputs: [{ name: 'y', datatype: 'FP32', shape: [1], data: [0] }] }
      response
        .writeHead(200, { 'content-encoding': encoding })
        .end(compress(JSON.stringify(request.method === 'GET' ? metadata : answer)))
    })

  test.each([false, true])('are read by probes and loads alike; over HTTP/2: %s', async (http2) => {
    const url = await listen(http2 ? createHttp2Server(handle as never) : createServer(handle))
    const target = await protocolFor('oip-v2', { http2 }).prepare(url, 'm', generated, signal)
    for (const load of loads) {
      const { errorKinds, latencyMs } = await generator.play(target, load, signal)
      expect({ kind: load.kind, errorKinds }).toEqual({ kind: load.kind, errorKinds: {} })
      expect(latencyMs.length).toBeGreaterThan(0)
    }
    const other = await generator.play({ ...target, expect: 'nowhere' }, loads[2]!, signal)
    expect(Object.keys(other.errorKinds)).toEqual(['bad answer'])
  })
})

test('an invalid encoding has its own error class', async () => {
  let lies = false
  const url = await listen(
    createServer((request, response) =>
      request
        .resume()
        .on('end', () =>
          response.writeHead(200, lies ? { 'content-encoding': 'gzip' } : {}).end('{"outputs": 1}'),
        ),
    ),
  )
  const target = await protocolFor('json', { path: '/p' }).prepare(url, 'm', generated, signal)
  lies = true
  expect(Object.keys((await generator.play(target, loads[2]!, signal)).errorKinds)).toEqual([
    'bad encoding',
  ])
  await expect(
    protocolFor('json', { path: '/p' }).prepare(url, 'm', generated, signal),
  ).rejects.toThrow('not valid gzip')
})

const chunk = (delta: object, finish: string | null = null) =>
  `data: ${JSON.stringify({ model: 'm', choices: [{ delta, finish_reason: finish }] })}\n\n`

test('tokens of a gzipped stream are timed as they arrive', async () => {
  const url = await listen(
    createServer((request, response) =>
      request.resume().on('end', () => {
        response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' })
        const zip = createGzip()
        zip.pipe(response)
        const say = (text: string) => {
          zip.write(text)
          zip.flush()
        }
        say(chunk({ content: 'a' }))
        setTimeout(() => say(chunk({ content: 'b' })), 300)
        setTimeout(() => {
          say(chunk({}, 'stop'))
          zip.end('data: [DONE]\n\n')
        }, 600)
      }),
    ),
  )
  const target = await protocolFor('openai').prepare(url, 'm', generated, signal)
  const { stream, latencyMs, errorKinds } = await generator.play(
    target,
    { kind: 'closed', connections: 1, durationS: 0.1 },
    signal,
  )
  expect(errorKinds).toEqual({})
  expect(latencyMs[0]).toBeGreaterThan(590)
  expect(stream!.latenciesMs.ttft[0]).toBeLessThan(latencyMs[0]! - 100)
})

test('calls of tools are tokens of a stream', () => {
  const call = (args: object) => ({ tool_calls: [{ index: 0, function: args }] })
  const stream = new TokenStream()
  const deltas = [
    call({ name: 'weather', arguments: '' }),
    call({ arguments: '{"city":' }),
    call({ arguments: '"Bonn"}' }),
  ]
  for (const [i, delta] of deltas.entries()) stream.push(Buffer.from(chunk(delta)), 10 * (i + 1))
  stream.push(Buffer.from(`${chunk({}, 'tool_calls')}data: [DONE]\n\n`), 40)
  expect(stream.failure).toBeUndefined()
  expect(stream.text).toBe('weather{"city":"Bonn"}')
  expect(stream.times).toMatchObject({ firstTokenMs: 10, lastTokenMs: 30, tokens: 3 })
})

describe('a gRPC server that reads only typed contents', () => {
  const oip = '/inference.GRPCInferenceService/'
  const metadata = (inputs: readonly [string, string][]) =>
    wire(
      ...inputs.map(
        ([name, datatype]) => [4, wire([1, name], [2, datatype], [3, Buffer.from([1])])] as const,
      ),
    )
  const inputs: readonly [string, string][] = [
    ['t', 'BYTES'],
    ['b', 'BOOL'],
    ['i', 'INT8'],
    ['u', 'UINT16'],
    ['l', 'INT64'],
    ['f', 'FP32'],
    ['d', 'FP64'],
  ]
  const answer = wire(
    [1, 'm'],
    [5, wire([1, 'y'], [2, 'FP32'], [3, Buffer.from([1])], [5, wire([6, Buffer.alloc(4)])])],
  )

  test('gets typed contents, each type in its field', async () => {
    const seen: Buffer[] = []
    const infer: Handler = (request) => {
      if ((unwire(request).get(7) ?? []).length > 0)
        return { code: 2, details: 'Exception calling application: contents is empty' }
      seen.push(request)
      return answer
    }
    const server = await startGrpcServer({
      [`${oip}ModelMetadata`]: () => metadata(inputs),
      [`${oip}ModelInfer`]: infer,
    })
    stops.push(() => server.stop())
    const target = await protocolFor('grpc-v2').prepare(server.url, 'm', generated, signal)
    const asked = decodeMessage<{
      inputs: { datatype: string; contents: Record<string, unknown[]> }[]
    }>('inference.ModelInferRequest', seen[0]!)
    const places = asked.inputs.map(({ datatype, contents }) => [
      datatype,
      Object.keys(contents).filter((key) => contents[key]!.length === 1),
    ])
    expect(Object.fromEntries(places)).toEqual({
      BYTES: ['bytes_contents'],
      BOOL: ['bool_contents'],
      INT8: ['int_contents'],
      UINT16: ['uint_contents'],
      INT64: ['int64_contents'],
      FP32: ['fp32_contents'],
      FP64: ['fp64_contents'],
    })
    const load: Load = {
      kind: 'open',
      rateRps: 40,
      arrivals: { kind: 'constant' },
      durationS: 0.2,
      seed: 1,
    }
    expect((await generator.play(target, load, signal)).errorKinds).toEqual({})
  })

  test('a server that refuses both is quoted with its first error', async () => {
    let calls = 0
    const infer: Handler = () => ({ code: 3, details: `refusal ${++calls}` })
    const server = await startGrpcServer({
      [`${oip}ModelMetadata`]: () => metadata([['f', 'FP32']]),
      [`${oip}ModelInfer`]: infer,
    })
    stops.push(() => server.stop())
    await expect(
      protocolFor('grpc-v2').prepare(server.url, 'm', generated, signal),
    ).rejects.toThrow('refusal 1')
    expect(calls).toBe(2)
  })
})
