import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createUniform } from '../../seeded-random.ts'
import { constantServicesRps } from '../../testing/constant-services.ts'
import { QueueServer } from '../../testing/queue-server.ts'
import { measureCapacity } from '../measure.ts'
import type { ServiceLog } from '../service-log/service-log.ts'
import { estimateSpeedUpPerS } from './speed-change.ts'

/**
 * A second of steps of one request each, of a server whose steps take so long at a time, one after
 * the other.
 */
function window(stepMs: (atMs: number) => number, fromMs = 0): ServiceLog {
  const log: ServiceLog = {
    present: [],
    tookMs: [],
    departed: [],
    rank: [],
    endedMs: [],
    spreadMs: [],
  }
  for (let atMs = 0; atMs < 1000; ) {
    const tookMs = stepMs(fromMs + atMs)
    atMs += tookMs
    log.present.push(1)
    log.tookMs.push(tookMs)
    log.departed.push(1)
    log.rank.push(0)
    log.endedMs.push(atMs)
    log.spreadMs.push(0)
  }
  return log
}
const windows = (stepMs: (atMs: number) => number) => [window(stepMs), window(stepMs, 1000)]

describe('speed gained per second', () => {
  test('is that of a server that gains as much all the time', () => {
    const gains = (share: number) =>
      estimateSpeedUpPerS(windows((atMs) => 8 * Math.exp((-share * atMs) / 1000)))
    expect(gains(0.04)).toBeGreaterThan(0.036)
    expect(gains(0.04)).toBeLessThan(0.044)
    expect(gains(0.1)).toBeGreaterThan(0.09)
  })

  test('is none of one that is as fast throughout, gets slower, or varies by chance', () => {
    const uniform = createUniform(4)
    expect(estimateSpeedUpPerS(windows(() => 8))).toBe(0)
    expect(estimateSpeedUpPerS(windows((atMs) => 8 * Math.exp(atMs / 20_000)))).toBe(0)
    expect(estimateSpeedUpPerS(windows(() => 4 + 8 * uniform()))).toBe(0)
  })

  test('is none of one whose steps differ once, be it by little or by much', () => {
    expect(estimateSpeedUpPerS(windows((atMs) => (atMs < 700 ? 8 : 7)))).toBe(0)
    expect(estimateSpeedUpPerS(windows((atMs) => (atMs > 1300 ? 7 : 8)))).toBe(0)
    // Little by little, and far too much for a server that was as fast from one window to the next.
    expect(estimateSpeedUpPerS(windows((atMs) => 16 * Math.exp(-atMs / 1000)))).toBe(0)
  })

  test('is not told by a dozen steps', () => {
    expect(estimateSpeedUpPerS([window((atMs) => 100 * Math.exp(-atMs / 2000))])).toBe(0)
    expect(estimateSpeedUpPerS([])).toBe(0)
  })

  test('does not hang on the unit: a server ten times as slow for ten times as long gains a tenth', () => {
    fc.assert(
      fc.property(fc.double({ min: 0.02, max: 0.2, noNaN: true }), (share) => {
        const [once] = [window((atMs) => 5 * Math.exp((-share * atMs) / 1000))]
        const slower: ServiceLog = {
          ...once!,
          tookMs: once!.tookMs.map((ms) => 10 * ms),
          endedMs: once!.endedMs.map((ms) => 10 * ms),
        }
        expect(estimateSpeedUpPerS([slower])).toBeCloseTo(estimateSpeedUpPerS([once!]) / 10, 9)
      }),
    )
  })
})

const { signal } = new AbortController()

describe('a server whose speed comes with time, not with requests', () => {
  const slo = { percentile: 0.99, limitMs: 60, maxErrorRate: 0.001 }
  const ms = 5
  const truth = constantServicesRps(ms, slo.limitMs)
  const measured = (decayMs: number) => {
    const server = new QueueServer({
      seed: 1,
      servers: 1,
      maxBatch: 1,
      serviceMs: (_n, _uniform, atMs) => ms * (1 + 4 * Math.exp(-atMs / decayMs)),
    })
    return measureCapacity({
      target: { kind: 'virtual', server },
      slo,
      signal,
      seed: 1000,
      effort: 'quick',
    })
  }

  test.each([2500, 6000])(
    'is warmed further until it gains no more: five times as slow at first, a third of that after %d ms',
    async (decayMs) => {
      const { outcome, capacityRps, capacityCi90Rps } = await measured(decayMs)
      expect(outcome).toBe('converged')
      // Without: 9 and 21 % too low.
      expect(Math.abs(capacityRps / truth - 1)).toBeLessThan(0.05)
      expect(capacityCi90Rps[0]).toBeLessThan(truth)
    },
  )

  test('is not said to be known while it still gains', async () => {
    const { outcome, detail, capacityCi90Rps } = await measured(30_000)
    expect(outcome).toBe('non-stationary')
    expect(detail).toMatch(/^still speeding up: /)
    expect(capacityCi90Rps[1]).toBe(Number.POSITIVE_INFINITY)
  })

  test('is not beaten by what it may reach when it is warm', async () => {
    const server = new QueueServer({
      seed: 3,
      servers: 1,
      maxBatch: 1,
      serviceMs: (_n, _uniform, atMs) => ms * (1 + 4 * Math.exp(-atMs / 2500)),
    })
    const toBeat = { capacityToBeatRps: 0.96 * truth }
    const found = await measureCapacity({
      target: { kind: 'virtual', server },
      slo,
      signal,
      seed: 3,
      effort: 'quick',
      ...toBeat,
    })
    expect(found.outcome).not.toBe('pruned')
    expect(found.capacityRps).toBeGreaterThan(toBeat.capacityToBeatRps)
  })
})
