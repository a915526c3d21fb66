/**
 * Autocannon's clients build all that they are given before the first is sent: that is no part of a
 * window, nor as long as one.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { targetAt } from '../testing/servers.ts'
import { playAutocannon } from './closed-autocannon.ts'

const connections = 128
const bodies = Array.from({ length: 1024 }, (_, i) => ({ contentType: 'text/plain', body: `${i}` }))
const asked = new Set<string>()
const server = createServer((request, response) => {
  request.on('data', (part) => asked.add(String(part))).on('end', () => response.end('{}'))
})

beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)))
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

test('a short window with many connections covers the whole pool', async () => {
  const target = {
    ...targetAt(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    bodies,
    expect: '{}',
  }
  const load = { kind: 'closed', connections, durationS: 1 } as const
  const run = await playAutocannon(target, load, new AbortController().signal, 2000)
  expect(run?.errorKinds).toEqual({})
  expect(Math.min(...run!.sentMs)).toBe(0)
  expect(run!.sentMs.filter((ms) => ms === 0)).toHaveLength(connections)
  // On a slow machine a second is too short to ask for all of it: then for as many different ones
  // as were sent, or as there are connections.
  if (run!.sentMs.length > 16 * bodies.length) expect(asked.size).toBe(bodies.length)
  else expect(asked.size).toBeGreaterThan(Math.min(connections, 0.9 * run!.sentMs.length))
  expect(
    run!.latencyMs.every((ms, i) => ms >= 0 && run!.sentMs[i]! + ms <= 1000 * run!.elapsedS),
  ).toBe(true)
})
