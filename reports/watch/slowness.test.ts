import fc from 'fast-check'
import { expect, test } from 'vitest'
import { interpolateLatency } from '../../profiler/capacity/rederive/load-curve.ts'
import { computeSlowness, type MeasuredServer } from './slowness.ts'

const knot = (rateRps: number, latencyMs: number) => ({
  rateRps,
  latencyMs,
  lowMs: latencyMs,
  highMs: latencyMs,
  requests: 1000,
})
const server: MeasuredServer = {
  capacityRps: 100,
  curve: [knot(0, 10), knot(50, 14), knot(90, 30), knot(100, 50)],
}

test('a server seen through a slower clock is found to be slower by just that', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0.5, max: 2, noNaN: true }),
      fc.double({ min: 0.1, max: 1, noNaN: true }),
      (slowness, busy) => {
        const rateRps = (busy * 100) / Math.max(1, slowness)
        expect(
          computeSlowness(
            server,
            rateRps,
            slowness * interpolateLatency(server.curve, slowness * rateRps),
          ),
        ).toBeCloseTo(slowness, 6)
      },
    ),
  )
})

test('more latency at the same rate is never less slow', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 1, max: 99, noNaN: true }),
      fc.double({ min: 1, max: 200, noNaN: true }),
      (rateRps, latencyMs) => {
        expect(computeSlowness(server, rateRps, latencyMs * 1.1)).toBeGreaterThanOrEqual(
          computeSlowness(server, rateRps, latencyMs),
        )
      },
    ),
  )
})

test('beyond the capacity, and where nothing was asked, nothing is said', () => {
  expect(computeSlowness(server, 101, 400)).toBeNaN()
  expect(computeSlowness(server, 0, 10)).toBeNaN()
  expect(computeSlowness(server, 50, 0)).toBeNaN()
  // A steep curve: what would be four times the latency is a little less capacity.
  expect(computeSlowness(server, 90, 60)).toBeLessThan(1.15)
})
