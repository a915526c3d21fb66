/**
 * For tests of the HTTP load generator: a server for each test, that is gone after it, and the
 * loads that all are put under.
 */
import { afterAll, afterEach } from 'vitest'
import { HttpLoadGenerator } from '../load/http-generator.ts'
import type { Load } from '../model/load.ts'
import type { LoadPoint } from '../model/load-point.ts'
import { startTestServer, type TestServer } from './servers.ts'
import type { TestService } from './service.ts'

export const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
export const signal = new AbortController().signal
export const loads: Load[] = [
  { kind: 'closed', connections: 4, durationS: 0.5 },
  { kind: 'open', rateRps: 200, arrivals: { kind: 'poisson' }, durationS: 0.5, seed: 1 },
]

/**
 * One generator for the tests of a file. @param usualTimeoutMs of an answer, where a test says none
 */
export function loadedServer(usualTimeoutMs: number) {
  const generator = new HttpLoadGenerator()
  let server: TestServer | undefined
  afterEach(async () => {
    await server?.stop()
    server = undefined
  })
  afterAll(() => generator.close())
  const started = async (service: Partial<TestService>): Promise<TestServer> => {
    server = await startTestServer(service)
    return server
  }
  const point = async (
    service: Partial<TestService>,
    load: Load,
    timeoutMs = usualTimeoutMs,
  ): Promise<LoadPoint> =>
    generator.run({ ...(await started(service)).target, timeoutMs }, load, slo, signal)
  return { generator, started, point }
}
