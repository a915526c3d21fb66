/** What a server is taken for when it is first asked, and what one is told where it is of no use. */
import { once } from 'node:events'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import {
  testCertificate as cert,
  testKey as key,
} from '../../../../profiler/testing/certificate.ts'
import { type Handler, startGrpcServer } from '../../../../profiler/testing/known-grpc-server.ts'
import { wire } from '../../../../profiler/testing/wire.ts'
import { discover } from './discover.ts'

const { signal } = new AbortController()
const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})

type Asked = Omit<Parameters<typeof discover>[0], 'url' | 'payload' | 'options'> & {
  readonly options?: Parameters<typeof discover>[0]['options']
}
const discovered = (url: string, { options = {}, ...asked }: Asked = {}) =>
  discover(
    {
      url,
      payload: { kind: 'generated', seed: 1, count: 2 },
      options: { firstAnswerMs: 8_000, ...options },
      ...asked,
    },
    signal,
  )

async function listen(server: Server, scheme = 'http'): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  stops.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`
}
const serve = (answer: RequestListener) => listen(createServer(answer))

type Answer = readonly [status: number, body?: string, headers?: Record<string, string>]
/** Answers once the request is there whole. */
const answering =
  (answer: (request: IncomingMessage, body: string) => Answer): RequestListener =>
  (request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      const [status, text = '', headers = {}] = answer(request, body)
      response.writeHead(status, headers).end(text)
    })
  }
const redirect = (location: string, status = 307): Answer => [status, '', { location }]
const page = '<!doctype html><title>app</title>'

test.each<[string, (request: IncomingMessage) => Answer]>([
  ['a page', () => [200, page]],
  ['an empty body', () => [200]],
  ['a document', () => [200, '{"status": "ok"}']],
  ['a document of its own for each path', ({ url }) => [200, JSON.stringify({ path: url })]],
  ['what looks like a model', () => [200, '{"name": "x", "inputs": []}']],
  ['what looks like a list of models', () => [200, '{"object": "list", "data": []}']],
])('a server that answers %s to whatever it is asked speaks no protocol', async (_, answer) => {
  await expect(discovered(await serve(answering(answer)))).rejects.toMatchObject({
    message: expect.stringContaining('with no protocol that tune knows'),
    hint: expect.stringContaining('--path /PATH'),
  })
})

test.each<[string, string, string | undefined, (request: IncomingMessage) => Answer]>([
  [
    'a page to every GET, and takes a POST at one path',
    '/generate',
    undefined,
    ({ method, url }) =>
      method === 'GET' ? [200, page] : url === '/generate' ? [200, '{"label": 1}'] : [404],
  ],
  [
    'a redirect to the same path with a slash',
    '/predict/',
    '/healthz',
    ({ method, url }) =>
      url === '/healthz'
        ? [200]
        : url === '/predict'
          ? redirect('/predict/')
          : url === '/predict/'
            ? method === 'POST'
              ? [200, '{"label": 1}']
              : [405]
            : [404],
  ],
])('plain JSON behind %s', async (_, path, healthPath, answer) => {
  expect(await discovered(await serve(answering(answer)))).toMatchObject({
    protocol: 'json',
    path,
    healthPath,
  })
})

describe('what is of no use is told with what to do', () => {
  const listed = (...names: string[]) =>
    JSON.stringify({ object: 'list', data: names.map((id) => ({ id })) })
  const openai =
    (stream: string, ...names: string[]) =>
    ({ url }: IncomingMessage): Answer =>
      url === '/v1/models'
        ? [200, listed(...names)]
        : url === '/health'
          ? [200]
          : url === '/v1/chat/completions'
            ? stream === ''
              ? [404, '{"error": {"message": "no such model"}}']
              : [200, stream, { 'content-type': 'text/event-stream' }]
            : [404]
  const event = (document: unknown) => `data: ${JSON.stringify(document)}\n\n`
  const delta = event({ choices: [{ delta: { content: 'a' } }] })

  test.each<[string, (request: IncomingMessage) => Answer, RegExp, RegExp, Asked?]>([
    [
      'a redirect to another server',
      ({ url }) => redirect(`https://models.example.com${url}`, 301),
      /redirects \(301\) to https:\/\/models\.example\.com\/predict/,
      /--url https:\/\/models\.example\.com:/,
    ],
    [
      'a redirect to a folder of its own',
      ({ url }) => (url!.startsWith('/ml/') ? [404] : redirect(`/ml${url}`, 308)),
      /redirects \(308\) to \/ml\/predict/,
      /the path it redirects to, \/ml\/predict/,
    ],
    ['a redirect to a login', () => redirect('/login', 302), /redirects \(302\) to \/login/, /./],
    [
      'a server that loads for ever',
      () => [503, '{"status": "loading"}'],
      /is still loading after 1.5 s; last reason: .* answers 503: "status": "loading"/,
      /./,
      { options: { firstAnswerMs: 1_500 } },
    ],
    [
      'a path of one that loads for ever',
      ({ method }) => (method === 'POST' ? [503, '{"error": "model is loading"}'] : [405]),
      /gave no valid answer within 1.5 s; last reason: .* 503: model is loading/,
      /--ready-timeout/,
      { options: { firstAnswerMs: 1_500 } },
    ],
    [
      'several models, and none named',
      openai(delta, 'a/one', 'b/two'),
      /serves more than one model or does not name it/,
      /it serves a\/one, b\/two: choose one, as in --model a\/one/,
    ],
    [
      'a model that it has not',
      openai('', 'a/one', 'b/two'),
      /lists no model 'three': it has a\/one, b\/two/,
      /--model NAME/,
      { model: 'three' },
    ],
    [
      'a model that it refuses',
      (request) =>
        request.method === 'POST'
          ? [400, '{"error": "unknown model three"}']
          : openai('', 'a/one')(request),
      /lists no model 'three': it has a\/one/,
      /--model NAME/,
      { model: 'three' },
    ],
    [
      'an error in its stream',
      openai(delta + event({ error: { message: 'CUDA out of memory' } }), 'm'),
      /answered 200, but with an error in its stream: CUDA out of memory/,
      /see its log/,
    ],
    [
      'an error alone, with its status',
      openai(event({ error: { message: 'slow down', code: 429 } }), 'm'),
      /with an error in its stream: slow down/,
      /a rate limit rejects/,
    ],
    [
      'an error of older servers',
      openai(event({ object: 'error', message: 'maximum context length is 32', code: 400 }), 'm'),
      /with an error in its stream: maximum context length is 32/,
      /does the payload fit the model/,
    ],
    [
      'a model that its stream does not know',
      openai(event({ error: 'model three not found' }), 'a/one'),
      /lists no model 'three': it has a\/one/,
      /--model NAME/,
      { model: 'three' },
    ],
    [
      'a certificate that its gateway asks for',
      () => [400, '<html><center>No required SSL certificate was sent</center>'],
      /answers 400/,
      /--cert FILE --key FILE/,
      { protocol: 'oip-v2', model: 'm' },
    ],
  ])('%s', async (_, answer, message, hint, asked) => {
    const failure = discovered(await serve(answering(answer)), asked)
    await expect(failure).rejects.toMatchObject({
      name: 'ProtocolError',
      message: expect.stringMatching(message),
      hint: expect.stringMatching(hint),
    })
  })

  const plain: RequestListener = (_, response: ServerResponse) => response.writeHead(404).end()
  test.each<[string, () => Promise<string>, RegExp, RegExp]>([
    [
      'TLS where there is none',
      async () => (await serve(plain)).replace('http:', 'https:'),
      /does not use TLS/,
      /write http:/,
    ],
    [
      'no TLS where there is some',
      () => listen(createHttpsServer({ cert, key }, plain)),
      /speaks TLS/,
      /write https:/,
    ],
    [
      'a certificate that nobody vouches for',
      () => listen(createHttpsServer({ cert, key }, plain), 'https'),
      /self.signed/,
      /--ca FILE/,
    ],
    [
      'no answer at all',
      async () => {
        const silent = createTcpServer((socket) => socket.on('error', () => {}))
        silent.listen(0, '127.0.0.1')
        await once(silent, 'listening')
        stops.push(() => silent.close())
        return `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
      },
      /cannot be reached|gave no valid answer/,
      /in time|--ready-timeout/,
    ],
  ])(
    '%s',
    async (_, start, message, hint) => {
      await expect(
        discovered(await start(), { options: { firstAnswerMs: 20_000 } }),
      ).rejects.toMatchObject({
        name: 'ProtocolError',
        message: expect.stringMatching(message),
        hint: expect.stringMatching(hint),
      })
    },
    60_000,
  )

  test.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'a client without its certificate: %s',
    async (version) => {
      const server = createHttpsServer(
        { cert, key, ca: cert, requestCert: true, rejectUnauthorized: true, maxVersion: version },
        plain,
      )
      const url = await listen(server, 'https')
      for (const asked of [{}, { protocol: 'oip-v2', model: 'm' } as const])
        await expect(
          discovered(url, { ...asked, options: { tls: { insecureSkipVerify: true } } }),
        ).rejects.toMatchObject({ hint: expect.stringContaining('--cert FILE --key FILE') })
    },
  )
})

describe('over gRPC', () => {
  const oip = '/inference.GRPCInferenceService/'
  const ready: Handler = () => wire([1, 1])
  const started = async (methods: Record<string, Handler>) => {
    const { url, stop } = await startGrpcServer(methods)
    stops.push(stop)
    return url
  }

  test.each(['http://', 'grpc://'])('%s: what tells nothing of its model', async (scheme) => {
    const url = await started({
      [`${oip}ServerLive`]: ready,
      [`${oip}ServerReady`]: ready,
      [`${oip}ModelReady`]: ready,
      [`${oip}ModelInfer`]: () => Buffer.alloc(0),
    })
    const failure = discovered(url.replace(/^\w+:\/\//, scheme), { model: 'm' })
    await expect(failure).rejects.toMatchObject({
      protocol: 'grpc-v2',
      message: expect.stringContaining('ModelMetadata answered UNIMPLEMENTED'),
      hint: expect.stringContaining('--payload FILE.jsonl'),
    })
  })

  test('a service that is none of ours', async () => {
    const url = await started({ '/a.B/C': () => Buffer.alloc(0) })
    await expect(discovered(url.replace(/^\w+:/, 'grpc:'))).rejects.toThrow(
      'speaks no known gRPC protocol',
    )
  })
})
