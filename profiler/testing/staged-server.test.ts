import { expect, test } from 'vitest'
import { extractServiceLog } from '../capacity/service-log/service-log.ts'
import { VirtualLoadGenerator } from '../load/virtual-generator.ts'
import type { Load } from '../model/load.ts'
import type { Target } from '../model/target.ts'
import { StagedServer, type StagedServerOptions } from './staged-server.ts'

const play = (load: Load, options: Partial<StagedServerOptions> = {}) => {
  const stages = {
    maxBatch: 32,
    maxDelayMs: 2,
    decodeMs: () => 0.2,
    batchMs: (batch: number) => 4 + 0.25 * batch,
    writeMs: () => 0.1,
  }
  const target: Target = {
    kind: 'virtual',
    server: new StagedServer({ seed: 1, ...stages, ...options }),
  }
  return new VirtualLoadGenerator().play(target, load, new AbortController().signal)
}
const open = (rateRps: number): Load => ({
  kind: 'open',
  rateRps,
  durationS: 5,
  arrivals: { kind: 'poisson' },
  seed: 3,
})

test('a request alone takes all stages and the wait for company', async () => {
  const { latencyMs } = await play({ kind: 'closed', connections: 1, durationS: 1 })
  for (const ms of latencyMs) expect(ms).toBeCloseTo(0.2 + 2 + 4.25 + 0.1, 6)
})

test.each([
  ['the CPU', { batchMs: () => 1 }, 1000 / 0.3],
  ['the accelerator', { decodeMs: () => 0.01, writeMs: () => 0.01 }, (1000 * 32) / 12],
])('the slower stage decides the throughput: %s', async (_, options, rps) => {
  const { latencyMs, elapsedS } = await play(
    { kind: 'closed', connections: 128, durationS: 4 },
    options,
  )
  expect(latencyMs.length / elapsedS / rps).toBeCloseTo(1, 1)
})

test('the steps of a server that writes its answers one by one are its batches', async () => {
  const steps = extractServiceLog(await play(open(2300)), 0.5)
  expect(Math.max(...steps.departed)).toBeGreaterThanOrEqual(30)
  expect(steps.departed.filter((d) => d === 1).length).toBeLessThan(0.05 * steps.departed.length)
})
