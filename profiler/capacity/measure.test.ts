import { afterAll, afterEach, expect, test } from 'vitest'
import { HttpLoadGenerator } from '../load/http-generator.ts'
import { startTestServer, type TestServer, targetAt } from '../testing/servers.ts'
import type { TestService } from '../testing/service.ts'
import { type Effort, efforts } from './effort.ts'
import { measureCapacity } from './measure.ts'

const generator = new HttpLoadGenerator()
const signal = new AbortController().signal
let server: TestServer | undefined

afterEach(async () => {
  await server?.stop()
  server = undefined
})
afterAll(() => generator.close())

/** Enough to find a capacity, and not a good one. */
const brief: Effort = { ...efforts.quick, saturationS: 0.15, windowS: 0.3, windows: 2, budgetS: 1 }

const capacity = async (service: Partial<TestService>, limitMs: number) => {
  server = await startTestServer(service)
  const phases: string[] = []
  const slo = { percentile: 0.95, limitMs, maxErrorRate: 0.001 }
  const measurement = await measureCapacity({
    target: server.target,
    slo,
    signal,
    effort: brief,
    generator,
    onStep: (_, phase) => phases.push(phase),
  })
  return { measurement, phases }
}

test('finds a capacity below the saturation', async () => {
  // Two at a time, 8 ms each: 250 requests per second at most, fewer on a busy machine: what it
  // could do then is what it did saturated.
  const { measurement, phases } = await capacity({ servers: 2, time: { kind: 'fixed', ms: 8 } }, 60)
  const { capacityRps, capacityCi90Rps, saturationRps, points } = measurement
  if (measurement.outcome === 'host-interference')
    expect(points.some(({ invalid }) => invalid)).toBe(true)
  else expect(capacityRps).toBeGreaterThan(0.5 * saturationRps)
  expect(capacityRps).toBeLessThan(290)
  expect(saturationRps).toBeLessThan(290)
  expect(capacityCi90Rps[0]).toBeLessThanOrEqual(capacityRps)
  expect(capacityCi90Rps[1]).toBeGreaterThanOrEqual(capacityRps)
  // Node's timers may fire up to a millisecond early.
  expect(measurement.unloaded.p50Ms).toBeGreaterThan(7)
  expect(phases.filter((phase) => phase !== 'warm-up').slice(0, 1)).toEqual(['unloaded'])
  expect(
    points.every((point) => point.load.kind === 'closed' || point.load.arrivals.kind === 'poisson'),
  ).toBe(true)
  expect(measurement.caveats.join()).toMatch(/shared this machine/)
})

test('an unloaded latency over the limit is unattainable', async () => {
  const { measurement } = await capacity({ time: { kind: 'fixed', ms: 20 } }, 5)
  expect(measurement).toMatchObject({ outcome: 'slo-unattainable', capacityRps: 0 })
  expect(measurement.detail).toMatch(/one request at a time already takes \d+/)
})

test('a server that fails requests is an outcome with the evidence', async () => {
  const { measurement } = await capacity(
    { fault: { kind: 'status', status: 500, share: 0.5 } },
    200,
  )
  expect(measurement).toMatchObject({ outcome: 'errors', capacityRps: 0 })
  expect(measurement.detail).toMatch(/status 500 × \d+/)
})

test('a server that dies under load is an outcome', async () => {
  const { measurement } = await capacity({ fault: { kind: 'die', afterRequests: 300 } }, 400)
  expect(measurement.outcome).toBe('server-died')
})

test('nothing listening is an outcome', async () => {
  const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
  const measurement = await measureCapacity({
    target: targetAt('http://127.0.0.1:1'),
    slo,
    signal,
    effort: brief,
    generator,
  })
  expect(measurement.outcome).toBe('server-died')
})
