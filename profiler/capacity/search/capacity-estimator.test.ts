import fc from 'fast-check'
import { expect, test } from 'vitest'
import { VirtualLoadGenerator } from '../../load/virtual-generator.ts'
import type { Slo } from '../../model/slo.ts'
import { QueueServer } from '../../testing/queue-server.ts'
import { detectSlowdown } from '../changes/speed-change.ts'
import { efforts } from '../effort.ts'
import { chooseDiscipline } from '../queue-model/choose-discipline.ts'
import { estimatePosterior } from '../queue-model/posterior.ts'
import { Session } from '../session.ts'
import { AgreedDiscipline } from './agreed-discipline.ts'
import { CapacityEstimator } from './capacity-estimator.ts'
import { Evidence } from './evidence.ts'

const slo: Slo = { percentile: 0.99, limitMs: 60, maxErrorRate: 0.001 }
const budget = { requests: 1000, maxRequests: 4000, replicates: 2 }

const server = fc.record({
  servers: fc.integer({ min: 1, max: 3 }),
  maxBatch: fc.constantFrom(1, 8),
  baseMs: fc.integer({ min: 3, max: 9 }),
  isDeclared: fc.boolean(),
  seed: fc.integer({ min: 1, max: 1000 }),
})

test('repeated estimates are equal and leave the evidence unchanged', async () => {
  await fc.assert(
    fc.asyncProperty(server, async ({ servers, maxBatch, baseMs, isDeclared, seed }) => {
      const serviceMs = (batch: number) => baseMs + 0.5 * batch
      const target = {
        kind: 'virtual',
        server: new QueueServer({ seed, servers, maxBatch, serviceMs }),
      } as const
      const { signal } = new AbortController()
      const session = new Session(target, slo, new VirtualLoadGenerator(), signal, () => {})
      const saturation = await session.playClosed(4 * servers * maxBatch, 1, 'saturation')
      const saturationRps = saturation.point.achievedRps
      const declared = { workers: servers, maxBatch, maxDelayMs: 0 }
      const options = { discipline: isDeclared ? declared : undefined }
      const agreed = new AgreedDiscipline(serviceMs(1), options.discipline)
      const evidence = new Evidence(slo, agreed)
      for (const share of [0.5, 0.7]) {
        const { run, point } = await session.playOpen(share * saturationRps, 2, seed, 'search')
        evidence.add(run, point, true)
      }
      const estimators = { estimatePosterior, chooseDiscipline, detectSlowdown }
      const effort = { ...efforts.quick, simulation: budget }
      const estimator = new CapacityEstimator(
        { session, effort, options, seed, estimators },
        evidence,
        serviceMs(1),
        { saturationRps, isDisturbed: false, refusedLoop: undefined, quotaWaitShare: 0 },
      )
      const estimate = () => {
        const { posterior } = estimator.estimateFinal()!
        return {
          ...posterior,
          computeProbabilityBelow: posterior.computeProbabilityBelow(0.5 * saturationRps),
        }
      }
      const services = agreed.extractServices(evidence.windows)
      const first = estimate()
      expect(estimate()).toEqual(first)
      expect(agreed.extractServices(evidence.windows)).toEqual(services)
    }),
    { numRuns: 6, seed: 5 },
  )
})
