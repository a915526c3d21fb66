/**
 * A closed loop that has ended left nothing for the server to do, which the next load would wait
 * behind.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { targetAt } from '../testing/servers.ts'
import { HttpLoadGenerator } from './http-generator.ts'

const generator = new HttpLoadGenerator()
const { signal } = new AbortController()
/** One after the other, whether or not their clients are still there. */
let taken = 0
let served = 0
let serviceMs = 0
let freeAtMs = 0
const server = createServer((request, response) => {
  request.resume().on('end', () => {
    taken++
    freeAtMs = Math.max(performance.now(), freeAtMs) + serviceMs
    const untilMs = freeAtMs
    const serve = () => {
      if (performance.now() < untilMs) {
        if (serviceMs < 1) setImmediate(serve)
        else setTimeout(serve, untilMs - performance.now())
        return
      }
      served++
      response.end('{}')
    }
    serve()
  })
})

beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)))
afterAll(async () => {
  await generator.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

describe.each([
  ['a slow one', 8],
  ['one so fast that autocannon plays it', 0.1],
])('of %s', (_, ms) => {
  test('every accepted request is answered', async () => {
    serviceMs = ms
    const target = {
      ...targetAt(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
      expect: '{}',
    }
    for (let i = 0; i < 3; i++) {
      await generator.play(target, { kind: 'closed', connections: 32, durationS: 0.3 }, signal)
      expect(taken - served).toBe(0)
    }
  })
})
