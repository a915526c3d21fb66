import { expect, test } from 'vitest'
import { Session } from './capacity/session.ts'
import { VirtualLoadGenerator } from './load/virtual-generator.ts'
import { judgeSweep, playSweep } from './load-sweep.ts'
import type { LoadPoint } from './model/load-point.ts'
import type { Slo } from './model/slo.ts'
import { QueueServer } from './testing/queue-server.ts'

const slo: Slo = { percentile: 0.9, limitMs: 250, maxErrorRate: 0.01 }
const { signal } = new AbortController()

/** Two at a time, 100 ms each. */
const sessionOf = () => {
  const server = new QueueServer({ seed: 1, servers: 2, maxBatch: 1, serviceMs: () => 100 })
  return new Session({ kind: 'virtual', server }, slo, new VirtualLoadGenerator(), signal, () => {})
}
const common = { durationS: 20, arrivals: { kind: 'poisson' }, seed: 1 } as const

test('closed loops are played in order; more than two connections share the capacity', async () => {
  const loads = [1, 2, 4, 8].map((connections) => ({ connections }))
  const session = sessionOf()
  const points = await playSweep(session, { ...common, loads })
  expect(points.map(({ load }) => load.kind === 'closed' && load.connections)).toEqual([1, 2, 4, 8])
  expect(points.map(({ achievedRps }) => Math.round(achievedRps))).toEqual([10, 20, 20, 20])
  expect(points.map(({ p50Ms }) => Math.round(p50Ms))).toEqual([100, 100, 200, 400])
  // A warm-up does not count.
  expect(session.points).toEqual(points)
  expect(judgeSweep(points, slo)).toEqual({
    verdict: 'met',
    summary: expect.stringMatching(
      /^p90 <= 250 ms is met at [24] at a time: 20\.\d good answers per second/,
    ),
  })
  expect(judgeSweep(points.slice(3), slo)).toEqual({
    verdict: 'violated',
    summary: 'no load meets p90 <= 250 ms: at best, 8 at a time, p90 400 ms',
  })
})

test('rates are played as open loads', async () => {
  const points = await playSweep(sessionOf(), {
    ...common,
    loads: [{ rateRps: 5 }, { rateRps: 40 }],
  })
  expect(points.map(({ offeredRps }) => Math.round(offeredRps))).toEqual([5, 40])
  expect(points[1]!.sloMs).toBeGreaterThan(5000)
  expect(judgeSweep(points, slo).summary).toMatch(/^p90 <= 250 ms is met at 5 requests per second/)
})

test('reports failures where they violate the SLO', () => {
  const refused = {
    load: { kind: 'closed', connections: 4, durationS: 3 },
    requests: 9,
    errors: 6,
    errorKinds: { 'status 429': 6 },
  }
  const point = {
    ...refused,
    sloMs: Number.POSITIVE_INFINITY,
    achievedRps: 1,
  } as unknown as LoadPoint
  expect(judgeSweep([point], slo).summary).toMatch(
    /at best, 4 at a time, .*; 6 of 9 requests failed \(status 429 × 6\)$/,
  )
})

test('a server without good answers has the verdict failed', () => {
  const dead = { requests: 9, errors: 9, errorKinds: { reset: 9 } } as unknown as LoadPoint
  expect(judgeSweep([dead], slo)).toMatchObject({
    verdict: 'failed',
    summary: expect.stringContaining('reset'),
  })
})
