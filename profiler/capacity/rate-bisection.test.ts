import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, expect, test } from 'vitest'
import { HttpLoadGenerator } from '../generator/http-generator.ts'
import type { Slo, Target } from '../types.ts'
import { efforts, measureCapacity } from './measure.ts'

const generator = new HttpLoadGenerator()
afterAll(() => generator.close())
let server: Server | undefined
afterEach(() => server?.close())

/** Streams ten tokens in 200 ms, `places` answers at a time; others wait for their first token. */
const streaming = async (places: number): Promise<Target> => {
  let busy = 0
  const waiting: (() => void)[] = []
  server = createServer(async (request, response) => {
    request.resume()
    if (busy >= places) await new Promise<void>((resolve) => waiting.push(resolve))
    else busy++
    for (let i = 0; i < 10; i++) {
      response.write(`data: {"choices":[{"delta":{"content":"x"},"finish_reason":${i === 9 ? '"length"' : null}}]}\n\n`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    response.end('data: [DONE]\n\n')
    const next = waiting.shift()
    if (next) next()
    else busy--
  })
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const bodies = [{ contentType: 'application/json', body: '{}' }]
  return { kind: 'http', transport: 'sse', url, path: '/v1/chat/completions', headers: {}, bodies, timeoutMs: 20_000, metric: 'ttft' }
}
const slo: Slo = { percentile: 0.9, limitMs: 150, maxErrorRate: 0.01, metric: 'ttft' }
const { signal } = new AbortController()
const measure = async (places: number, budgetS: number) =>
  measureCapacity({ target: await streaming(places), slo, signal, generator, effort: { ...efforts.quick, budgetS } })

test('finds the rate at which first tokens begin to wait, and brackets it', async () => {
  // Four at a time, 200 ms each: 20 requests per second at most; on a busy machine timers are late and it is less.
  const { outcome, capacityRps, capacityCi90Rps, points, idle } = await measure(4, 14)
  if (outcome === 'generator-limit') return expect(points.filter((point) => point.generatorSaturated).length).toBeGreaterThanOrEqual(3)
  expect(capacityRps).toBeGreaterThan(6)
  expect(capacityRps).toBeLessThan(22)
  expect(capacityCi90Rps[1]).toBeGreaterThan(capacityRps)
  expect(capacityCi90Rps[1]).toBeLessThan(40)
  expect(idle.p50Ms).toBeLessThan(points.at(-1)!.stream!.e2e.p50Ms)
}, 60_000)

test('says when the time was too short', async () => {
  expect(await measure(4, 1)).toMatchObject({ outcome: 'budget', detail: expect.stringMatching(/when the time was up/) })
}, 30_000)
