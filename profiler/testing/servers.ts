import { once } from 'node:events'
import type { Target } from '../model/target.ts'
import { forkEntry } from '../module-entry.ts'
import { okBody, type TestService } from './service.ts'

export interface TestServer {
  readonly url: string
  readonly target: Extract<Target, { kind: 'http' }>
  stop(): Promise<void>
}

/**
 * Starts a server with a known service on loopback, in a process of its own. Defaults: 5 ms fixed,
 * no queue, no faults.
 */
export async function startTestServer(given: Partial<TestService> = {}): Promise<TestServer> {
  const service: TestService = {
    time: { kind: 'fixed', ms: 5 },
    servers: 0,
    maxBatch: 1,
    seed: 1,
    ...given,
  }
  const child = forkEntry('./server-child', import.meta.url)
  child.send(service)
  const [{ port }] = (await once(child, 'message')) as [{ port: number }]
  const url = `${given.http === 'h2' || given.http === 'https' ? 'https' : 'http'}://127.0.0.1:${port}`
  return {
    url,
    target: { ...targetAt(url), serverPids: () => [child.pid!] },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
    },
  }
}

/** A target with one small body, whose good answers are those of the test server. */
export const targetAt = (url: string, timeoutMs = 2000): Extract<Target, { kind: 'http' }> => ({
  kind: 'http',
  url,
  path: '/v2/models/test/infer',
  headers: {},
  bodies: [{ contentType: 'application/json', body: '{"inputs":[]}' }],
  timeoutMs,
  expect: okBody.slice(0, 10),
})
