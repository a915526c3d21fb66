import { afterAll, afterEach, describe, expect, test } from 'vitest'
import type { Load } from '../model/load.ts'
import { testCertificate } from '../testing/certificate.ts'
import { startTestServer, type TestServer, targetAt } from '../testing/servers.ts'
import type { TestService } from '../testing/service.ts'
import { skipIfDisturbed } from '../testing/undisturbed.ts'
import { HttpLoadGenerator } from './http-generator.ts'
import { loadGeneratorContract, startHttpServers } from './load-generator.contract.ts'
import { summariseRun } from './load-point.ts'

const { signal } = new AbortController()
const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
const load: Load = {
  kind: 'open',
  rateRps: 200,
  arrivals: { kind: 'poisson' },
  durationS: 0.3,
  seed: 1,
}
const started: TestServer[] = []

afterEach(async () => {
  for (const server of started.splice(0)) await server.stop()
})

const start = async (service: Partial<TestService>) => {
  const server = await startTestServer(service)
  started.push(server)
  return { ...server.target, http2: true, tls: { ca: testCertificate } }
}

describe('over plain TCP', () => {
  const servers: TestServer[] = []
  const serve = async (service: Partial<TestService>) => {
    const server = await startTestServer({ http: 'h2c', ...service })
    servers.push(server)
    return { ...server.target, http2: true }
  }
  afterAll(async () => {
    for (const server of servers) await server.stop()
  })

  loadGeneratorContract({
    durationS: 0.6,
    create: () => new HttpLoadGenerator(),
    servers: () => startHttpServers(serve),
  })
})

describe('HTTP/2', () => {
  const generator = new HttpLoadGenerator()
  afterAll(() => generator.close())

  test('over TLS it is negotiated by ALPN, with the same latencies', async ({ skip }) => {
    const target = await start({ http: 'h2', time: { kind: 'fixed', ms: 51 } })
    for (const each of [
      load,
      { kind: 'closed', connections: 3, durationS: 0.3 },
    ] satisfies Load[]) {
      const run = await generator.play(target, each, signal)
      const point = summariseRun(run, slo)
      expect(point.errors).toBe(0)
      expect(point.p50Ms).toBeGreaterThan(50)
      skipIfDisturbed(run, skip)
      expect(point.p50Ms).toBeLessThan(60)
    }
  })

  test('one connection carries a hundred concurrent requests', async () => {
    const target = await start({ http: 'h2c', time: { kind: 'fixed', ms: 200 } })
    const point = await generator.run({ ...target, connections: 1 }, load, slo, signal)
    expect(point.errors).toBe(0)
    expect(point.p50Ms).toBeLessThan(300)
  })

  test.each(['reset', 'cut-body'] as const)(
    'a stream that is broken off (%s) is an error of its own, and the others go on',
    async (kind) => {
      // Without a string to expect, half an answer has nothing wrong but its end.
      const target = {
        ...(await start({ http: 'h2c', fault: { kind, share: 0.3 } })),
        expect: undefined,
      }
      const point = await generator.run(target, load, slo, signal)
      expect(point.errors / point.requests).toBeGreaterThan(0.1)
      expect(point.errors / point.requests).toBeLessThan(0.6)
      expect(Object.keys(point.errorKinds)).toEqual(['reset'])
    },
  )

  test.each(['https', undefined] as const)(
    'a server without it (%s) is said to be, not loaded over HTTP/1.1',
    async (http) => {
      const point = await generator.run(await start({ http }), load, slo, signal)
      expect(point.errorKinds).toEqual({ 'no HTTP/2': point.requests })
    },
  )

  test('a port where nothing listens is refused, not without HTTP/2', async () => {
    const point = await generator.run(
      { ...targetAt('http://127.0.0.1:1'), http2: true },
      load,
      slo,
      signal,
    )
    expect(point.errorKinds).toEqual({ refused: point.requests })
  })

  test('without it a server that speaks nothing else answers no request', async () => {
    const target = await start({ http: 'h2c' })
    const point = await generator.run(
      { ...target, http2: false, timeoutMs: 300 },
      load,
      slo,
      signal,
    )
    expect(point.errors).toBe(point.requests)
  })
})
