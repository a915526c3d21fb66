import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { protocolFor } from '../../profiler/protocols/index.ts'
import { launcherContract } from './launcher.contract.ts'
import { createUrlLauncher } from './url.ts'

let server: Server
let url: string
beforeAll(async () => {
  server = createServer((_, response) => response.end('{"label": "good"}')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => server.close())

const launcher = (at = url, expected = 'label') =>
  createUrlLauncher({
    template: { kind: 'url', model: 'm', url: at, protocol: 'json', readyTimeoutS: 0.3 },
    protocol: protocolFor('json', { expect: expected }),
    payload: { kind: 'generated', seed: 1, count: 1 },
  })

launcherContract('a URL launcher', {
  create: () => launcher(),
  good: {},
  other: { skip: 'there is one server' },
  infeasible: { skip: 'a server that runs already is as it is' },
  leftovers: () => (server.listening ? [] : ['the server was ended']),
  abortAfterMs: [0, 1, 3],
})

describe('a server that does not serve', () => {
  const never = new AbortController().signal
  test('is not there', async () => {
    await expect(launcher('http://127.0.0.1:1').launch({}, 1, never)).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringContaining('within 0.3 s'),
    })
  })
  test('answers something else', async () => {
    await expect(launcher(url, 'embedding').launch({}, 1, never)).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringContaining("without 'embedding'"),
    })
  })
})
