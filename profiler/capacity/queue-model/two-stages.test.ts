import fc from 'fast-check'
import { expect, test } from 'vitest'
import { StagedServer } from '../../testing/staged-server.ts'
import { maxCoresRps, simulateTwoStages } from './two-stages.ts'

const server = fc.record({
  cores: fc.integer({ min: 1, max: 4 }),
  decodeMs: fc.double({ min: 0.1, max: 4, noNaN: true }),
  writeMs: fc.double({ min: 0.01, max: 0.5, noNaN: true }),
  maxBatch: fc.constantFrom(1, 4, 32),
  delayMs: fc.constantFrom(0, 3, 20),
  baseMs: fc.double({ min: 1, max: 20, noNaN: true }),
  slowness: fc.constantFrom(0.8, 1, 1.25),
  seed: fc.integer({ min: 1, max: 1000 }),
})

test('cores beside batches answer each request when a server played event by event does', () => {
  fc.assert(
    fc.property(
      server,
      ({ cores, decodeMs, writeMs, maxBatch, delayMs, baseMs, slowness, seed }) => {
        const servedMs = (batch: number) => slowness * (baseMs + 0.37 * batch)
        const staged = new StagedServer({
          seed: 1,
          cores,
          maxBatch: maxBatch,
          maxDelayMs: slowness * delayMs,
          decodeMs: () => slowness * decodeMs,
          batchMs: servedMs,
          writeMs: () => slowness * writeMs,
        })
        const { sentMs, latencyMs } = staged.play({
          kind: 'open',
          rateRps: 300,
          durationS: 1,
          arrivals: { kind: 'poisson' },
          seed,
        })
        const modelled = new Float64Array(sentMs.length)
        simulateTwoStages(
          { cores, decodeMs, writeMs },
          { maxBatch, delayMs },
          servedMs,
          slowness,
          sentMs,
          modelled,
        )
        for (const [i, ms] of latencyMs.entries()) expect(modelled[i]).toBeCloseTo(ms, 6)
      },
    ),
    { numRuns: 60, seed: 3 },
  )
})

test('cores decode and write so many a second at most, and no cores any number', () => {
  expect(maxCoresRps({ cores: 2, decodeMs: 1.5, writeMs: 0.5 })).toBe(1000)
  expect(maxCoresRps(undefined)).toBe(Number.POSITIVE_INFINITY)
})
