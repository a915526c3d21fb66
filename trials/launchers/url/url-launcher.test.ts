import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import { launcherContract } from '../launcher.contract.ts'
import { createUrlLauncher } from './url-launcher.ts'

let server: Server
let url: string
beforeAll(async () => {
  server = createServer((request, response) => {
    if (request.url === '/v1/models/m')
      return response.end('{"model_version_status": [{"state": "AVAILABLE"}]}')
    if (request.url?.startsWith('/v2/'))
      return response
        .writeHead(400)
        .end(JSON.stringify({ error: `Malformed request: ${request.method} ${request.url}` }))
    if (request.url === '/shape')
      return response
        .writeHead(400)
        .end('{ "error": "input must be 2-dimensional, got shape [1,2,2]" }')
    response.end('{"label": "good"}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => server.close())

const launcher = (at = url, expected = 'label', readyTimeoutS = 0.3) =>
  createUrlLauncher({
    template: { kind: 'url', model: 'm', url: at, protocol: 'json', readyTimeoutS },
    protocolFor: () => protocolFor('json', { expect: expected }),
    payload: { kind: 'generated', seed: 1, count: 1 },
  })

launcherContract('a URL launcher', {
  create: () => launcher(url, 'label', 10),
  good: {},
  other: { skip: 'there is one server' },
  infeasible: { skip: 'a server that runs already is as it is' },
  leftovers: () => (server.listening ? [] : ['the server was ended']),
  abortAfterMs: [0, 1, 3],
})

describe('several of the same', () => {
  const never = new AbortController().signal
  const several = (...at: { url: string; weight: number }[]) =>
    createUrlLauncher({
      template: {
        kind: 'url',
        model: 'm',
        url: at[0]!.url,
        urls: at,
        protocol: 'json',
        readyTimeoutS: 10,
      },
      protocolFor: (one) => protocolFor('json', { expect: 'label', headers: { 'x-server': one } }),
      payload: { kind: 'generated', seed: 1, count: 1 },
    }).launch({}, 1, never)

  test('each is asked once, with what it is asked by, and told with its share', async () => {
    const predictor = await several({ url, weight: 3 }, { url: `${url}/base`, weight: 1 })
    expect(predictor.target).toMatchObject({
      url,
      replicas: [
        { url, path: '/predict', headers: { 'x-server': url }, weight: 3 },
        { url, path: '/base', headers: { 'x-server': `${url}/base` }, weight: 1 },
      ],
    })
    expect(predictor.isolation).toContain(`${url} (75 %), ${url}/base (25 %)`)
  })

  test('one that is not there is named', async () => {
    await expect(
      several({ url, weight: 1 }, { url: 'http://127.0.0.1:1', weight: 1 }),
    ).rejects.toMatchObject({
      message: expect.stringContaining('http://127.0.0.1:1'),
      final: 'experiment',
    })
  })
})

// At once: long before the ten minutes that a server may take to be ready. They wait, so they wait
// together.
describe.concurrent('a server that does not serve', () => {
  const never = new AbortController().signal
  test('is not there', async () => {
    await expect(launcher('http://127.0.0.1:1').launch({}, 1, never)).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringContaining('within 0.3 s'),
    })
  })
  test.each(['http://127.0.0.1:1', 'http://no-such-host.invalid'])(
    'where nothing can be: %s is not waited for',
    async (nowhere) => {
      await expect(launcher(nowhere, 'label', 600).launch({}, 1, never)).rejects.toMatchObject({
        name: 'LaunchError',
        message: expect.stringContaining('cannot be reached'),
        final: 'experiment',
      })
    },
  )
  test.each([
    [404, '/v2/health/ready answers 404, as for any unknown path', 'does it speak oip-v2?'],
    [401, '/v2/health/ready answers 401', 'give the required credentials'],
  ])(
    'answers %i to whoever asks whether it is ready: not waited for',
    async (status, message, hint) => {
      const stranger = createServer(({ url }, response) =>
        response.writeHead(status).end(`{"detail": "no ${url}"}`),
      ).listen(0, '127.0.0.1')
      await once(stranger, 'listening')
      const at = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`
      try {
        const asked = createUrlLauncher({
          template: { kind: 'url', model: 'm', url: at, protocol: 'oip-v2', readyTimeoutS: 600 },
          protocolFor: () => protocolFor('oip-v2'),
          payload: { kind: 'generated', seed: 1, count: 1 },
        })
        await expect(asked.launch({}, 1, never)).rejects.toMatchObject({
          message: expect.stringContaining(message),
          hint: expect.stringContaining(hint),
          final: 'experiment',
        })
      } finally {
        stranger.close()
      }
    },
  )
  test('a server that still loads is waited for, though it answers 404 for its model', async () => {
    let asked = 0
    const loading = createServer((request, response) => {
      if (request.url !== '/v1/models/m') return response.writeHead(404).end('no such path')
      if (request.method === 'GET') asked++
      response.writeHead(404).end('{"error": "Could not find any versions of model m"}')
    }).listen(0, '127.0.0.1')
    await once(loading, 'listening')
    const at = `http://127.0.0.1:${(loading.address() as AddressInfo).port}`
    try {
      const launched = createUrlLauncher({
        template: { kind: 'url', model: 'm', url: at, protocol: 'tfserving', readyTimeoutS: 4 },
        protocolFor: () => protocolFor('tfserving'),
        payload: { kind: 'generated', seed: 1, count: 1 },
      }).launch({}, 1, never)
      await expect(launched).rejects.toMatchObject({
        message: expect.stringContaining('did not become ready (tfserving) within 4 s'),
      })
      expect(asked).toBeGreaterThan(5)
    } finally {
      loading.close()
    }
  })
  test('speaks no HTTP/2 where it should: named at once, and not tried again', async () => {
    const asked = createUrlLauncher({
      template: { kind: 'url', model: 'm', url, protocol: 'json', readyTimeoutS: 600 },
      protocolFor: () => protocolFor('json', { http2: true }),
      payload: { kind: 'generated', seed: 1, count: 1 },
    })
    await expect(asked.launch({}, 1, never)).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringContaining('does not speak HTTP/2'),
      hint: expect.stringContaining('drop --http2'),
      final: 'experiment',
    })
  })
  test('speaks another protocol: named at once, and not tried again', async () => {
    const asked = createUrlLauncher({
      template: { kind: 'url', model: 'm', url, protocol: 'oip-v2', readyTimeoutS: 600 },
      protocolFor: () => protocolFor('oip-v2'),
      payload: { kind: 'generated', seed: 1, count: 1 },
    })
    await expect(asked.launch({}, 1, never)).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringContaining('does not speak oip-v2'),
      hint: 'this looks like TensorFlow Serving; use --protocol tfserving',
      final: 'experiment',
    })
  })
  test('refuses the payload: in its own words, once', async () => {
    const asked = createUrlLauncher({
      template: {
        kind: 'url',
        model: 'm',
        url,
        protocol: 'json',
        path: '/shape',
        readyTimeoutS: 600,
      },
      protocolFor: () => protocolFor('json', { path: '/shape' }),
      payload: { kind: 'generated', seed: 1, count: 1 },
    })
    await expect(asked.launch({}, 1, never)).rejects.toMatchObject({
      message: `no valid answer: ${url}/shape answered 400: input must be 2-dimensional, got shape [1,2,2]`,
      hint: 'does the payload fit the model?',
      final: 'experiment',
    })
  })
  test('answers something else', async () => {
    await expect(launcher(url, 'embedding', 30).launch({}, 1, never)).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringContaining("without 'embedding'"),
    })
  })
})
