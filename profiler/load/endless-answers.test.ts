/**
 * Servers whose answers do not end: probes and loads give them up by size and by deadline, whatever
 * the transport.
 */
import { createServer, type Server } from 'node:http'
import { createServer as createServer2 } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Load } from '../model/load.ts'
import type { Target } from '../model/target.ts'
import { checkReadiness, fetchAnswer, getJson } from '../protocols/http.ts'
import { HttpLoadGenerator } from './http-generator.ts'

const servers: { close(): void }[] = []
let sentBytes = 0

/** Writes as fast as it is read, for ever. */
function flood(response: NodeJS.WritableStream): void {
  const chunk = Buffer.alloc(2 ** 16, 'x')
  const more = () => {
    while ((response as unknown as { destroyed: boolean }).destroyed === false) {
      sentBytes += chunk.length
      if (!response.write(chunk)) {
        response.once('drain', more)
        return
      }
    }
  }
  response.on('error', () => {})
  more()
}

async function listen(server: Server): Promise<string> {
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
const endless = () => listen(createServer((_request, response) => flood(response.writeHead(200))))
const endless2 = () =>
  listen(
    createServer2((_request, response) => {
      response.writeHead(200)
      flood(response.stream)
    }) as unknown as Server,
  )

beforeEach(() => {
  sentBytes = 0
  vi.stubEnv('TUNE_MAX_ANSWER_MIB', '1')
})
afterEach(() => {
  vi.unstubAllEnvs()
  for (const server of servers.splice(0)) {
    server.close()
    ;(server as Partial<Server>).closeAllConnections?.()
  }
})

const never = new AbortController().signal
const body = { contentType: 'application/json', body: '{}' }
/** What sockets on both sides hold of what nobody reads. */
const inFlight = 64 * 2 ** 20

describe.each([
  ['HTTP/1.1', endless, false],
  ['HTTP/2', endless2, true],
])('over %s', (_, start, http2) => {
  test('rejects an endless first answer at the size limit', async () => {
    const url = await start()
    await expect(
      fetchAnswer('json', { url, path: '/', timeoutMs: 20_000, http2 }, body, never),
    ).rejects.toMatchObject({
      name: 'ProtocolError',
      message: expect.stringContaining('more than 1 MiB'),
      hint: expect.stringContaining('TUNE_MAX_ANSWER_MIB'),
    })
    await expect(getJson('json', `${url}/v2`, { http2 }, never)).rejects.toThrow(/more than 1 MiB/)
    expect(sentBytes).toBeLessThan(inFlight)
  })

  test('a health check needs only the status', async () => {
    expect(await checkReadiness('json', `${await start()}/health`, { http2 }, never)).toMatchObject(
      { ok: true },
    )
    expect(sentBytes).toBeLessThan(inFlight)
  })

  const loads: Load[] = [
    { kind: 'open', rateRps: 20, arrivals: { kind: 'constant' }, durationS: 0.5, seed: 1 },
    { kind: 'closed', connections: 2, durationS: 0.3 },
    { kind: 'closed', connections: 10, durationS: 0.3 },
  ]
  test.each(loads)('a load counts it as an error: $kind', async (load) => {
    const generator = new HttpLoadGenerator()
    try {
      const target: Target = {
        kind: 'http',
        url: await start(),
        path: '/',
        headers: {},
        http2,
        bodies: [body],
        timeoutMs: 10_000,
      }
      const { errorKinds } = await generator.play(target, load, never)
      expect(Object.keys(errorKinds)).toEqual(['answer too large'])
    } finally {
      await generator.close()
    }
  })
})

test('a slowly dripping answer ends at its deadline', async () => {
  const url = await listen(
    createServer((_request, response) => {
      response.writeHead(200)
      const drip = setInterval(() => response.write('x'), 20)
      response.on('close', () => clearInterval(drip))
    }),
  )
  await expect(
    fetchAnswer('json', { url, path: '/', timeoutMs: 200 }, body, never),
  ).rejects.toThrow(/no complete answer in time/)
})
