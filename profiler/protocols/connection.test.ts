import { createServer, type RequestListener } from 'node:http'
import {
  createServer as createHttp2Server,
  createSecureServer,
  type Http2ServerResponse,
} from 'node:http2'
import { createServer as createHttpsServer } from 'node:https'
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Server,
  type Socket,
} from 'node:net'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { HttpLoadGenerator } from '../load/http-generator.ts'
import { summariseRun } from '../load/load-point.ts'
import type { Load } from '../model/load.ts'
import type { Target } from '../model/target.ts'
import { ProtocolError } from '../profiler-errors.ts'
import { testCertificate, testKey } from '../testing/certificate.ts'
import { startGrpcServer } from '../testing/known-grpc-server.ts'
import { skipIfDisturbed } from '../testing/undisturbed.ts'
import { wire } from '../testing/wire.ts'
import { detectProtocol, protocolFor } from './index.ts'

const { signal } = new AbortController()
const generated = { kind: 'generated', seed: 1, count: 2 } as const
const slo = { percentile: 0.5, limitMs: 1000, maxErrorRate: 0.01 }
const loads: Load[] = [
  { kind: 'closed', connections: 2, durationS: 0.3 },
  { kind: 'open', rateRps: 40, arrivals: { kind: 'constant' }, durationS: 0.3, seed: 1 },
]
const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})
const generator = new HttpLoadGenerator()
afterAll(() => generator.close())

const kinds = ['http', 'https', 'h2c', 'h2'] as const
type Kind = (typeof kinds)[number]
const isHttp2 = (kind: Kind) => kind.startsWith('h2')
const secure = (kind: Kind) => kind === 'https' || kind === 'h2'

async function listen(server: Server, scheme = 'http', host = '127.0.0.1'): Promise<string> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => sockets.add(socket))
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  stops.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `${scheme}://${host}:${(server.address() as AddressInfo).port}`
}

/** A server that speaks one kind of HTTP and nothing else. */
function serve(kind: Kind, handle: RequestListener, host?: string): Promise<string> {
  const tls = { key: testKey, cert: testCertificate }
  const handle2 = handle as unknown as Parameters<typeof createHttp2Server>[1]
  const servers = {
    http: () => createServer(handle),
    https: () => createHttpsServer(tls, handle),
    h2c: () => createHttp2Server(handle2),
    h2: () => createSecureServer(tls, handle2),
  }
  return listen(servers[kind](), secure(kind) ? 'https' : 'http', host)
}

const answers: Readonly<Record<string, object>> = {
  'GET /v2/health/ready': {},
  'GET /v2/models/m': { name: 'm', inputs: [{ name: 'text', datatype: 'BYTES', shape: [-1] }] },
  'POST /v2/models/m/infer': { outputs: [{ name: 'y', datatype: 'FP32', shape: [1], data: [0] }] },
}
const oip: RequestListener = (request, response) => {
  request.resume().on('end', () => {
    const answer = answers[`${request.method} ${request.url}`]
    response.writeHead(answer === undefined ? 404 : 200).end(JSON.stringify(answer ?? {}))
  })
}

describe.each(kinds)('over %s', (kind) => {
  const options = {
    http2: isHttp2(kind),
    timeoutMs: 2000,
    ...(secure(kind) && { tls: { ca: testCertificate } }),
  }

  test('detected, ready, prepared and loaded, all in the same way', async () => {
    const versions = new Set<string>()
    const url = await serve(kind, (request, response) => {
      versions.add(request.httpVersion)
      oip(request, response)
    })
    expect(await detectProtocol(url, 'm', options, signal)).toBe('oip-v2')
    const protocol = protocolFor('oip-v2', options)
    expect(await protocol.isReady(url, 'm', signal)).toBe(true)
    expect(await protocol.isReady(url, 'other', signal)).toBe(false)
    const target = await protocol.prepare(url, 'm', generated, signal)
    for (const load of loads) {
      const point = await generator.run(target, load, slo, signal)
      expect([point.errorKinds, point.requests > 1]).toEqual([{}, true])
    }
    expect([...versions]).toEqual([isHttp2(kind) ? '2.0' : '1.1'])
  })

  test('a server that speaks only the other is named, with what to do', async () => {
    const url = await serve(kind, oip)
    const http2 = !isHttp2(kind)
    const wrong = protocolFor('oip-v2', { ...options, http2 })
    if (http2)
      await expect(wrong.isReady(url, 'm', signal)).rejects.toThrow(/does not speak HTTP\/2: /)
    else expect(await wrong.isReady(url, 'm', signal)).toBe(false)
    const failure = wrong.prepare(url, 'm', generated, signal)
    await expect(failure).rejects.toThrow(ProtocolError)
    await expect(failure).rejects.toThrow(
      http2 ? /does not speak HTTP\/2: / : /cannot be reached: /,
    )
    await expect(failure).rejects.toMatchObject({
      hint: expect.stringMatching(http2 ? /^drop --http2/ : /only HTTP\/2\? Then add --http2/),
    })
  })

  test('redirects, error statuses and a dead port are reported', async () => {
    const url = await serve(kind, (request, response) => {
      if (request.method === 'GET') return oip(request, response)
      response.writeHead(302, { location: '/elsewhere' }).end()
    })
    const protocol = protocolFor('oip-v2', options)
    await expect(protocol.prepare(url, 'm', generated, signal)).rejects.toThrow(
      /redirects \(302\) to \/elsewhere/,
    )
    await expect(protocol.prepare(url, 'none', generated, signal)).rejects.toThrow(/answered 404/)
    const nothing = url.replace(/\d+$/, '1')
    expect(await protocol.isReady(nothing, 'm', signal)).toBe(false)
    await expect(protocol.prepare(nothing, 'm', generated, signal)).rejects.toMatchObject({
      message: expect.stringContaining('ECONNREFUSED'),
      hint: expect.stringContaining('nothing listens'),
    })
  })

  test('a server that never answers ends with its deadline, and with the signal at once', async () => {
    const url = await serve(kind, (request, response) => {
      if (request.method === 'GET') oip(request, response)
    })
    const late = protocolFor('oip-v2', { ...options, timeoutMs: 150, firstAnswerMs: 150 }).prepare(
      url,
      'm',
      generated,
      signal,
    )
    await expect(late).rejects.toMatchObject({
      message: expect.stringContaining('did not answer its first request within 0.1'),
      why: 'no-answer',
    })
    const abort = new AbortController()
    const given = protocolFor('oip-v2', { ...options, timeoutMs: 60_000 }).prepare(
      url,
      'm',
      generated,
      abort.signal,
    )
    setTimeout(() => abort.abort(new Error('enough')), 100)
    await expect(given).rejects.toThrow('enough')
  })
})

describe.each(['https', 'h2'] as const)('certificates over %s', (kind) => {
  const http2 = isHttp2(kind)

  test('an unknown authority is reported, in probes and in loads', async () => {
    const url = await serve(kind, oip)
    const unknown = protocolFor('oip-v2', { http2 })
    for (const ask of [
      () => unknown.isReady(url, 'm', signal),
      () => unknown.prepare(url, 'm', generated, signal),
    ])
      await expect(ask()).rejects.toMatchObject({
        message: expect.stringMatching(/cannot be reached: .*certificate/),
        hint: expect.stringMatching(/--ca FILE.*--insecure-skip-verify/),
      })
    await expect(
      protocolFor('oip-v2', { http2, tls: { ca: 'none' } }).prepare(url, 'm', generated, signal),
    ).rejects.toMatchObject({
      message: expect.stringMatching(/PEM|certificate/),
      hint: expect.stringContaining('--ca FILE'),
    })
    const target = await protocolFor('oip-v2', { http2, tls: { ca: testCertificate } }).prepare(
      url,
      'm',
      generated,
      signal,
    )
    for (const load of loads) {
      const point = await generator.run({ ...target, tls: undefined }, load, slo, signal)
      expect(point.errorKinds).toEqual({ 'tls DEPTH_ZERO_SELF_SIGNED_CERT': point.requests })
    }
  })

  test('a certificate of another host is rejected, unless any is accepted', async () => {
    // Its names are localhost and 127.0.0.1.
    const url = await serve(kind, oip, '127.0.0.2')
    const ca = { ca: testCertificate }
    await expect(
      protocolFor('oip-v2', { http2, tls: ca }).prepare(url, 'm', generated, signal),
    ).rejects.toThrow(/127\.0\.0\.2/)
    const target = await protocolFor('oip-v2', {
      http2,
      tls: { insecureSkipVerify: true },
    }).prepare(url, 'm', generated, signal)
    for (const load of loads) {
      expect((await generator.run(target, load, slo, signal)).errors).toBe(0)
      const point = await generator.run({ ...target, tls: ca }, load, slo, signal)
      expect(point.errorKinds).toEqual({ 'tls ERR_TLS_CERT_ALTNAME_INVALID': point.requests })
    }
  })
})

describe('differences of HTTP/2', () => {
  test('a server that hangs up before it speaks HTTP/2', async () => {
    const url = await listen(createTcpServer((socket) => socket.on('error', () => {}).end()))
    await expect(
      protocolFor('oip-v2', { http2: true }).prepare(url, 'm', generated, signal),
    ).rejects.toMatchObject({
      message: expect.stringContaining('cannot be reached'),
      hint: expect.stringContaining('drop --http2'),
    })
  })

  test('a gRPC server, which answers over HTTP/2 too, is recognised', async () => {
    const server = await startGrpcServer({
      '/inference.GRPCInferenceService/ServerLive': () => wire([1, 1]),
    })
    stops.push(server.stop)
    expect(
      await detectProtocol(server.url.replace('grpc:', 'http:'), 'm', { http2: true }, signal),
    ).toBe('grpc-v2')
  })
})

describe.each(['h2c', 'h2'] as const)('streamed answers over %s', (kind) => {
  const options = {
    http2: true,
    timeoutMs: 5000,
    ...(secure(kind) && { tls: { ca: testCertificate } }),
  }
  const token = (finish: string | null = null) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'x' }, finish_reason: finish }] })}\n\n`
  const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

  /**
   * First token after 40 ms, then five more, one every 15 ms; what `cut` picks is reset after its
   * second token.
   */
  const streaming = (cut: (n: number) => boolean): RequestListener => {
    let n = 0
    return async (request, response) => {
      if (request.method === 'GET') return void response.end('{}')
      for await (const _ of request);
      const reset = cut(n++)
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      await wait(40)
      for (let i = 0; i < 6; i++) {
        if (reset && i === 2)
          return void (response as unknown as Http2ServerResponse).stream.destroy(
            new Error('told to reset'),
          )
        response.write(token(i === 5 ? 'length' : null))
        await wait(15)
      }
      response.end('data: [DONE]\n\n')
    }
  }
  const prepared = async (cut: (n: number) => boolean): Promise<Target> => {
    const url = await serve(kind, streaming(cut))
    const protocol = protocolFor('openai', options)
    expect(await protocol.isReady(url, 'm', signal)).toBe(true)
    return protocol.prepare(url, 'm', generated, signal)
  }

  test.for(loads)('$kind loop: times of tokens are those of the server', async (load, { skip }) => {
    const run = await generator.play(
      { ...(await prepared(() => false)), serverPids: () => [process.pid] } as Target,
      load,
      signal,
    )
    skipIfDisturbed(run, skip)
    const point = summariseRun(run, slo)
    expect(point.errorKinds).toEqual({})
    const { ttft, tpot, e2e, interToken } = point.stream!
    const late = 2 * point.latenessP99Ms
    expect(ttft.p50Ms).toBeGreaterThan(39)
    expect(ttft.p50Ms).toBeLessThan(65 + late)
    expect(tpot.p50Ms).toBeGreaterThan(14)
    expect(tpot.p50Ms).toBeLessThan(21)
    expect(e2e.p50Ms).toBeGreaterThan(ttft.p50Ms + 5 * 14)
    expect(interToken.requests).toBe(5 * point.requests)
  })

  test.each(loads)(
    '$kind loop: a stream reset in the middle is an error of its own class, and others go on',
    async (load) => {
      const point = await generator.run(await prepared((n) => n % 3 === 1), load, slo, signal)
      expect(Object.keys(point.errorKinds)).toEqual(['cut stream'])
      expect(point.achievedRps).toBeGreaterThan(0)
    },
  )
})
