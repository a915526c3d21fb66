/**
 * Whole measurements of servers drawn at random, in virtual time: what is claimed never contradicts
 * what was seen.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { LoadPoint } from '../../model/load-point.ts'
import { judgeSloByInterval, meetsSlo } from '../../model/slo.ts'
import { createUniform } from '../../seeded-random.ts'
import { drawnCases } from '../../testing/drawn-servers.ts'
import { heldOutCases } from '../../testing/held-out-servers.ts'
import { QueueServer } from '../../testing/queue-server.ts'
import { measureCapacity } from '../measure.ts'

/** A fixed share of what `npm run soak` draws: each is a whole measurement. */
const share = (runs: number, seed: number) => {
  const { numRuns } = fc.readConfigureGlobal()
  return numRuns === undefined
    ? { numRuns: runs, seed, endOnFailure: true }
    : { numRuns, endOnFailure: true }
}

const server = fc.record({
  workers: fc.integer({ min: 1, max: 3 }),
  maxBatch: fc.constantFrom(1, 4, 16),
  baseMs: fc.integer({ min: 2, max: 15 }),
  eachMs: fc.constantFrom(0.2, 0.5, 1, 6),
  /** The SLO in times of a full step. */
  times: fc.constantFrom(0.5, 3, 8, 60),
  stallMs: fc.constantFrom(0, 0, 50),
  seed: fc.integer({ min: 1, max: 1000 }),
})

test('the interval respects the observed throughput and the windows that met the SLO', async () => {
  await fc.assert(
    fc.asyncProperty(
      server,
      async ({ workers, maxBatch, baseMs, eachMs, times, stallMs, seed }) => {
        const fullMs = baseMs + eachMs * maxBatch
        const maxGeneratorRps = (1000 * workers * maxBatch) / fullMs
        const hasOutages = createUniform(seed)
        const points: LoadPoint[] = []
        const slo = { percentile: 0.99, limitMs: times * fullMs, maxErrorRate: 0.001 }
        const serviceMs = (batch: number) =>
          baseMs + eachMs * batch + (stallMs > 0 && hasOutages() < 0.004 ? stallMs : 0)
        const { capacityRps, capacityCi90Rps, outcome } = await measureCapacity({
          target: {
            kind: 'virtual',
            server: new QueueServer({ seed, servers: workers, maxBatch, serviceMs }),
          },
          slo,
          signal: new AbortController().signal,
          effort: 'quick',
          seed,
          onStep: (point, phase) => {
            if (
              phase === 'search' &&
              point.load.kind === 'open' &&
              point.load.arrivals.kind !== 'sweep'
            )
              points.push(point)
          },
        })
        if (outcome === 'non-stationary' || outcome === 'slo-unattainable') return
        const [low, high] = capacityCi90Rps
        const held = points
          .filter((point) => meetsSlo(point, slo) && !point.cut)
          .map(({ offeredRps }) => offeredRps)
        const surely = points
          .filter((point) => judgeSloByInterval(point, slo) === true && !point.cut)
          .map(({ offeredRps }) => offeredRps)
        // Steps are told apart to half a percent; those of two batches under way at once are the
        // queue model's approximation.
        const physically = maxGeneratorRps * (workers > 1 && maxBatch > 1 ? 1.02 : 1.005)
        expect(capacityRps).toBeLessThanOrEqual(physically)
        expect(high).toBeLessThanOrEqual(Math.max(physically, ...surely) + 1e-9)
        expect(low).toBeLessThanOrEqual(Math.max(0, ...held) + 1e-9)
        expect(high).toBeGreaterThanOrEqual(Math.max(0, ...surely) - 1e-9)
        expect(low).toBeLessThanOrEqual(capacityRps)
        expect(capacityRps).toBeLessThanOrEqual(high)
        const [most = 0, next = 0] = points
          .filter((point) => judgeSloByInterval(point, slo) === false)
          .map(({ offeredRps }) => offeredRps)
          .sort((a, b) => a - b)
        if (next > Math.max(0, ...held)) expect(low).toBeLessThanOrEqual(most)
      },
    ),
    share(10, 14),
  )
})

/**
 * All types of servers but those with a limit per clock window: a load window shorter than theirs
 * meets the SLO at rates that they refuse over a whole second.
 */
const drawn = fc.record({
  of: fc.constantFrom(...drawnCases.filter(({ name }) => !name.includes('of the clock'))),
  seed: fc.integer({ min: 1, max: 100 }),
})

test('on every kind of server, the interval respects the windows that met the SLO', async () => {
  await fc.assert(
    fc.asyncProperty(drawn, async ({ of, seed }) => {
      const points: LoadPoint[] = []
      const { capacityRps, capacityCi90Rps, outcome } = await measureCapacity({
        target: { kind: 'virtual', server: of.server(7 * seed) },
        slo: of.slo,
        signal: new AbortController().signal,
        effort: 'quick',
        seed: 1000 * seed,
        onStep: (point, phase) => {
          if (
            phase === 'search' &&
            point.load.kind === 'open' &&
            point.load.arrivals.kind !== 'sweep'
          )
            points.push(point)
        },
      })
      if (outcome === 'non-stationary' || outcome === 'slo-unattainable') return
      const [low, high] = capacityCi90Rps
      const most = (holds: (point: LoadPoint) => boolean) =>
        points.reduce(
          (rps, point) => (!point.cut && holds(point) ? Math.max(rps, point.offeredRps) : rps),
          0,
        )
      expect(low).toBeLessThanOrEqual(most((point) => meetsSlo(point, of.slo)) + 1e-9)
      expect(high).toBeGreaterThanOrEqual(
        most((point) => judgeSloByInterval(point, of.slo) === true) - 1e-9,
      )
      expect(low).toBeLessThanOrEqual(capacityRps)
      expect(capacityRps).toBeLessThanOrEqual(high)
    }),
    share(8, 4),
  )
})

test('the interval of a token bucket starts at or below a rate whose window met the SLO', async () => {
  const of = heldOutCases.find(({ name }) => /token bucket/.test(name))!
  const met: number[] = []
  const { capacityCi90Rps } = await measureCapacity({
    target: { kind: 'virtual', server: of.server(7007) },
    slo: of.slo,
    signal: new AbortController().signal,
    effort: 'quick',
    seed: 1_001_000,
    onStep: (point, phase) => {
      if (
        phase === 'search' &&
        point.load.kind === 'open' &&
        point.load.arrivals.kind !== 'sweep' &&
        meetsSlo(point, of.slo)
      )
        met.push(point.offeredRps)
    },
  })
  expect(capacityCi90Rps[0]).toBeLessThanOrEqual(Math.max(0, ...met) + 1e-9)
  expect(capacityCi90Rps[0]).toBeGreaterThan(0)
})
