import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { detectProtocol, protocolFor } from './index.ts'
import type { ProtocolOptions } from './protocol-module.ts'
import type { ProtocolName } from './protocol-table.ts'
import { NeverReadyError, prepareOnceAnswering, prepareOnceReady } from './until-serving.ts'

const { signal } = new AbortController()
const loadMs = 700
let stop = () => {}
afterEach(() => stop())

type Reply = (loading: boolean) => readonly [status: number, body: unknown]
type Routes = Readonly<Record<string, Reply>>

/** A server that loads for `ms` and answers by 'METHOD path'; 404 elsewhere. */
async function serve(routes: Routes, ms = loadMs): Promise<string> {
  const startedMs = performance.now()
  const server = createServer((request, response: ServerResponse) =>
    request.resume().on('end', () => {
      const reply = routes[`${request.method} ${request.url}`]
      const [status, body] = reply?.(performance.now() - startedMs < ms) ?? [404, 'Not Found']
      response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body))
    }),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stop = () => server.close()
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const ok: Reply = () => [200, '']
const generated = { kind: 'generated', seed: 1, count: 1 } as const
const oipTensor = { name: 'x', datatype: 'FP32', shape: [1] }
const oipAnswer = { model_name: 'm', outputs: [{ ...oipTensor, name: 'y', data: [1] }] }
const oip: Routes = {
  'GET /v2/health/ready': ok,
  'GET /v2/models/m': () => [200, { name: 'm', inputs: [oipTensor], outputs: [] }],
  'GET /v2/models/m/ready': ok,
  'POST /v2/models/m/infer': () => [200, { ...oipAnswer, id: '0' }],
}
const json: Routes = { 'GET /healthz': ok, 'POST /predict': () => [200, { ok: 1 }] }
const whenLoaded =
  (status: number, body: unknown, after: Reply): Reply =>
  (loading) =>
    loading ? [status, body] : after(false)
const over = (routes: Routes, path: string, status: number, body: unknown): Routes => ({
  ...routes,
  [path]: whenLoaded(status, body, routes[path] ?? ok),
})

describe('waits for a server while it loads', () => {
  test.each<[string, ProtocolName, Routes, ProtocolOptions, reason: string]>([
    [
      'OIP server ready: false',
      'oip-v2',
      over(oip, 'GET /v2/health/ready', 200, { ready: false }),
      {},
      '"ready": false',
    ],
    [
      'OIP model ready: false',
      'oip-v2',
      over(oip, 'GET /v2/models/m/ready', 200, { name: 'm', ready: false }),
      {},
      '"ready": false',
    ],
    [
      'Triton, 400 without a word',
      'oip-v2',
      over(oip, 'GET /v2/models/m/ready', 400, ''),
      {},
      'answers 400',
    ],
    [
      'the first call, 404 that says why',
      'oip-v2',
      over(oip, 'POST /v2/models/m/infer', 404, { error: 'Model m is not ready' }),
      {},
      'not ready',
    ],
    [
      'metadata, then 502 of a gateway',
      'oip-v2',
      over(oip, 'POST /v2/models/m/infer', 502, 'Bad Gateway'),
      {},
      'Bad Gateway',
    ],
    [
      'the first call, 429 that says why',
      'json',
      over(json, 'POST /predict', 429, { error: 'model is loading' }),
      {},
      'loading',
    ],
    [
      'the first call, 200 that says why',
      'json',
      over(json, 'POST /predict', 200, { error: 'Model not loaded yet' }),
      {},
      'not loaded',
    ],
    ['BentoML, /readyz', 'json', over(json, 'GET /readyz', 503, ''), {}, '/readyz answers 503'],
    [
      'its own health path',
      'json',
      over(json, 'GET /ping', 200, { status: 'Starting' }),
      { healthPath: '/ping' },
      'Starting',
    ],
  ])('%s', async (_what, protocol, routes, options, reason) => {
    const reasons: string[] = []
    const url = await serve(routes)
    const started = performance.now()
    await prepareOnceReady(
      {
        protocol: protocolFor(protocol, {
          path: protocol === 'json' ? '/predict' : undefined,
          ...options,
        }),
        url,
        model: 'm',
        payload: generated,
        onReason: (words) => reasons.push(words),
      },
      20_000,
      signal,
    )
    expect(performance.now() - started).toBeGreaterThan(loadMs - 50)
    expect(reasons).toHaveLength(1)
    expect(reasons[0]).toContain(reason)
  })
})

test('the error of a server that never becomes ready has its last reason', async () => {
  const url = await serve(over(json, 'GET /healthz', 503, '{"status": "loading model"}'), 60_000)
  const endpoint = { protocol: protocolFor('json', { path: '/predict' }), url, model: 'm' }
  const waited = prepareOnceReady({ ...endpoint, payload: generated }, 500, signal)
  await expect(waited).rejects.toThrow(NeverReadyError)
  await expect(waited).rejects.toThrow(/within 0.5 s; last reason: .*"loading model"/)
})

test('a first call that reports loading until the deadline is a NeverReadyError with the reason', async () => {
  const url = await serve(over(json, 'POST /predict', 503, 'model loading'), 60_000)
  const endpoint = { protocol: protocolFor('json', { path: '/predict' }), url, model: 'm' }
  await expect(
    prepareOnceAnswering({ ...endpoint, payload: generated }, 500, signal),
  ).rejects.toThrow(/gave no good answer within 0.5 s; last reason: .*model loading/)
})

test('a missing model fails at once, with the listed models', async () => {
  const url = await serve({
    'GET /health': ok,
    'GET /v1/models': () => [200, { object: 'list', data: [{ id: 'llama' }, { id: 'qwen' }] }],
    'POST /v1/chat/completions': () => [404, { error: { message: 'The model m does not exist' } }],
  })
  const endpoint = { protocol: protocolFor('openai'), url, model: 'm', payload: generated }
  await expect(prepareOnceReady(endpoint, 30_000, signal)).rejects.toThrow(
    /lists no model 'm': it has llama, qwen/,
  )
})

test('a protocol is recognised once its server has loaded', async () => {
  const loaded = (path: string) => over(oip, path, 503, 'loading')
  const url = await serve({
    'GET /v2/models/m': loaded('GET /v2/models/m')['GET /v2/models/m']!,
    'GET /v2/health/ready': loaded('GET /v2/health/ready')['GET /v2/health/ready']!,
  })
  expect(await detectProtocol(url, 'm', {}, signal)).toBe('oip-v2')
})
