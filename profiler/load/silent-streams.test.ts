import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import type { Load } from '../model/load.ts'
import type { Target } from '../model/target.ts'
import { HttpLoadGenerator } from './http-generator.ts'

const never = new AbortController().signal
const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const token = `data: ${JSON.stringify({ choices: [{ text: 'a' }] })}\n\n`
const answer = (response: ServerResponse) =>
  response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`${token}data: [DONE]\n\n`)

/**
 * A server of streams, of which `toAnswer` says what becomes of the request of each number, and a
 * target that is given up long after silence.
 */
async function served(
  toAnswer: (response: ServerResponse, number: number) => void,
  silentMs: number,
) {
  let number = 0
  const server = createServer((request, response) => {
    request.resume()
    toAnswer(response, number++)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const generator = new HttpLoadGenerator()
  cleanups.push(() => {
    server.close()
    server.closeAllConnections()
  })
  cleanups.push(() => generator.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const target: Target = {
    ...{
      kind: 'http',
      url,
      path: '/v1/completions',
      headers: {},
      transport: 'sse',
      timeoutMs: 20_000,
    },
    bodies: [{ contentType: 'application/json', body: '{}' }],
    silentMs,
  }
  return (load: Load) => generator.play(target, load, never)
}

const open: Load = {
  kind: 'open',
  rateRps: 40,
  durationS: 0.5,
  seed: 1,
  arrivals: { kind: 'constant' },
}
const closed: Load = { kind: 'closed', connections: 2, durationS: 0.2 }
const failed = (latencyMs: ArrayLike<number>) => Array.from(latencyMs).filter(Number.isNaN).length

describe.each([
  ['open', open],
  ['closed', closed],
])('%s load on streams of which none goes on', (_, load) => {
  test('times out soon; earlier answers count', async () => {
    const play = await served(
      (response, number) => (number < 4 ? answer(response) : response.flushHeaders()),
      300,
    )
    const run = await play(load)
    expect(run.elapsedS).toBeLessThan(10)
    expect(failed(run.latencyMs)).toBe(run.latencyMs.length - 4)
    expect(run.errorKinds).toEqual({ timeout: run.latencyMs.length - 4 })
  })

  test('also times out after a partial answer', async () => {
    const play = await served(
      (response, number) => (number === 0 ? answer(response) : response.write(token)),
      300,
    )
    const run = await play(load)
    expect(run.elapsedS).toBeLessThan(10)
    expect(failed(run.latencyMs)).toBe(run.latencyMs.length - 1)
  })
})

/**
 * Answers requests in turn, one second after the one before, as a server does that reads a long
 * prompt.
 */
const slowly = () => {
  let ready = Promise.resolve()
  return (response: ServerResponse) => {
    ready = ready.then(() => new Promise((resolve) => setTimeout(resolve, 1000)))
    void ready.then(() => answer(response))
  }
}

test('a slow server gets its whole timeout before the first byte, then three times its longest gap', async () => {
  const play = await served(slowly(), 100)
  const runs = [
    await play({ ...closed, connections: 1, durationS: 0.05 }),
    await play({ ...closed, connections: 1, durationS: 0.05 }),
  ]
  expect(runs.map(({ latencyMs }) => failed(latencyMs))).toEqual([0, 0])
})
