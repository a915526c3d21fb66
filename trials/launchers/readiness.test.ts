import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { protocolFor } from '../../profiler/protocols/index.ts'
import { prepareOnceReady } from '../../profiler/protocols/until-serving.ts'
import { getFinality } from './readiness.ts'

const { signal } = new AbortController()
const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})

/** A server that its command has started: whether it comes up is not known. */
async function asked(handle: RequestListener) {
  const server = createServer((request, response) =>
    request.resume().on('end', () => handle(request, response)),
  ).listen(0, '127.0.0.1')
  await once(server, 'listening')
  stops.push(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const payload = { kind: 'generated', seed: 1, count: 1 } as const
  return prepareOnceReady(
    { protocol: protocolFor('json', { path: '/predict' }), url, model: 'm', payload },
    600_000,
    signal,
  )
}

describe('a command whose server is asked by a path that it does not know', {
  timeout: 60_000,
}, () => {
  test('is told so long before it would have had to be ready, and once for all configurations', async () => {
    const error: Error = await asked((request, response) => {
      if (request.url === '/classify') response.end('{}')
      else response.writeHead(404).end(`Cannot ${request.method} ${request.url}`)
    }).then(
      () => expect.unreachable('it has no such path'),
      (reason) => reason,
    )
    expect(error.message).toMatch(
      /\/healthz answers 404, and so does .*\/predict, as for any unknown path/,
    )
    expect(error).toMatchObject({ hint: expect.stringContaining('--path') })
    expect(getFinality(error)).toBe('experiment')
  })

  test('is waited for while it comes up, whatever it answers before', async () => {
    const startedMs = performance.now()
    const target = await asked((_request, response) =>
      response.writeHead(performance.now() - startedMs < 4000 ? 404 : 200).end('{}'),
    )
    expect(target.path).toBe('/predict')
  })
})
