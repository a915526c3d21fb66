import fc from 'fast-check'
import { expect, test } from 'vitest'
import { VirtualLoadGenerator } from '../../load/virtual-generator.ts'
import type { Slo } from '../../model/slo.ts'
import { QueueServer } from '../../testing/queue-server.ts'
import { detectSlowdown } from '../changes/speed-change.ts'
import { efforts } from '../effort.ts'
import { identifyWorkers } from '../queue-model/disciplines/workers.ts'
import { estimatePosterior } from '../queue-model/posterior.ts'
import { Session } from '../session.ts'
import { CapacityEstimator } from './capacity-estimator.ts'
import { Evidence } from './evidence.ts'

const slo: Slo = { percentile: 0.99, limitMs: 60, maxErrorRate: 0.001 }
const budget = { requests: 1000, maxRequests: 4000, replicates: 2 }

const server = fc.record({
  servers: fc.integer({ min: 1, max: 3 }),
  maxBatch: fc.constantFrom(1, 8),
  baseMs: fc.integer({ min: 3, max: 9 }),
  seed: fc.integer({ min: 1, max: 1000 }),
})

test('repeated estimates are equal and leave the evidence unchanged', async () => {
  await fc.assert(
    fc.asyncProperty(server, async ({ servers, maxBatch, baseMs, seed }) => {
      const serviceMs = (batch: number) => baseMs + 0.5 * batch
      const target = {
        kind: 'virtual',
        server: new QueueServer({ seed, servers, maxBatch, serviceMs }),
      } as const
      const { signal } = new AbortController()
      const session = new Session(target, slo, new VirtualLoadGenerator(), signal, () => {})
      const saturation = await session.closed(4 * servers * maxBatch, 1, 'saturation')
      const saturationRps = saturation.point.achievedRps
      const evidence = new Evidence(slo, serviceMs(1))
      for (const share of [0.5, 0.7]) {
        const { run, point } = await session.open(share * saturationRps, 2, seed, 'search')
        evidence.add(run, point, true)
      }
      const estimators = { estimatePosterior, identifyWorkers, detectSlowdown }
      const effort = { ...efforts.quick, simulation: budget }
      const estimator = new CapacityEstimator(
        { session, effort, seed, estimators },
        evidence,
        serviceMs(1),
        { saturationRps, isDisturbed: false, refusedLoop: undefined, quotaWaitShare: 0 },
      )
      const estimate = () => {
        const { posterior } = estimator.estimateFinal()!
        return { ...posterior, below: posterior.below(0.5 * saturationRps) }
      }
      const before = [
        evidence.discipline.workers,
        evidence.discipline.batching,
        evidence.windows.length,
      ]
      const first = estimate()
      expect(estimate()).toEqual(first)
      expect([
        evidence.discipline.workers,
        evidence.discipline.batching,
        evidence.windows.length,
      ]).toEqual(before)
    }),
    { numRuns: 6, seed: 5 },
  )
})
