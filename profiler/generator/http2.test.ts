import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { testCertificate } from '../testing/certificate.ts'
import { startTestServer, type TestServer } from '../testing/servers.ts'
import type { TestService } from '../testing/service.ts'
import type { Load } from '../types.ts'
import { HttpLoadGenerator } from './http-generator.ts'
import { httpServers, loadGeneratorContract } from './load-generator.contract.ts'

const folder = mkdtempSync(join(tmpdir(), 'http2-'))
const { signal } = new AbortController()
const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
const load: Load = { kind: 'open', rateRps: 200, arrivals: { kind: 'poisson' }, durationS: 0.3, seed: 1 }
const authority = process.env.NODE_EXTRA_CA_CERTS
const started: TestServer[] = []

beforeAll(() => {
  // Read by the generator's process when it starts.
  process.env.NODE_EXTRA_CA_CERTS = join(folder, 'authority.pem')
  writeFileSync(process.env.NODE_EXTRA_CA_CERTS, testCertificate)
})
afterEach(async () => {
  for (const server of started.splice(0)) await server.stop()
})
afterAll(() => {
  if (authority === undefined) delete process.env.NODE_EXTRA_CA_CERTS
  else process.env.NODE_EXTRA_CA_CERTS = authority
  rmSync(folder, { recursive: true })
})

const start = async (service: Partial<TestService>) => {
  const server = await startTestServer(service)
  started.push(server)
  return { ...server.target, http2: true }
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
    toleranceMs: 12,
    durationS: 0.6,
    attempts: 10,
    create: () => new HttpLoadGenerator(),
    servers: () => httpServers(serve),
  })
})

describe('HTTP/2', () => {
  const generator = new HttpLoadGenerator()
  afterAll(() => generator.close())

  test('over TLS it is agreed on by ALPN, and measured alike; closed loops too', async () => {
    const target = await start({ http: 'h2', time: { kind: 'fixed', ms: 51 } })
    for (const each of [load, { kind: 'closed', connections: 3, durationS: 0.3 }] satisfies Load[]) {
      const point = await generator.run(target, each, slo, signal)
      expect(point.errors).toBe(0)
      expect(point.p50Ms).toBeGreaterThan(50)
      expect(point.p50Ms).toBeLessThan(70 + 2 * point.latenessP99Ms)
    }
  })

  test('many requests share a connection: one is enough for a hundred under way', async () => {
    const target = await start({ http: 'h2c', time: { kind: 'fixed', ms: 200 } })
    const point = await generator.run({ ...target, connections: 1 }, load, slo, signal)
    expect(point.errors).toBe(0)
    expect(point.p50Ms).toBeLessThan(300)
  })

  test('a stream that is reset is an error of its own, and the others go on', async () => {
    const point = await generator.run(await start({ http: 'h2c', fault: { kind: 'reset', share: 0.3 } }), load, slo, signal)
    expect(point.errors / point.requests).toBeGreaterThan(0.1)
    expect(point.errors / point.requests).toBeLessThan(0.6)
    expect(Object.keys(point.errorKinds)).toEqual(['reset'])
  })

  test.each(['https', undefined] as const)('a server without it (%s) is said to be, not loaded over HTTP/1.1', async (http) => {
    const point = await generator.run(await start({ http }), load, slo, signal)
    expect(point.errorKinds).toEqual({ 'no HTTP/2': point.requests })
  })

  test('without it a server that speaks nothing else answers no request', async () => {
    const target = await start({ http: 'h2c' })
    const point = await generator.run({ ...target, http2: false, timeoutMs: 300 }, load, slo, signal)
    expect(point.errors).toBe(point.requests)
  })
})
