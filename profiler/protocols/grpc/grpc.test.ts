import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { createServer as createHttp2Server } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { buildGrpcMetadata, createGrpcClient } from '../../load/grpc-sender.ts'
import { HttpLoadGenerator } from '../../load/http-generator.ts'
import { summariseRun } from '../../load/load-point.ts'
import type { Load } from '../../model/load.ts'
import { ProtocolError } from '../../profiler-errors.ts'
import { testCertificate, testKey } from '../../testing/certificate.ts'
import { type Handler, startGrpcServer } from '../../testing/known-grpc-server.ts'
import { skipIfDisturbed } from '../../testing/undisturbed.ts'
import { unwire, wire } from '../../testing/wire.ts'
import { detectProtocol, protocolFor } from '../index.ts'
import { listModels } from '../model-list.ts'
import { prepareOnceAnswering, prepareOnceReady } from '../until-serving.ts'

const { signal } = new AbortController()
const generated = { kind: 'generated', seed: 1, count: 4 } as const
const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
const generator = new HttpLoadGenerator()
afterAll(() => generator.close())

let server: Awaited<ReturnType<typeof startGrpcServer>> | undefined
afterEach(() => server?.stop())
const serve = async (methods: Record<string, Handler>) => {
  server = await startGrpcServer(methods)
  return server.url
}

const oip = '/inference.GRPCInferenceService/'
const ready = wire([1, 1])
/** int64 shapes are packed varints; -1 is ten bytes. */
const minusOne = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]
const inputMetadata = (name: string, datatype: string, shape: number[]) =>
  wire([1, name], [2, datatype], [3, Buffer.from(shape)])
const oipServer = (
  infer: Handler,
  inputs = [inputMetadata('text', 'BYTES', minusOne)],
): Record<string, Handler> => ({
  [`${oip}ServerLive`]: () => ready,
  [`${oip}ServerReady`]: () => ready,
  [`${oip}ModelReady`]: (request) =>
    wire([1, unwire(request).get(1)?.[0]?.toString() === 'bert' ? 1 : 0]),
  [`${oip}ModelMetadata`]: () =>
    wire([1, 'bert'], [2, '1'], [3, 'test'], ...inputs.map((input) => [4, input] as const)),
  [`${oip}ModelInfer`]: infer,
})
const oipAnswer = wire(
  [1, 'bert'],
  [5, wire([1, 'logits'], [2, 'FP32'], [3, Buffer.from([1, 1])])],
  [6, Buffer.alloc(4)],
)

describe('the authority, by which gateways route', () => {
  /** An ingress that answers nobody and keeps what it was called by. */
  const startIngress = async () => {
    const seen: { authority?: string; host?: string | string[] }[] = []
    const ingress = createHttp2Server().on('stream', (stream, headers) => {
      seen.push({ authority: headers[':authority'], host: headers.host })
      stream.respond({ ':status': 404 })
      stream.end()
    })
    ingress.listen(0, '127.0.0.1')
    await once(ingress, 'listening')
    const { port } = ingress.address() as AddressInfo
    return { seen, ingress, url: `grpc://127.0.0.1:${port}` }
  }

  test.each(['Host', 'host', ':authority'])(
    'is the header %s in probes and loads',
    async (name) => {
      const { seen, ingress, url } = await startIngress()
      const headers = { [name]: 'bert.ns.example.com', 'x-tenant': 'a' }
      try {
        await protocolFor('grpc-v2', { headers }).isReady(url, 'bert', signal)
        await expect(
          protocolFor('grpc-v2', { headers }).prepare(url, 'bert', generated, signal),
        ).rejects.toThrow()
        const client = createGrpcClient(url.replace('grpc:', 'http:'), {}, headers)
        await new Promise((resolve) =>
          client.makeUnaryRequest(
            '/a/b',
            (bytes: Buffer) => bytes,
            (bytes: Buffer) => bytes,
            Buffer.alloc(0),
            buildGrpcMetadata(headers),
            resolve,
          ),
        )
        client.close()
        expect(seen.length).toBeGreaterThanOrEqual(3)
        for (const call of seen)
          expect(call).toEqual({ authority: 'bert.ns.example.com', host: undefined })
      } finally {
        ingress.close()
      }
    },
  )
})

describe('Open Inference Protocol over gRPC, against messages made by hand', () => {
  test('ready only when the server and the model are', async () => {
    const url = await serve(oipServer(() => oipAnswer))
    const protocol = protocolFor('grpc-v2')
    expect(await protocol.isReady(url, 'bert', signal)).toBe(true)
    expect(await protocol.isReady(url, 'other', signal)).toBe(false)
    expect(await protocol.isReady('grpc://127.0.0.1:1', 'bert', signal)).toBe(false)
  })

  test('metadata becomes messages with raw contents', async () => {
    const seen: Buffer[] = []
    const inputs = [
      inputMetadata('text', 'BYTES', minusOne),
      inputMetadata('attention_mask', 'INT64', [...minusOne, 3]),
    ]
    const url = await serve(
      oipServer((request) => {
        seen.push(request)
        return oipAnswer
      }, inputs),
    )
    const target = await protocolFor('grpc-v2', { headers: { 'x-tenant': 'a' } }).prepare(
      url,
      'bert',
      generated,
      signal,
    )
    expect(target).toMatchObject({
      transport: 'grpc',
      path: `${oip}ModelInfer`,
      expect: 'logits',
      url: url.replace('grpc:', 'http:'),
    })
    expect(target.bodies).toHaveLength(4)
    const fields = unwire(seen[0]!)
    expect(fields.get(1)).toEqual([Buffer.from('bert')])
    const [text, mask] = fields.get(5)!.map((input) => unwire(input as Buffer))
    expect([text!.get(1), text!.get(2)]).toEqual([[Buffer.from('text')], [Buffer.from('BYTES')]])
    expect(mask!.get(3)).toEqual([Buffer.from([1, 3])])
    const [textBytes, maskBytes] = fields.get(7) as Buffer[]
    expect(textBytes!.readUInt32LE(0)).toBe(textBytes!.length - 4)
    expect(textBytes!.subarray(4).toString()).toMatch(/^[A-Z].*\.$/)
    expect(new BigInt64Array(new Uint8Array(maskBytes!).buffer)).toEqual(
      BigInt64Array.of(1n, 1n, 1n),
    )
  })

  test('bodies of the REST form are read from a file', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'grpc-'))
    const path = join(folder, 'bodies.jsonl')
    await writeFile(
      path,
      '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[[1.5,-2]]}]}\n',
    )
    const url = await serve(oipServer(() => oipAnswer))
    const { bodies } = await protocolFor('grpc-v2').prepare(
      url,
      'bert',
      { kind: 'file', path },
      signal,
    )
    const raw = unwire(bodies[0]!.body as Buffer).get(7)![0] as Buffer
    expect([raw.readFloatLE(0), raw.readFloatLE(4)]).toEqual([1.5, -2])
    await writeFile(path, '{"text":"no"}\n')
    await expect(
      protocolFor('grpc-v2').prepare(url, 'bert', { kind: 'file', path }, signal),
    ).rejects.toThrow(/body 1: no list of 'inputs'/)
    await rm(folder, { recursive: true })
  })

  test.each<[string, Handler, RegExp]>([
    [
      'an error',
      () => ({ code: 3, details: 'expected shape [-1,16]' }),
      /INVALID_ARGUMENT: expected shape \[-1,16\]/,
    ],
    ['no outputs', () => wire([1, 'bert']), /without outputs/],
    ['garbage', () => Buffer.from([0xff, 0xff, 0xff]), /unreadable answer/],
  ])('%s is a ProtocolError with the evidence', async (_, infer, message) => {
    const url = await serve(oipServer(infer))
    const failure = protocolFor('grpc-v2').prepare(url, 'bert', generated, signal)
    await expect(failure).rejects.toThrow(ProtocolError)
    await expect(failure).rejects.toThrow(message)
  })

  test.each([
    `${oip}RepositoryIndex`,
    '/inference.model_repository.ModelRepositoryService/RepositoryIndex',
  ])('a missing model is reported with the models that %s lists', async (index) => {
    const url = await serve({
      ...oipServer(() => oipAnswer),
      [`${oip}ModelMetadata`]: () => ({ code: 5, details: "Request for unknown model: 'other'" }),
      [index]: () => wire([1, wire([1, 'bert'], [2, '1'])], [1, wire([1, 'resnet'])]),
    })
    expect(await listModels('grpc-v2', url, {}, signal)).toEqual(['bert', 'resnet'])
    const protocol = protocolFor('grpc-v2')
    const missing = {
      message: `${url} lists no model 'other': it has bert, resnet`,
      hint: expect.stringContaining('--model NAME'),
    }
    const endpoint = { protocol, url, model: 'other', payload: generated }
    await expect(prepareOnceAnswering(endpoint, 5000, signal)).rejects.toMatchObject(missing)
    await expect(
      prepareOnceReady({ ...endpoint, runsAlready: true }, 10_000, signal),
    ).rejects.toMatchObject(missing)
  })

  test('a missing model of a server without a list is reported with the message of the server', async () => {
    const url = await serve({
      ...oipServer(() => oipAnswer),
      [`${oip}ModelMetadata`]: () => ({ code: 5, details: "unknown model: 'other'" }),
    })
    expect(await listModels('grpc-v2', url, {}, signal)).toEqual([])
    const endpoint = { protocol: protocolFor('grpc-v2'), url, model: 'other', payload: generated }
    await expect(prepareOnceAnswering(endpoint, 5000, signal)).rejects.toMatchObject({
      message: expect.stringContaining("NOT_FOUND: unknown model: 'other'"),
      hint: 'check the model name',
    })
  })

  test('a server of the other protocol, a REST port, a dead port and a bad URL say so', async () => {
    const url = await serve({
      '/tensorflow.serving.PredictionService/Predict': () => Buffer.alloc(0),
    })
    await expect(protocolFor('grpc-v2').prepare(url, 'm', generated, signal)).rejects.toMatchObject(
      {
        message: expect.stringMatching(/UNIMPLEMENTED/),
        hint: expect.stringMatching(/use --protocol tfserving-grpc/),
      },
    )
    const rest = createServer((_, response) => response.end('{}'))
    await new Promise<void>((resolve) => rest.listen(0, '127.0.0.1', resolve))
    const restUrl = `http://127.0.0.1:${(rest.address() as AddressInfo).port}`
    await expect(protocolFor('grpc-v2').prepare(restUrl, 'm', generated, signal)).rejects.toThrow(
      ProtocolError,
    )
    rest.close()
    await expect(
      protocolFor('grpc-v2').prepare('grpc://127.0.0.1:1', 'm', generated, signal),
    ).rejects.toThrow(/cannot be reached/)
    await expect(protocolFor('grpc-v2').prepare('ftp://x', 'm', generated, signal)).rejects.toThrow(
      /not the URL of a gRPC server/,
    )
  })
})

describe('features of gRPC itself', () => {
  const tls = { certificate: testCertificate, key: testKey }

  test('TLS: an unknown authority is rejected, a configured one trusted, and any on request', async () => {
    server = await startGrpcServer(
      oipServer(() => oipAnswer),
      { tls },
    )
    const { url } = server
    await expect(
      protocolFor('grpc-v2').prepare(url, 'bert', generated, signal),
    ).rejects.toMatchObject({
      message: expect.stringMatching(/cannot be reached: .*certificate/),
      hint: expect.stringContaining('--ca'),
    })
    for (const name of ['grpc-v2', 'tfserving-grpc'] as const)
      await expect(protocolFor(name).isReady(url, 'bert', signal)).rejects.toMatchObject({
        why: 'untrusted',
      })
    await expect(detectProtocol(url, 'bert', {}, signal)).rejects.toMatchObject({
      hint: expect.stringContaining('--ca'),
    })
    for (const checks of [{ ca: testCertificate }, { insecureSkipVerify: true }]) {
      const protocol = protocolFor('grpc-v2', { tls: checks })
      expect(await protocol.isReady(url, 'bert', signal)).toBe(true)
      expect(await detectProtocol(url, 'bert', { tls: checks }, signal)).toBe('grpc-v2')
      const target = await protocol.prepare(url, 'bert', generated, signal)
      const point = await generator.run(
        target,
        { kind: 'closed', connections: 2, durationS: 0.2 },
        slo,
        signal,
      )
      expect([point.errors, point.requests > 0]).toEqual([0, true])
    }
    const target = await protocolFor('grpc-v2', { tls: { ca: testCertificate } }).prepare(
      url,
      'bert',
      generated,
      signal,
    )
    const point = await generator.run(
      { ...target, tls: undefined },
      { kind: 'closed', connections: 1, durationS: 0.1 },
      slo,
      signal,
    )
    expect(point.errorKinds).toEqual({ tls: point.requests })
  })

  test('the standard health service is used where there is one', async () => {
    let status = 2
    const url = await serve({
      ...oipServer(() => oipAnswer),
      '/grpc.health.v1.Health/Check': () => wire([1, status]),
    })
    expect(await protocolFor('grpc-v2').isReady(url, 'bert', signal)).toBe(false)
    status = 1
    expect(await protocolFor('grpc-v2').isReady(url, 'bert', signal)).toBe(true)
    expect(await protocolFor('grpc-v2').isReady(url, 'other', signal)).toBe(false)
  })

  test('headers are metadata, -bin ones bytes, and calls carry their deadline', async () => {
    const seen: Readonly<Record<string, unknown>>[] = []
    const methods = oipServer(() => oipAnswer)
    const url = await serve({
      ...methods,
      [`${oip}ModelInfer`]: (_, metadata) => {
        seen.push(metadata)
        return oipAnswer
      },
    })
    const headers = { 'x-tenant': 'a', 'trace-bin': Buffer.from('id').toString('base64') }
    const target = await protocolFor('grpc-v2', { headers, timeoutMs: 700 }).prepare(
      url,
      'bert',
      generated,
      signal,
    )
    await generator.run(target, { kind: 'closed', connections: 1, durationS: 0.1 }, slo, signal)
    expect(seen.length).toBeGreaterThan(1)
    for (const metadata of seen)
      expect(metadata).toMatchObject({ 'x-tenant': 'a', 'trace-bin': Buffer.from('id') })
  })

  test('a message beyond the limit of the server is reported as such', async () => {
    server = await startGrpcServer(
      oipServer(() => oipAnswer),
      { maxBytes: 200 },
    )
    await expect(
      protocolFor('grpc-v2').prepare(server.url, 'bert', generated, signal),
    ).rejects.toMatchObject({
      message: expect.stringMatching(/RESOURCE_EXHAUSTED/),
      hint: expect.stringContaining('fewer items'),
      why: 'refused',
    })
  })
})

describe('TensorFlow Serving over gRPC, against messages made by hand', () => {
  const service = '/tensorflow.serving.PredictionService/'
  const signatures = wire([
    1,
    wire(
      [1, 'serving_default'],
      [
        2,
        wire([
          1,
          wire([1, 'text'], [2, wire([1, 'text:0'], [2, 7], [3, wire([2, wire([1, 1])])])]),
        ]),
      ],
    ),
  ])
  const metadata = wire([
    2,
    wire(
      [1, 'signature_def'],
      [2, wire([1, 'type.googleapis.com/tensorflow.serving.SignatureDefMap'], [2, signatures])],
    ),
  ])
  const answer = wire([1, wire([1, 'probabilities'], [2, wire([1, 1], [4, Buffer.alloc(4)])])])

  test('the signature becomes string tensors', async () => {
    const seen: Buffer[] = []
    const url = await serve({
      '/tensorflow.serving.ModelService/GetModelStatus': () => wire([1, wire([1, 1], [2, 30])]),
      [`${service}GetModelMetadata`]: () => metadata,
      [`${service}Predict`]: (request) => {
        seen.push(request)
        return answer
      },
    })
    const protocol = protocolFor('tfserving-grpc')
    expect(await protocol.isReady(url, 'm', signal)).toBe(true)
    const target = await protocol.prepare(url, 'm', generated, signal)
    expect(target).toMatchObject({
      transport: 'grpc',
      path: `${service}Predict`,
      expect: 'probabilities',
    })
    const fields = unwire(seen[0]!)
    expect(unwire(fields.get(1)![0] as Buffer).get(1)).toEqual([Buffer.from('m')])
    const entry = unwire(fields.get(2)![0] as Buffer)
    expect(entry.get(1)).toEqual([Buffer.from('text')])
    const tensor = unwire(entry.get(2)![0] as Buffer)
    expect(tensor.get(1)).toEqual([7])
    expect(unwire(unwire(tensor.get(2)![0] as Buffer).get(2)![0] as Buffer).get(1)).toEqual([1])
    expect(tensor.get(8)![0]!.toString()).toMatch(/^[A-Z].*\.$/)
  })

  test('a model that still loads is not ready', async () => {
    const url = await serve({
      '/tensorflow.serving.ModelService/GetModelStatus': () =>
        wire([1, wire([1, 1], [2, 20], [3, wire([2, 'on its way'])])]),
    })
    const reasons: string[] = []
    const onReason = (reason: string) => reasons.push(reason)
    expect(await protocolFor('tfserving-grpc').isReady(url, 'm', signal, onReason)).toBe(false)
    expect(reasons).toEqual([expect.stringMatching(/version 1 is LOADING \(on its way\)/)])
  })
})

describe('load over gRPC', () => {
  const loads: Load[] = [
    { kind: 'closed', connections: 4, durationS: 0.5 },
    { kind: 'open', rateRps: 100, arrivals: { kind: 'poisson' }, durationS: 0.5, seed: 1 },
  ]
  const after = (ms: number, answer: Buffer) =>
    new Promise<Buffer>((resolve) => setTimeout(() => resolve(answer), ms))
  const played = async (infer: Handler, load: Load, timeoutMs = 300) => {
    const url = await serve(oipServer(infer))
    const first = {
      kind: 'http',
      transport: 'grpc',
      url: url.replace('grpc:', 'http:'),
      path: `${oip}ModelInfer`,
      expect: 'logits',
    } as const
    const target = {
      ...first,
      headers: {},
      bodies: [{ contentType: 'application/grpc', body: wire([1, 'bert']) }],
      timeoutMs,
    }
    // The server is of this process: its waiting counts.
    return generator.play({ ...target, serverPids: () => [process.pid] }, load, signal)
  }

  test.for(loads)('$kind loop: a fixed latency, and no error', async (load, { skip }) => {
    const run = await played(() => after(20, oipAnswer), load, 5000)
    const point = summariseRun(run, slo)
    expect(point.errors).toBe(0)
    expect(point.p50Ms).toBeGreaterThan(19)
    skipIfDisturbed(run, skip)
    expect(point.p50Ms).toBeLessThan(24)
  })

  test.each(loads)('$kind loop: failures by their class', async (load) => {
    let n = 0
    const run = await played(() => {
      const which = n++ % 4
      if (which === 0) return { code: 8, details: 'queue full' }
      if (which === 1) return wire([1, 'bert'])
      return which === 2 ? after(10_000, oipAnswer) : oipAnswer
    }, load)
    const point = summariseRun(run, slo)
    expect(Object.keys(point.errorKinds).sort()).toEqual([
      'bad answer',
      'grpc RESOURCE_EXHAUSTED',
      'timeout',
    ])
    expect(point.achievedRps).toBeGreaterThan(0)
  })

  test.each(loads)('$kind loop: a port where nothing listens refuses', async (load) => {
    const target = {
      kind: 'http',
      transport: 'grpc',
      url: 'http://127.0.0.1:1',
      path: '/a/b',
      headers: {},
      timeoutMs: 500,
    } as const
    const point = await generator.run(
      { ...target, bodies: [{ contentType: 'application/grpc', body: Buffer.of(1) }] },
      load,
      slo,
      signal,
    )
    expect(point.errorKinds).toEqual({ refused: point.requests })
    expect(point.requests).toBeLessThan(500)
  })
})
