import type { AddressInfo } from 'node:net'
import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { afterEach, describe, expect, test } from 'vitest'
import type { HttpTarget } from '../model/target.ts'
import { testCertificate as cert, testKey as key } from '../testing/certificate.ts'
import { targetAt } from '../testing/servers.ts'
import { HttpSender } from './http-sender.ts'

const body = '{"outputs":[]}'
const answer = `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`

let server: Server | undefined
let sender: HttpSender | undefined
afterEach(async () => {
  await sender?.close()
  await new Promise((resolve) => server?.close(resolve))
})

/**
 * A server in this very process: what follows what is certain. `act` is called for each request,
 * with its number on the connection and of all, from 1.
 */
const serve = async (
  act: (socket: Socket, onConnection: number, ofAll: number) => void,
  tls = false,
  more: Partial<HttpTarget> = {},
) => {
  let all = 0
  const listen = (socket: Socket) => {
    let requests = 0
    socket.on('error', () => {})
    // Bodies are short: a request comes whole.
    socket.on('data', () => act(socket, ++requests, ++all))
  }
  server = tls ? createTlsServer({ cert, key }, listen) : createServer(listen)
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const target = targetAt(`http${tls ? 's' : ''}://127.0.0.1:${port}`)
  sender = new HttpSender({
    ...target,
    tls: { insecureSkipVerify: true },
    expect: '"outputs"',
    ...more,
  })
  return sender
}

const ask = (to: HttpSender, index = 0) =>
  new Promise<string>((resolve) => {
    to.send(index, (failure) => resolve(failure ?? 'good'))
  })
const askInTurn = async (to: HttpSender, times: number) => {
  const outcomes: string[] = []
  for (let i = 0; i < times; i++) outcomes.push(await ask(to, i))
  return outcomes
}

describe.each([false, true])('TLS %s', (tls) => {
  test('one connection carries request after request', async () => {
    const to = await serve((socket) => socket.write(answer), tls)
    expect(await askInTurn(to, 5)).toEqual(Array(5).fill('good'))
    expect(to.counts).toEqual({ opened: 1, closed: 0, retried: 0 })
  })

  test('a request that crosses a close is retried on a new connection', async () => {
    const to = await serve((socket, n) => (n < 3 ? socket.write(answer) : socket.end(answer)), tls)
    expect(await askInTurn(to, 12)).toEqual(Array(12).fill('good'))
    expect(to.counts.retried).toBeLessThanOrEqual(3)
    expect(to.counts.opened).toBe(4)
  })
})

describe('does not retry', () => {
  test('a request on a connection that never answered', async () => {
    const to = await serve((socket) => socket.end())
    expect(await ask(to)).toBe('closed by server')
    expect(to.counts.retried).toBe(0)
  })

  test('a request of which any byte was answered', async () => {
    const to = await serve((socket, n) =>
      n === 1 ? socket.write(answer) : socket.end('HTTP/1.1 200'),
    )
    expect(await askInTurn(to, 2)).toEqual(['good', 'closed by server'])
    expect(to.counts.retried).toBe(0)
  })

  test.each<[string, (socket: Socket) => void, string]>([
    ['closed', (socket) => socket.end(), 'closed by server'],
    ['reset', (socket) => socket.resetAndDestroy(), 'reset'],
  ])(
    'a request whose connection was %s when the server had time to take it',
    async (_, end, kind) => {
      const to = await serve((socket, n) =>
        n === 1 ? socket.write(answer) : setTimeout(() => end(socket), 60),
      )
      expect(await askInTurn(to, 2)).toEqual(['good', kind])
      expect(to.counts.retried).toBe(0)
    },
  )

  test('a request a second time', async () => {
    const to = await serve((socket, _n, all) =>
      all === 1 ? socket.write(answer) : socket.resetAndDestroy(),
    )
    expect(await askInTurn(to, 2)).toEqual(['good', 'reset'])
    expect(to.counts.retried).toBeLessThanOrEqual(1)
  })
})

test('a connection is not reused near the end of its announced keep-alive', async () => {
  const kept = answer.replace('\r\n\r\n', '\r\nkeep-alive: timeout=1\r\n\r\n')
  const to = await serve((socket) => socket.write(kept))
  await ask(to)
  await new Promise((resolve) => setTimeout(resolve, 600))
  expect(await ask(to)).toBe('good')
  expect(to.counts).toEqual({ opened: 2, closed: 1, retried: 0 })
})

test('408 on an idle connection is a close, and the request is sent again', async () => {
  const late = 'HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n'
  const to = await serve((socket, n) => socket.write(n === 1 ? answer : late))
  expect(await askInTurn(to, 2)).toEqual(['good', 'good'])
  expect(to.counts.retried).toBe(1)
})

test('opens at most as many connections as allowed, and queues further requests in order', async () => {
  let open = 0
  let most = 0
  const to = await serve(
    (socket) => {
      most = Math.max(most, ++open)
      setTimeout(() => {
        open--
        socket.write(answer)
      }, 5)
    },
    false,
    { connections: 3 },
  )
  expect(await Promise.all(Array.from({ length: 12 }, (_, i) => ask(to, i)))).toEqual(
    Array(12).fill('good'),
  )
  expect([most, to.counts.opened]).toEqual([3, 3])
})

test('an abandoned request reports no end, and its connection is not reused', async () => {
  const to = await serve((socket, _n, all) => all > 1 && socket.write(answer))
  let told = false
  const sent = to.send(0, () => {
    told = true
  })
  await new Promise((resolve) => setTimeout(resolve, 20))
  sent.abandon()
  expect(await ask(to)).toBe('good')
  expect(told).toBe(false)
  expect(to.counts).toEqual({ opened: 2, closed: 0, retried: 0 })
})

test('answers that are not HTTP/1 have their own error class', async () => {
  const to = await serve((socket) => socket.write('SSH-2.0-OpenSSH_9.2\r\n'))
  expect(await ask(to)).toBe('not HTTP/1')
})
