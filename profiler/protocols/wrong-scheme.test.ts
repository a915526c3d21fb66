import { once } from 'node:events'
import { createServer } from 'node:http'
import { createServer as createHttp2Server } from 'node:http2'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net'
import { expect, test } from 'vitest'
import { testCertificate as cert, testKey as key } from '../testing/certificate.ts'
import { protocolFor } from './index.ts'
import { diagnoseScheme } from './wrong-scheme.ts'

const never = new AbortController().signal
const kinds: Record<string, () => Server> = {
  http: () => createServer((_, response) => response.end('{}')),
  https: () => createHttpsServer({ cert, key }, (_, response) => response.end('{}')),
  mutual: () =>
    createHttpsServer({ cert, key, requestCert: true, rejectUnauthorized: true }, (_, response) =>
      response.end('{}'),
    ),
  h2c: () => createHttp2Server((_, response) => response.end('{}')),
  silent: () => createTcpServer(() => {}),
}
async function at<T>(kind: string, use: (host: string) => Promise<T>): Promise<T> {
  const server = kinds[kind]!().listen(0, '127.0.0.1')
  server.on('connection', (socket) => socket.on('error', () => {}).unref())
  await once(server, 'listening')
  try {
    return await use(`127.0.0.1:${(server.address() as AddressInfo).port}`)
  } finally {
    server.close()
  }
}

test.each([
  ['https', 'http', 'speaks TLS', 'write https://'],
  ['mutual', 'http', 'speaks TLS', 'write https://'],
  ['https', 'grpc', 'speaks TLS', 'write grpcs://'],
  ['http', 'https', 'does not use TLS', 'write http://'],
  ['h2c', 'grpcs', 'does not use TLS', 'write grpc://'],
  ['http', 'grpc', 'not HTTP/2', '--protocol'],
])('a server of %s with %s:// %s', (kind, scheme, what, hint) =>
  at(kind, async (host) => {
    const said = await diagnoseScheme(`${scheme}://${host}/ml`, never)
    expect(said).toMatchObject({
      what: expect.stringContaining(what),
      hint: expect.stringContaining(hint),
    })
  }),
)

test.each([
  ['http', 'http'],
  ['https', 'https'],
  ['h2c', 'grpc'],
  ['silent', 'http'],
])('a server of %s with %s:// has no wrong scheme', (kind, scheme) =>
  at(kind, async (host) =>
    expect(await diagnoseScheme(`${scheme}://${host}`, never)).toBeUndefined(),
  ),
)

test('nothing is reported where nothing listens; the signal aborts it', async () => {
  expect(await diagnoseScheme('http://127.0.0.1:1', never)).toBeUndefined()
  await expect(
    at('silent', (host) => diagnoseScheme(`http://${host}`, AbortSignal.timeout(50))),
  ).rejects.toMatchObject({
    name: 'TimeoutError',
  })
})

test('https for a server without TLS is reported at once', async () => {
  const asked = at('http', (host) => protocolFor('json').isReady(`https://${host}`, 'm', never))
  await expect(asked).rejects.toMatchObject({
    message: expect.stringMatching(/does not use TLS$/),
    hint: expect.stringMatching(/^write http:/),
  })
})
