import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { targetAt } from '../../profiler/testing/servers.ts'
import { addServerMessages } from './server-messages.ts'

/** Refuses requests that come together, as a server does whose batch cannot be padded. */
let underWay = 0
const server = createServer(async (request, response) => {
  request.resume()
  underWay++
  await sleep(50)
  const together = underWay > 1
  if (together) response.writeHead(400).end('{"error": "input lengths differ: set padding"}')
  else response.end('{"predictions": [1]}')
  await sleep(20)
  underWay--
})
let url = ''
beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const measured = (errorKinds: Record<string, number>, detail?: string) =>
  ({
    slo: { percentile: 0.99, limitMs: 50, maxErrorRate: 0.01 },
    points: [{ requests: 100, errors: 100, errorKinds }],
    detail,
    caveats: [],
  }) as unknown as Measurement
const body = { body: '{}', contentType: 'application/json' }
const targetOf = (bodies: number) => ({ ...targetAt(url), bodies: Array(bodies).fill(body) })
const never = new AbortController().signal

test('requests that were refused under load are sent once more, together, for the reason', async () => {
  const { detail, caveats } = await addServerMessages(
    measured({ 'status 400': 100 }, 'requests fail from 3.0 per second on'),
    targetOf(4),
    never,
  )
  expect(detail).toMatch(/^requests fail from 3\.0 per second on; .*answered 400: .*lengths differ/)
  expect(caveats).toEqual([
    expect.stringMatching(/the server reported: .* answered 400: .*lengths differ/),
  ])
})

test('errors that come within streams of status 200 are asked for likewise', async () => {
  const target = {
    ...targetOf(1),
    transport: 'sse',
    findFault: () => 'with an error in its stream: slow down',
  } as const
  const { caveats } = await addServerMessages(measured({ 'error in stream': 100 }), target, never)
  expect(caveats).toEqual([
    expect.stringMatching(
      /the server reported: .* answered 200: with an error in its stream: slow down/,
    ),
  ])
})

test.each([
  ['a few failed, which the SLO allows', { 'status 400': 1 }, 4],
  ['they failed without an answer', { reset: 100 }, 4],
  ['they are answered now', { 'status 400': 100 }, 1],
])('nothing is added where %s', async (_, kinds, bodies) => {
  const before = measured(kinds as Record<string, number>)
  expect(await addServerMessages(before, targetOf(bodies), never)).toBe(before)
})
