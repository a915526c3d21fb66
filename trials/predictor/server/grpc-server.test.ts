import { once } from 'node:events'
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2'
import { createConnection, type Socket } from 'node:net'
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HttpLoadGenerator } from '../../../profiler/load/http-generator.ts'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import { type Field, unwire, wire } from '../../../profiler/testing/wire.ts'
import { startPredictor } from '../predictor.ts'
import type { RunningPredictor } from '../running-predictor.ts'
import { metric, post, startForTest, testSettings } from '../testing.contract.ts'

const { signal } = new AbortController()
let predictor: RunningPredictor
let grpcUrl: string
let client: Client
beforeAll(async () => {
  predictor = await startPredictor(
    testSettings({ BATCH_SIZE: '4', SEQUENCE_LENGTH: '8', GRPC_PORT: '0', QUEUE_LIMIT: '50' }),
  )
  grpcUrl = `grpc://127.0.0.1:${predictor.grpcPort}`
  client = new Client(`127.0.0.1:${predictor.grpcPort}`, credentials.createInsecure())
})
afterAll(async () => {
  client.close()
  await predictor.stop()
})

/** A plain client: bytes made and read by hand. */
const call = (path: string, request: Buffer): Promise<Buffer> => {
  const asIs = (bytes: Buffer) => bytes
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      path,
      asIs,
      asIs,
      request,
      new Metadata(),
      (error: ServiceError | null, answer?: Buffer) => (error ? reject(error) : resolve(answer!)),
    )
  })
}
const sub = (message: Map<number, (Buffer | number)[]>, field: number, at = 0) =>
  unwire(message.get(field)![at] as Buffer)
const oip = (method: string, request: Buffer) =>
  call(`/inference.GRPCInferenceService/${method}`, request)
const tensorflow = (method: string, request: Buffer) =>
  call(`/tensorflow.serving.PredictionService/${method}`, request)

const rawText = (text: string) =>
  Buffer.concat([Buffer.from(Uint32Array.of(text.length).buffer), Buffer.from(text)])
const textInput = (...rest: Field[]) => wire([1, 'text'], [2, 'BYTES'], [3, Buffer.of(1)], ...rest)
const logitsOverHttp = async (text: string): Promise<number[]> => {
  const inputs = [{ name: 'text', shape: [1], datatype: 'BYTES', data: [text] }]
  return (await post(`${predictor.url}/v2/models/bert-tiny/infer`, { inputs })).json.outputs[0].data
}
const floats = (bytes: Buffer) =>
  Array.from({ length: bytes.length / 4 }, (_, i) =>
    Number(bytes.readFloatLE(4 * i).toPrecision(9)),
  )

describe('Open Inference Protocol', () => {
  test('live, ready, metadata', async () => {
    expect(await oip('ServerLive', wire())).toEqual(wire([1, 1]))
    expect(await oip('ServerReady', wire())).toEqual(wire([1, 1]))
    expect(await oip('ModelReady', wire([1, 'bert-tiny']))).toEqual(wire([1, 1]))
    expect(unwire(await oip('ServerMetadata', wire())).get(1)).toEqual([
      Buffer.from('tune-predictor'),
    ])
    const metadata = unwire(await oip('ModelMetadata', wire([1, 'bert-tiny'], [2, '1'])))
    expect(metadata.get(1)).toEqual([Buffer.from('bert-tiny')])
    expect(metadata.get(3)).toEqual([Buffer.from('tune_emulated')])
    expect([sub(metadata, 4).get(1), sub(metadata, 4).get(2)]).toEqual([
      [Buffer.from('text')],
      [Buffer.from('BYTES')],
    ])
    expect(sub(metadata, 5).get(1)).toEqual([Buffer.from('logits')])
  })

  test('the standard health service: the server, a model, no such model', async () => {
    const check = (service: string) => call('/grpc.health.v1.Health/Check', wire([1, service]))
    for (const service of ['', 'bert-tiny', 'inference.GRPCInferenceService'])
      expect(await check(service)).toEqual(wire([1, 1]))
    await expect(check('other')).rejects.toMatchObject({ code: status.NOT_FOUND })
  })

  test('raw and typed contents get the answer that HTTP gives, in their own form', async () => {
    const raw = unwire(
      await oip(
        'ModelInfer',
        wire([1, 'bert-tiny'], [3, 'id-7'], [5, textInput()], [7, rawText('some text')]),
      ),
    )
    expect(raw.get(3)).toEqual([Buffer.from('id-7')])
    const expected = await logitsOverHttp('some text')
    expect(floats(raw.get(6)![0] as Buffer)).toEqual(expected)
    const typed = unwire(
      await oip('ModelInfer', wire([1, 'bert-tiny'], [5, textInput([5, wire([8, 'some text'])])])),
    )
    expect(typed.has(6)).toBe(false)
    expect(floats(sub(sub(typed, 5), 5).get(6)![0] as Buffer)).toEqual(expected)
    expect(sub(sub(typed, 4), 2).get(3)).toEqual([Buffer.from('emulated')])
  })

  test('requests over gRPC and HTTP share batches', async () => {
    const before = await metric(predictor.url, 'predictor_batches_total')
    const texts = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
    await Promise.all(
      texts.map((text, i) =>
        i % 2 === 0
          ? logitsOverHttp(text)
          : oip('ModelInfer', wire([1, 'bert-tiny'], [5, textInput()], [7, rawText(text)])),
      ),
    )
    expect((await metric(predictor.url, 'predictor_batches_total')) - before).toBeLessThan(
      texts.length,
    )
  })

  test.each<[string, Buffer, number, RegExp]>([
    ['another model', wire([1, 'gpt']), status.NOT_FOUND, /unknown model 'gpt'/],
    ['another version', wire([1, 'bert-tiny'], [2, '9']), status.NOT_FOUND, /no version '9'/],
    ['no inputs', wire([1, 'bert-tiny']), status.INVALID_ARGUMENT, /at least one tensor/],
    [
      'a shape that does not fit',
      wire([1, 'bert-tiny'], [5, textInput()], [7, Buffer.of(9, 0, 0, 0, 1)]),
      status.INVALID_ARGUMENT,
      /cut off/,
    ],
    [
      'an unknown datatype',
      wire([1, 'bert-tiny'], [5, wire([1, 'x'], [2, 'COMPLEX'])]),
      status.INVALID_ARGUMENT,
      /'datatype' must be/,
    ],
    [
      'neither contents nor raw',
      wire([1, 'bert-tiny'], [5, textInput()]),
      status.INVALID_ARGUMENT,
      /neither contents nor raw/,
    ],
    ['garbage', Buffer.from([0xff, 0xff, 0xff]), status.INVALID_ARGUMENT, /not of type inference/],
    [
      'too many items',
      wire(
        [1, 'bert-tiny'],
        [
          5,
          wire(
            [1, 'text'],
            [2, 'BYTES'],
            [3, Buffer.of(60)],
            [5, wire(...Array.from({ length: 60 }, () => [8, 'a'] as const))],
          ),
        ],
      ),
      status.INVALID_ARGUMENT,
      /may contain at most 50 items/,
    ],
  ])('refuses %s with its reason', async (_, request, code, details) => {
    await expect(oip('ModelInfer', request)).rejects.toMatchObject({
      code,
      details: expect.stringMatching(details),
    })
  })
})

describe('TensorFlow Serving', () => {
  const text = (value: string) =>
    wire([1, 'text'], [2, wire([1, 7], [2, wire([2, wire([1, 1])])], [8, value])])
  const spec = wire([1, 'bert-tiny'])

  test('predicts what HTTP predicts', async () => {
    const answer = unwire(await tensorflow('Predict', wire([1, spec], [2, text('some text')])))
    const output = sub(answer, 1)
    expect(output.get(1)).toEqual([Buffer.from('logits')])
    const tensor = sub(output, 2)
    expect(tensor.get(1)).toEqual([1])
    expect(floats(tensor.get(4)![0] as Buffer)).toEqual(await logitsOverHttp('some text'))
    expect(sub(sub(answer, 2), 2).get(1)).toEqual([1])
  })

  test('the signature, and the state of the versions', async () => {
    const metadata = unwire(
      await tensorflow('GetModelMetadata', wire([1, spec], [2, 'signature_def'])),
    )
    expect(sub(metadata, 2).get(1)).toEqual([Buffer.from('signature_def')])
    const signature = sub(unwire(sub(sub(metadata, 2), 2).get(2)![0] as Buffer), 1)
    expect(signature.get(1)).toEqual([Buffer.from('serving_default')])
    expect(sub(sub(signature, 2), 1).get(1)).toEqual([Buffer.from('text')])
    const state = unwire(
      await call('/tensorflow.serving.ModelService/GetModelStatus', wire([1, spec])),
    )
    expect(sub(state, 1).get(2)).toEqual([30])
  })

  test.each<[string, Buffer, number, RegExp]>([
    ['no model', wire(), status.INVALID_ARGUMENT, /Missing ModelSpec/],
    [
      'another signature',
      wire([1, wire([1, 'bert-tiny'], [3, 'classify'])], [2, text('a')]),
      status.INVALID_ARGUMENT,
      /"classify" not found/,
    ],
    [
      'an unknown input',
      wire(
        [1, spec],
        [2, wire([1, 'x'], [2, wire([1, 1], [4, Buffer.alloc(4)], [2, wire([2, wire([1, 1])])])])],
      ),
      status.INVALID_ARGUMENT,
      /takes 'text'/,
    ],
    [
      'an unknown type',
      wire([1, spec], [2, wire([1, 'x'], [2, wire([1, 99])])]),
      status.INVALID_ARGUMENT,
      /data type 99/,
    ],
  ])('refuses %s with its reason', async (_, request, code, details) => {
    await expect(tensorflow('Predict', request)).rejects.toMatchObject({
      code,
      details: expect.stringMatching(details),
    })
  })
})

describe.each(['grpc-v2', 'tfserving-grpc'] as const)("the profiler's %s", (name) => {
  test('finds it ready, prepares requests and loads it', async () => {
    const protocol = protocolFor(name)
    expect(await protocol.isReady(grpcUrl, 'bert-tiny', signal)).toBe(true)
    expect(await protocol.isReady(grpcUrl, 'gpt', signal)).toBe(false)
    const target = await protocol.prepare(
      grpcUrl,
      'bert-tiny',
      { kind: 'generated', seed: 1, count: 4 },
      signal,
    )
    const generator = new HttpLoadGenerator()
    const slo = { percentile: 0.99, limitMs: 100, maxErrorRate: 0.01 }
    const load = {
      kind: 'open',
      rateRps: 50,
      arrivals: { kind: 'poisson' },
      durationS: 0.6,
      seed: 1,
    } as const
    const point = await generator.run({ ...target, bodies: target.bodies }, load, slo, signal)
    await generator.close()
    expect(point).toMatchObject({ errors: 0, requests: 30 })
  })
})

test('pictures, whose thousand scores a worker writes, over both protocols', async () => {
  const { grpcPort } = await startForTest({ MODEL: 'mobilenet', GRPC_PORT: '0' })
  for (const name of ['grpc-v2', 'tfserving-grpc'] as const) {
    const payload = {
      kind: 'generated',
      seed: 1,
      count: 1,
      items: { kind: 'fixed', items: 2 },
    } as const
    expect(
      (
        await protocolFor(name).prepare(
          `grpc://127.0.0.1:${grpcPort}`,
          'mobilenet',
          payload,
          signal,
        )
      ).bodies,
    ).toHaveLength(1)
  }
})

test('a taken gRPC port is an error that says so', async () => {
  await expect(
    startPredictor(testSettings({ GRPC_PORT: String(predictor.grpcPort) })),
  ).rejects.toMatchObject({ code: 'EADDRINUSE' })
})

describe('requests that do not come', () => {
  const path = '/inference.GRPCInferenceService/ServerLive'
  const headers = {
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
  }

  /** However the server ends it, with a reset or without. */
  const closed = (of: Socket | ClientHttp2Session) =>
    new Promise<void>((resolve) => {
      of.on('error', () => {}).on('close', resolve)
    })

  test('end at their deadline with their connection, dripping or silent, and block nobody', async () => {
    const { grpcPort } = await startForTest({ GRPC_PORT: '0', REQUEST_TIMEOUT_S: '0.4' })
    const drip = (stream: ClientHttp2Stream) =>
      setInterval(() => stream.writable && stream.write(Buffer.of(0)), 50)
    const ends = await Promise.all(
      [drip, drip, (stream: ClientHttp2Stream) => stream.write(Buffer.of(0, 0, 0)), () => {}].map(
        async (feed) => {
          const session = connect(`http://127.0.0.1:${grpcPort}`)
          const ended = closed(session)
          const stream = session.request(headers).on('error', () => {})
          const answered = once(stream, 'response')
          const timer = feed(stream)
          await ended
          clearInterval(timer as NodeJS.Timeout | undefined)
          return (await answered)[0]['grpc-status']
        },
      ),
    )
    expect(ends).toEqual(Array(4).fill(String(status.DEADLINE_EXCEEDED)))
    await closed(createConnection(grpcPort!, '127.0.0.1').resume())
    const asked = new Client(`127.0.0.1:${grpcPort}`, credentials.createInsecure())
    const answer = await new Promise((resolve, reject) =>
      asked.makeUnaryRequest(
        path,
        (b: Buffer) => b,
        (b) => b,
        Buffer.alloc(0),
        (error, value) => (error ? reject(error) : resolve(value)),
      ),
    )
    expect(answer).toEqual(wire([1, 1]))
    asked.close()
  })
})
