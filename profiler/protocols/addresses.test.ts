import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createHttp2Server } from 'node:http2'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { HttpLoadGenerator } from '../load/http-generator.ts'
import type { Load } from '../model/load.ts'
import { ProtocolError } from '../profiler-errors.ts'
import { formatUrl, parseServerAddress } from '../server-address.ts'
import { testCertificate, testKey } from '../testing/certificate.ts'
import { detectProtocol, protocolFor } from './index.ts'
import type { ProtocolName } from './protocol-table.ts'

const { signal } = new AbortController()
const generated = { kind: 'generated', seed: 1, count: 2 } as const
const loads: Load[] = [
  { kind: 'closed', connections: 8, durationS: 0.1 },
  { kind: 'open', rateRps: 40, arrivals: { kind: 'constant' }, durationS: 0.15, seed: 1 },
]
const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})
const generator = new HttpLoadGenerator()
afterAll(() => generator.close())

/** Resolves with host and port, or the socket's path. */
async function listen(server: Server, socketPath?: string): Promise<string> {
  await new Promise<void>((resolve) =>
    socketPath === undefined
      ? server.listen(0, '127.0.0.1', resolve)
      : server.listen(socketPath, resolve),
  )
  stops.push(() => {
    server.close()
    server.closeAllConnections?.()
  })
  return socketPath ?? `127.0.0.1:${(server.address() as AddressInfo).port}`
}

function newSocket(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tune-socket-'))
  stops.push(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'model.sock')
}

const stream = `data: {"model":"m","choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n`
const signature = {
  inputs: { x: { dtype: 'DT_FLOAT', tensor_shape: { dim: [{ size: '-1' }, { size: '2' }] } } },
  outputs: {},
}
/** What servers of each protocol answer, by method and path. */
const servers: Readonly<Partial<Record<ProtocolName, Readonly<Record<string, unknown>>>>> = {
  'oip-v2': {
    'GET /v2/health/ready': {},
    'GET /v2/models/m': { inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, 2] }] },
    'POST /v2/models/m/infer': {
      outputs: [{ name: 'y', datatype: 'FP32', shape: [1], data: [0] }],
    },
  },
  tfserving: {
    'GET /v1/models/m': { model_version_status: [] },
    'GET /v1/models/m/metadata': {
      metadata: { signature_def: { signature_def: { serving_default: signature } } },
    },
    'POST /v1/models/m:predict': { predictions: [1] },
  },
  openai: {
    'GET /v1/models': { object: 'list', data: [{ id: 'm' }] },
    'POST /v1/chat/completions': stream,
  },
  json: { 'GET /healthz': { ok: true }, 'POST /predict': { label: 'a' } },
}
const names = Object.keys(servers) as ProtocolName[]

/**
 * Serves a protocol below a path; what is asked outside of it is another server, that answers all
 * the same. @param asked is told of every request
 */
const below =
  (base: string, name: ProtocolName, asked: string[]): RequestListener =>
  (request, response) => {
    asked.push(request.url!)
    request.resume().on('end', () => {
      const own = request.url!.startsWith(base) ? request.url!.slice(base.length) : request.url!
      const answer = servers[name]![`${request.method} ${own}`]
      response
        .writeHead(answer === undefined ? 404 : 200)
        .end(typeof answer === 'string' ? answer : JSON.stringify(answer ?? {}))
    })
  }

async function servesAll(
  name: ProtocolName,
  url: string,
  options: Parameters<typeof protocolFor>[1] = {},
): Promise<string> {
  const protocol = protocolFor(name, { ...(name === 'json' && { path: '/predict' }), ...options })
  expect(await protocol.isReady(url, 'm', signal)).toBe(true)
  const target = await protocol.prepare(url, 'm', generated, signal)
  for (const load of loads) {
    const { errorKinds, latencyMs } = await generator.play(target, load, signal)
    expect({ load: load.kind, errorKinds }).toEqual({ load: load.kind, errorKinds: {} })
    expect(latencyMs.length).toBeGreaterThan(0)
  }
  return target.path
}

describe.each(names)('a server of %s', (name) => {
  test.each(['/ml/prod', '/ml/prod/'])('below %s is requested only there', async (base) => {
    const asked: string[] = []
    const url = `http://${await listen(createServer(below('/ml/prod', name, asked)))}${base}`
    if (name !== 'json') expect(await detectProtocol(url, 'm', {}, signal)).toBe(name)
    await servesAll(name, url)
    expect(asked.filter((path) => !path.startsWith('/ml/prod/'))).toEqual([])
  })

  test('on a unix socket, with a path of its own', async () => {
    const socket = await listen(createServer(below('/ml', name, [])), newSocket())
    for (const url of [`unix:${socket}:/ml`, `http+unix://${encodeURIComponent(socket)}/ml`]) {
      if (name !== 'json') expect(await detectProtocol(url, 'm', {}, signal)).toBe(name)
      expect(await servesAll(name, url)).toMatch(/^\/ml\//)
    }
  })

  test('behind a redirect is reported with the right URL', async () => {
    const moved: RequestListener = (request, response) =>
      request
        .resume()
        .on('end', () =>
          response.writeHead(308, { location: `https://inference.example/ml${request.url}` }).end(),
        )
    const url = `http://${await listen(createServer(moved))}`
    const protocol = protocolFor(name, name === 'json' ? { path: '/predict' } : {})
    const never = await protocol.explainNeverReady!(url, 'm', signal)
    expect(never).toMatchObject({
      what: expect.stringContaining('redirects (308) to https://inference.example/ml/'),
    })
    expect(never!.hint).toContain('--url https://inference.example/ml:')
    const asked = await protocol
      .prepare(url, 'm', generated, signal)
      .catch((error: unknown) => error)
    expect(asked).toBeInstanceOf(ProtocolError)
    expect((asked as ProtocolError).message).toMatch(/308/)
  })

  test('that requires a client certificate gets it, and rejects clients without one', async () => {
    const tls = {
      key: testKey,
      cert: testCertificate,
      ca: testCertificate,
      requestCert: true,
      rejectUnauthorized: true,
    }
    const url = `https://${await listen(createHttpsServer(tls, below('', name, [])))}`
    const ca = testCertificate
    await servesAll(name, url, { tls: { ca, cert: testCertificate, key: testKey } })
    const without = protocolFor(name, { tls: { ca }, path: '/predict' }).prepare(
      url,
      'm',
      generated,
      signal,
    )
    await expect(without).rejects.toThrow(ProtocolError)
  })
})

test('HTTP/2 on a unix socket', async () => {
  const socket = newSocket()
  await listen(createHttp2Server(below('', 'oip-v2', []) as never) as unknown as Server, socket)
  await servesAll('oip-v2', `unix:${socket}`, { http2: true })
})

test('gRPC has no base path, and says so', async () => {
  const asked = protocolFor('grpc-v2').prepare(
    'grpc://127.0.0.1:8001/ml/prod',
    'm',
    generated,
    signal,
  )
  await expect(asked).rejects.toThrow('has the path /ml/prod')
})

test('a path that redirects on the same server is named as a path', async () => {
  const slash: RequestListener = (request, response) =>
    request
      .resume()
      .on('end', () =>
        request.url === '/healthz'
          ? response.end('{}')
          : request.url === '/predict/'
            ? response.end('{}')
            : response.writeHead(308, { location: '/predict/' }).end(),
      )
  const url = `http://${await listen(createServer(slash))}`
  const failed = await protocolFor('json', { path: '/predict' })
    .prepare(url, 'm', generated, signal)
    .catch((error: unknown) => error)
  expect((failed as ProtocolError).message).toBe(`${url}/predict redirects (308) to /predict/`)
  expect((failed as ProtocolError).hint).toContain('/predict/')
  await expect(
    protocolFor('json', { path: '/predict/' }).prepare(url, 'm', generated, signal),
  ).resolves.toMatchObject({
    path: '/predict/',
  })
})

test('a query of the URL goes with every request', async () => {
  const asked: string[] = []
  const keyed: RequestListener = (request, response) => {
    asked.push(request.url!)
    request.resume().on('end', () => response.end('{}'))
  }
  const url = `http://${await listen(createServer(keyed))}/ml?api-version=2`
  const target = await protocolFor('json', { path: '/predict' }).prepare(
    url,
    'm',
    generated,
    signal,
  )
  expect(asked).toEqual(['/ml/predict?api-version=2'])
  expect(formatUrl(parseServerAddress(target.url)!, target.path)).toBe(
    url.replace('/ml?', '/ml/predict?'),
  )
})
