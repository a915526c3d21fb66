import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { connect } from './connect.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tune-kubeconfig-'))
  vi.stubEnv('HOME', folder)
  vi.stubEnv('KUBECONFIG', join(folder, 'config'))
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(folder, { recursive: true, force: true })
})

const kubeconfig = (change: object = {}, server = 'https://127.0.0.1:6443') =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server } }],
    users: [{ name: 'u', user: {} }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u', namespace: 'serving' } }],
    'current-context': 'x',
    ...change,
  })
const write = (text: string) => writeFileSync(join(folder, 'config'), text)

test.each([
  ['nothing', '', /config is empty$/],
  ['comments alone', '# made by hand\n---\n\n', /config is empty$/],
  ['no clusters', 'apiVersion: v1\nkind: Config\n', /config names no cluster$/],
  ['text', 'hello', /config (names no cluster|cannot be read: )/],
  ['broken YAML', 'token: planted\nclusters: [', /config cannot be read: [^\n]*$/],
  ['no current-context', kubeconfig({ 'current-context': '' }), /config has no current-context$/],
  [
    'a current-context that it lacks',
    kubeconfig({ 'current-context': 'gone' }),
    /config has no context gone, its current-context; it has x$/,
  ],
  [
    'a cluster that it lacks',
    kubeconfig({ clusters: [] }),
    /config has no cluster c, which its context x names$/,
  ],
  [
    'a server that is no URL',
    kubeconfig({}, 'nonsense'),
    /config has no valid server URL for cluster c: nonsense$/,
  ],
])('a kubeconfig with %s is refused by its name and what it lacks', async (_, text, message) => {
  write(text)
  await expect(connect()).rejects.toMatchObject({
    name: 'ApiError',
    message: expect.stringMatching(message),
    hint: expect.stringContaining('KUBECONFIG'),
  })
})

test('one that is not there is named', async () => {
  await expect(connect()).rejects.toThrow(/config cannot be read: ENOENT/)
})

test('none at all is said, and the usual one is found', async () => {
  vi.stubEnv('KUBECONFIG', '')
  await expect(connect()).rejects.toThrow('no cluster is configured')
  mkdirSync(join(folder, '.kube'))
  writeFileSync(join(folder, '.kube/config'), kubeconfig())
  expect(await connect()).toMatchObject({ server: 'https://127.0.0.1:6443', namespace: 'serving' })
})

const closedPort = async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

test('a server that refuses is told within seconds, with its address and where that is from', async () => {
  const address = `https://127.0.0.1:${await closedPort()}`
  write(kubeconfig({}, address))
  const startedMs = performance.now()
  await expect((await connect()).request('GET', '/version')).rejects.toMatchObject({
    reason: 'Unreachable',
    message: expect.stringMatching(
      new RegExp(
        `^the API server ${address} \\(${join(folder, 'config')}, context x\\) does not answer: .*ECONNREFUSED`,
      ),
    ),
  })
  expect(performance.now() - startedMs).toBeLessThan(8_000)
})

test('so is one that takes the connection and says nothing', async () => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  await new Promise((resolve) => silent.once('listening', resolve))
  write(kubeconfig({}, `https://127.0.0.1:${(silent.address() as AddressInfo).port}`))
  const timeouts = { requestMs: 60_000, retryMs: 60_000, firstBackoffMs: 10, firstContactMs: 300 }
  const api = await connect(undefined, timeouts)
  await expect(api.request('GET', '/version')).rejects.toThrow(
    /does not answer: no answer within 0.3 s/,
  )
  api.close()
  silent.close()
})
