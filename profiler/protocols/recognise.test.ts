import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { startGrpcServer } from '../testing/known-grpc-server.ts'
import { wire } from '../testing/wire.ts'
import { detectProtocol, protocolFor } from './index.ts'
import type { ProtocolName } from './protocol-table.ts'

const { signal } = new AbortController()
let stop: (() => void) | undefined
afterEach(() => stop?.())

/** A server that answers these paths with this JSON, and everything else with 404. */
const serve = async (
  paths: Readonly<Record<string, object>>,
  otherwise: object = { error: 'no such path' },
) => {
  const server: Server = createServer((request, response) => {
    const answer = paths[request.url!]
    response.statusCode = answer === undefined ? 404 : 200
    response.end(JSON.stringify(answer ?? otherwise))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stop = () => server.close()
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
const oip = { '/v2/models/m': { name: 'm', inputs: [] }, '/v2/health/live': { live: true } }
const tfserving = { '/v1/models/m': { model_version_status: [] } }
const openai = { '/v1/models': { object: 'list', data: [] } }

test.each<[ProtocolName, Readonly<Record<string, object>>, object | undefined]>([
  ['oip-v2', oip, undefined],
  ['oip-v2', { '/v2/health/live': {} }, undefined],
  ['tfserving', tfserving, undefined],
  ['tfserving', {}, { error: 'Servable not found for request: Latest(x)' }],
  ['tfserving', {}, { error: 'Malformed request: GET /v2/models/m' }],
  ['openai', openai, undefined],
  ['json', { '/predict': {} }, undefined],
])('%s is detected', async (name, paths, otherwise) => {
  expect(await detectProtocol(await serve(paths, otherwise), 'm', {}, signal)).toBe(name)
})

test.each<[ProtocolName, string]>([
  ['grpc-v2', '/inference.GRPCInferenceService/ServerLive'],
  ['tfserving-grpc', '/tensorflow.serving.ModelService/GetModelStatus'],
])('%s is detected behind its port', async (name, path) => {
  const server = await startGrpcServer({ [path]: () => wire([1, 1]) })
  stop = server.stop
  expect(await detectProtocol(server.url, 'm', {}, signal)).toBe(name)
})

test.each<[asked: ProtocolName, paths: Readonly<Record<string, object>>, hint: string]>([
  ['oip-v2', tfserving, 'this looks like TensorFlow Serving; use --protocol tfserving'],
  ['tfserving', oip, 'this looks like the Open Inference Protocol; use --protocol oip-v2'],
  ['json', openai, 'this looks like the OpenAI protocol; use --protocol openai'],
  ['openai', oip, 'this looks like the Open Inference Protocol; use --protocol oip-v2'],
  ['grpc-v2', tfserving, 'this looks like TensorFlow Serving; use --protocol tfserving'],
])('a client of %s reports a server of another protocol', async (asked, paths, hint) => {
  const url = await serve(paths)
  const failure = protocolFor(asked).prepare(
    url,
    'm',
    { kind: 'generated', seed: 1, count: 1 },
    signal,
  )
  await expect(failure).rejects.toMatchObject({ name: 'ProtocolError', hint })
  expect(await protocolFor(asked).describeOtherProtocol?.(url, 'm', signal)).toBe(hint)
})

test('a server of several protocols is accepted', async () => {
  const url = await serve({ ...oip, ...tfserving })
  expect(await protocolFor('tfserving').describeOtherProtocol?.(url, 'm', signal)).toBeUndefined()
  expect(await protocolFor('json').describeOtherProtocol?.(url, 'm', signal)).toMatch(/oip-v2/)
})

test('recognises nothing where nothing listens', async () => {
  await expect(detectProtocol('grpc://127.0.0.1:1', 'm', {}, signal)).rejects.toThrow(
    /cannot be reached/,
  )
  const server = await startGrpcServer({ '/a.B/C': () => Buffer.alloc(0) })
  stop = server.stop
  await expect(detectProtocol(server.url, 'm', {}, signal)).rejects.toThrow(
    /speaks no known gRPC protocol/,
  )
  expect(
    await protocolFor('oip-v2').describeOtherProtocol?.('http://127.0.0.1:1', 'm', signal),
  ).toBeUndefined()
})

test.each<[status: number, posted: number, healthPath: string | undefined, ready: boolean]>([
  [405, 405, undefined, true],
  [404, 404, undefined, false],
  [404, 400, undefined, true],
  [404, 500, undefined, true],
  [404, 503, undefined, false],
  [404, 400, '/health', false],
  [503, 503, undefined, false],
  [405, 405, '/health', false],
  [400, 200, undefined, true],
  [415, 200, undefined, true],
  [200, 200, undefined, true],
  [400, 200, '/health', false],
])(
  'plain JSON: a call that answers %i to a GET, %i to a POST, health path %s: ready %s',
  async (status, posted, healthPath, ready) => {
    const server = createServer(({ url, method }, response) =>
      response.writeHead(url !== '/call' ? 404 : method === 'POST' ? posted : status).end(),
    )
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    stop = () => server.close()
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    expect(await protocolFor('json', { path: '/call', healthPath }).isReady(url, 'm', signal)).toBe(
      ready,
    )
  },
)

test('plain JSON: /healthz that reports not ready wins over the call', async () => {
  const server = createServer(({ url }, response) =>
    response.writeHead(url === '/healthz' ? 503 : 405).end(),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stop = () => server.close()
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  expect(await protocolFor('json', { path: '/call' }).isReady(url, 'm', signal)).toBe(false)
})

test('plain JSON: a server that starts between two checks is checked again', async () => {
  let looks = 0
  const server = createServer(({ url, socket }, response) => {
    // As if nobody listened yet when its health was first asked for.
    if (url === '/healthz' && looks++ < 2) socket.destroy()
    else response.writeHead(url === '/healthz' ? 503 : 405).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stop = () => server.close()
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  for (let look = 1; look <= 3; look++)
    expect(
      await protocolFor('json', { path: '/call' }).isReady(url, 'm', signal),
      `look ${look}`,
    ).toBe(false)
})
