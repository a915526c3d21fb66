import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, expect, test } from 'vitest'
import { targetAt } from '../testing/servers.ts'
import { okBody } from '../testing/service.ts'
import { HttpLoadGenerator } from './http-generator.ts'
import { createWeightedRoundRobin } from './spread-sender.ts'

const generator = new HttpLoadGenerator()
afterAll(() => generator.close())
const signal = new AbortController().signal

/** Counts those who say its name. */
async function countingServer(name: string) {
  const seen = { requests: 0, strangers: 0 }
  const server = createServer((request, response) => {
    seen.requests++
    if (request.headers['x-server'] !== name || request.url !== `/${name}`) seen.strangers++
    request.resume().on('end', () => response.end(okBody))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  return { seen, close, at: { url, path: `/${name}`, headers: { 'x-server': name } } }
}

test.each([
  { kind: 'open', rateRps: 100, arrivals: { kind: 'constant' }, durationS: 1, seed: 1 },
  { kind: 'closed', connections: 12, durationS: 0.3 },
] as const)(
  '$kind load is spread over several servers by their weights, each with its own path and headers',
  async (load) => {
    const a = await countingServer('a')
    const b = await countingServer('b')
    try {
      const replicas = [
        { ...a.at, weight: 3 },
        { ...b.at, weight: 1 },
      ]
      const run = await generator.play({ ...targetAt(a.at.url), ...a.at, replicas }, load, signal)
      expect(run.errorKinds).toEqual({})
      expect(a.seen.requests + b.seen.requests).toBe(run.latencyMs.length)
      expect(Math.abs(a.seen.requests - 3 * b.seen.requests)).toBeLessThanOrEqual(3)
      expect([a.seen.strangers, b.seen.strangers]).toEqual([0, 0])
      expect(b.seen.requests).toBeGreaterThan(5)
    } finally {
      a.close()
      b.close()
    }
  },
)

test('a server that does not answer fails only its share of the requests', async () => {
  const a = await countingServer('a')
  try {
    const replicas = [
      { ...a.at, weight: 1 },
      { url: 'http://127.0.0.1:1', path: '/', headers: {}, weight: 1 },
    ]
    const load = {
      kind: 'open',
      rateRps: 100,
      arrivals: { kind: 'constant' },
      durationS: 0.4,
      seed: 1,
    } as const
    const run = await generator.play({ ...targetAt(a.at.url), ...a.at, replicas }, load, signal)
    const failed = Object.values(run.errorKinds).reduce((sum, count) => sum + count, 0)
    expect(Math.abs(2 * failed - run.latencyMs.length)).toBeLessThanOrEqual(2)
  } finally {
    a.close()
  }
})

const turns = (weights: number[], count: number) => {
  const next = createWeightedRoundRobin(weights)
  return Array.from({ length: count }, next)
}

test('each server gets its weight, spread evenly', () => {
  expect(turns([5, 1, 1], 7)).toEqual([0, 0, 1, 0, 2, 0, 0])
  expect(turns([1], 3)).toEqual([0, 0, 0])
})

test.each([[[1, 1]], [[3, 1]], [[0.2, 0.5, 0.3]], [[1, 100]]])(
  '%o: at no time is one a whole turn off its share',
  (weights) => {
    const total = weights.reduce((sum, weight) => sum + weight, 0)
    const given = weights.map(() => 0)
    turns(weights, 1000).forEach((which, i) => {
      given[which]!++
      weights.forEach((weight, j) => {
        expect(Math.abs(given[j]! - ((i + 1) * weight) / total)).toBeLessThan(weights.length)
      })
    })
  },
)
