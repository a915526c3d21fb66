import { afterAll, afterEach, describe, expect, test } from 'vitest'
import type { Load } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import { installedServers } from '../testing/closing-servers.ts'
import { startGrpcServer } from '../testing/known-grpc-server.ts'
import { startTestServer, type TestServer, targetAt } from '../testing/servers.ts'
import type { TestService } from '../testing/service.ts'
import { HttpLoadGenerator } from './http-generator.ts'

const generator = new HttpLoadGenerator()
const { signal } = new AbortController()
const open: Load = {
  kind: 'open',
  rateRps: 200,
  arrivals: { kind: 'poisson' },
  durationS: 0.4,
  seed: 1,
}
const loads: Load[] = [
  { kind: 'closed', connections: 1, durationS: 0.2 },
  { kind: 'closed', connections: 4, durationS: 0.2 },
  // As many as autocannon would play, of a server that was fast the time before.
  { kind: 'closed', connections: 12, durationS: 0.25 },
  { kind: 'closed', connections: 12, durationS: 0.25 },
  { kind: 'closed', connections: 12, durationS: 0.2, forOpen: true },
  open,
]
const stops: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})
afterAll(() => generator.close())

const serve = async (service: Partial<TestService>): Promise<TestServer> => {
  const server = await startTestServer({ time: { kind: 'fixed', ms: 2 }, ...service })
  stops.push(() => server.stop())
  return server
}

/**
 * All loads on a server, none of whose requests may fail. Connections opened and requests sent
 * again, over all of them.
 */
const allGood = async (target: TestServer['target']) => {
  const counts = { requests: 0, opened: 0, retried: 0 }
  for (const load of loads) {
    const run: LoadRun = await generator.play(target, load, signal)
    expect({ load, errorKinds: run.errorKinds }).toEqual({ load, errorKinds: {} })
    // Answers that were taken for other requests' would be too fast.
    expect(Math.min(...run.latencyMs)).toBeGreaterThan(0)
    counts.requests += run.latencyMs.length
    counts.opened += run.connections!.opened
    counts.retried += run.connections!.retried
  }
  return counts
}

describe('a healthy server that closes its connections', () => {
  test('with each answer', async () => {
    const { requests, opened, retried } = await allGood(
      (await serve({ closes: { kind: 'each' } })).target,
    )
    expect(opened).toBeGreaterThanOrEqual(requests)
    expect(retried).toBe(0)
  })

  test('with each answer, over TLS', async () => {
    const target = {
      ...(await serve({ http: 'https', closes: { kind: 'each' } })).target,
      tls: { insecureSkipVerify: true },
    }
    expect((await allGood(target)).opened).toBeGreaterThan(20)
  })

  test('over HTTP/2, by GOAWAY', async () => {
    const target = {
      ...(await serve({ http: 'h2c', closes: { kind: 'goaway', answers: 10 } })).target,
      http2: true,
    }
    expect((await allGood(target)).opened).toBeGreaterThan(5)
  })

  test('over gRPC, by GOAWAY once they are old', async () => {
    const { url, stop } = await startGrpcServer(
      { '/a.B/C': () => Buffer.from('outputs') },
      { connectionAgeMs: 300 },
    )
    stops.push(async () => stop())
    const bodies = [{ contentType: 'application/grpc', body: Buffer.alloc(0) }]
    const target = {
      ...targetAt(url),
      transport: 'grpc',
      path: '/a.B/C',
      bodies,
      expect: 'outputs',
    } as const
    for (const load of loads)
      expect((await generator.play(target, load, signal)).errorKinds).toEqual({})
  })

  test('between two windows', async () => {
    const { target } = await serve({ closes: { kind: 'idle', ms: 100 } })
    for (let i = 0; i < 3; i++) {
      expect(
        (await generator.play(target, { ...open, durationS: 0.2 }, signal)).errorKinds,
      ).toEqual({})
      await new Promise((resolve) => setTimeout(resolve, 150))
    }
  })
})

test.each<[string, TestService['fault']]>([
  ['closes', { kind: 'hang-up', share: 0.5 }],
  ['resets', { kind: 'reset', share: 0.5 }],
])(
  'a server that takes requests and %s the connection fails them: none is sent again',
  async (_, fault) => {
    const { target } = await serve({ time: { kind: 'fixed', ms: 30 }, fault })
    const run = await generator.play(target, { ...open, rateRps: 100 }, signal)
    const failed = Object.values(run.errorKinds).reduce((sum, count) => sum + count, 0)
    expect(failed).toBeGreaterThan(0.3 * run.latencyMs.length)
    expect(run.connections?.retried).toBe(0)
  },
)

describe('servers as they are installed', () => {
  for (const { name, missing, start } of installedServers())
    test(name, async ({ skip }) => {
      if (missing !== undefined) skip(missing)
      const server = await start()
      stops.push(() => server.stop())
      const { requests } = await allGood({ ...targetAt(server.url), expect: '"outputs"' })
      expect(requests).toBeGreaterThan(100)
    })
})
