import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Load } from '../model/load.ts'
import { loadedServer, loads, signal, slo } from '../testing/loaded-server.ts'
import { startTestServer, type TestServer, targetAt } from '../testing/servers.ts'
import type { TestService } from '../testing/service.ts'
import { skipIfDisturbed } from '../testing/undisturbed.ts'
import { HttpLoadGenerator } from './http-generator.ts'
import { loadGeneratorContract, startHttpServers } from './load-generator.contract.ts'
import { summarise } from './load-point.ts'

const { generator, started, point } = loadedServer(400)

describe.each(loads)('$kind loop', (load) => {
  test('measures a fixed latency, to the fraction of a millisecond', async ({ skip }) => {
    const server = await started({ time: { kind: 'fixed', ms: 20 } })
    const run = await generator.play(server.target, load, signal)
    skipIfDisturbed(run, skip)
    const { p50Ms } = summarise(run.latencyMs)
    expect(p50Ms).toBeGreaterThan(20)
    expect(p50Ms).toBeLessThan(22)
    expect(p50Ms % 1).not.toBe(0)
  })

  test('times an answer to its last byte', async () => {
    const measured = await point({ fault: { kind: 'slow-body', ms: 40 } }, load)
    expect(measured.p50Ms).toBeGreaterThan(44)
  })
})

describe('open loop', () => {
  const constant: Load = {
    kind: 'open',
    rateRps: 100,
    arrivals: { kind: 'constant' },
    durationS: 1.5,
    seed: 1,
  }

  test('a stall shows in the percentiles: latency counts from the intended send', async () => {
    const measured = await point(
      {
        time: { kind: 'fixed', ms: 2 },
        servers: 1,
        fault: { kind: 'stall', ms: 600, afterRequests: 50 },
      },
      constant,
      5000,
    )
    // 60 of 150 requests fall into the stall and wait 300 ms on average.
    expect(measured.p99Ms).toBeGreaterThan(500)
    expect(measured.p90Ms).toBeGreaterThan(300)
    expect(measured.requests).toBe(150)
  })

  test('cuts a window that violates the SLO', async () => {
    const load: Load = { ...constant, durationS: 10, cut: { overMs: 50, requests: 5 } }
    const measured = await point({ time: { kind: 'fixed', ms: 200 } }, load, 5000)
    expect(measured.cut).toBe(true)
    expect(measured.seconds).toBeLessThan(10)
    expect(measured.sloMs).toBeGreaterThan(50)
  })
})

describe('connections', () => {
  const open: Load = {
    kind: 'open',
    rateRps: 200,
    arrivals: { kind: 'constant' },
    durationS: 0.3,
    seed: 1,
  }
  const counting = createServer((request, response) => {
    request.resume().on('end', () => setTimeout(() => response.end('{}'), 20))
  })
  counting.keepAliveTimeout = 60_000
  const targetThere = () => ({
    ...targetAt(`http://127.0.0.1:${(counting.address() as AddressInfo).port}`),
    expect: '{}',
  })

  beforeAll(async () => {
    await new Promise<void>((resolve) => counting.listen(0, '127.0.0.1', resolve))
  })
  afterAll(async () => {
    counting.closeAllConnections()
    await new Promise((resolve) => counting.close(resolve))
  })

  test('an open load reuses the connections of the closed loop before it; another target gets new ones', async () => {
    let opened = 0
    counting.on('connection', () => opened++)
    const target = targetThere()
    await generator.run(
      target,
      { kind: 'closed', connections: 64, durationS: 0.1, forOpen: true },
      slo,
      signal,
    )
    const before = opened
    expect(before).toBeGreaterThanOrEqual(64)
    for (let i = 0; i < 2; i++)
      expect((await generator.run(target, open, slo, signal)).errors).toBe(0)
    expect(opened).toBe(before)
    await generator.run({ ...target }, open, slo, signal)
    expect(opened).toBeGreaterThan(before)
  })

  test('are closed soon after the last load, so that a server can shut down', async () => {
    const closed = new Promise<void>((resolve) =>
      counting.once('connection', (socket) => socket.once('close', () => resolve())),
    )
    await generator.run(targetThere(), open, slo, signal)
    await closed
  })
})

describe('contract', () => {
  const servers: TestServer[] = []
  const serve = async (service: Partial<TestService>) => {
    const one = await startTestServer(service)
    servers.push(one)
    return one.target
  }
  afterAll(async () => {
    for (const one of servers) await one.stop()
  })

  loadGeneratorContract({
    durationS: 0.6,
    create: () => new HttpLoadGenerator(),
    servers: () => startHttpServers(serve),
  })
})
