import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Load } from '../../model/load.ts'
import type { Slo } from '../../model/slo.ts'
import { searchCountedCapacity } from './counted-search.ts'

const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
const arrivals = { kind: 'poisson' } as const

/** Every request of a window takes as many ms as `latencyMs` says of its rate. */
function serverOf(latencyMs: (rateRps: number) => number, expectedRps: number) {
  const asked: { rateRps: number; limitMs: number; most: number; requests: number }[] = []
  return {
    asked,
    predictCapacity: () => ({ capacityRps: expectedRps, saturationRps: 1000, unloadedMs: 1 }),
    countViolations(load: Load, limitMs: number, most: number) {
      if (load.kind !== 'open') throw new Error('an open load is counted')
      const requests = Math.round(load.rateRps * load.durationS)
      asked.push({ rateRps: load.rateRps, limitMs, most, requests })
      return { requests, violations: latencyMs(load.rateRps) > limitMs ? requests : 0, failed: 0 }
    },
  }
}
const capacityOf = (server: ReturnType<typeof serverOf>, saturationRps = 1000) =>
  searchCountedCapacity({ server, slo, seed: 1, arrivals, saturationRps })

describe('the highest rate that meets the SLO', () => {
  test('is found from any start, to within the last step', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 20, max: 900, noNaN: true }),
        fc.double({ min: 6, max: 1000, noNaN: true }),
        (truth, expected) => {
          // Latency in proportion to the rate: a limit that is 5 % off gives a capacity that is.
          const { capacityRps } = capacityOf(serverOf((rate) => (50 * rate) / truth, expected))
          expect(capacityRps).toBeLessThanOrEqual(truth * (1 + 1e-9))
          expect(capacityRps).toBeGreaterThan(truth / 1.0203)
        },
      ),
    )
  })

  test('has an interval 3.4 % beyond the bracket', () => {
    const { capacityRps, capacityCi90Rps } = capacityOf(serverOf((rate) => rate / 8, 400))
    // 1.645 standard deviations of 2 %.
    expect(capacityCi90Rps[0]).toBeCloseTo(capacityRps * Math.exp(-0.0329), 6)
    expect(capacityCi90Rps[1] / capacityRps).toBeGreaterThan(Math.exp(0.0329))
    expect(capacityCi90Rps[1] / capacityRps).toBeLessThan(1.0203 * Math.exp(0.0329))
  })

  test('has a wider interval for bursty arrivals', () => {
    const bursty = (cv: number) => {
      const server = serverOf((rate) => rate / 8, 400)
      const { capacityRps, capacityCi90Rps } = searchCountedCapacity({
        server,
        slo,
        seed: 1,
        arrivals: { kind: 'gamma', cv },
        saturationRps: 1000,
      })
      return Math.log(capacityRps / capacityCi90Rps[0])
    }
    expect(bursty(2)).toBeCloseTo(2 * 0.0329, 6)
    expect(bursty(0.5)).toBeCloseTo(0.0329, 6)
  })

  test('lies between 0.5 % and 105 % of the saturation', () => {
    expect(capacityOf(serverOf(() => 1e6, 400)).capacityRps).toBe(5)
    const most = capacityOf(serverOf(() => 1, 400)).capacityRps
    expect(most).toBeLessThanOrEqual(1050)
    expect(most).toBeGreaterThan(1050 / 1.0203)
  })

  test('starts at the expected rate, or at 40 % of the saturation', () => {
    const first = (expectedRps: number) => {
      const server = serverOf((rate) => rate / 8, expectedRps)
      capacityOf(server)
      return server.asked[0]!.rateRps
    }
    expect(first(390)).toBe(390)
    expect(first(0)).toBe(400)
  })

  test('is bracketed by doubled steps, then bisected, in log rate', () => {
    const ratesOf = (latencyMs: (rateRps: number) => number, expectedRps: number) => {
      const server = serverOf(latencyMs, expectedRps)
      capacityOf(server)
      return server.asked.map(({ rateRps }) => rateRps)
    }
    const close = (found: readonly number[], wanted: readonly number[]) => {
      for (const [i, rate] of wanted.entries()) expect(found[i]! / rate).toBeCloseTo(1, 9)
    }
    // Up to 400: 1, 3, 7 and 15 steps of 6 % from 200, of which the last is too far.
    const up = ratesOf((rate) => rate / 8, 200)
    const steps = (from: number, n: number) => from * 1.06 ** n
    close(up, [
      200,
      steps(200, 1),
      steps(200, 3),
      steps(200, 7),
      steps(200, 15),
      Math.sqrt(steps(200, 7) * steps(200, 15)),
    ])
    // Down to 10, whose fifth doubling is beyond the lowest rate, 5: half of what is left.
    const down = ratesOf((rate) => 5 * rate, 400)
    close(
      down,
      [0, 1, 3, 7, 15, 31, 63].map((n) => steps(400, -n)),
    )
    close(down.slice(7), [Math.sqrt(5 * steps(400, -63))])
    // Up to 1,000, beyond the highest, 1050.
    const far = ratesOf((rate) => rate / 20, 400)
    close(far.slice(5), [Math.sqrt(steps(400, 15) * 1050)])
    // The highest that leaves room for a step.
    close(
      ratesOf((rate) => rate / 20, 5000),
      [1050 / 1.06],
    )
  })

  test('is refined by long windows from the result of short ones', () => {
    const server = serverOf((rate) => rate / 4, 390)
    capacityOf(server)
    for (const requests of [3000, 10_000]) {
      const first = server.asked.find((one) => one.requests === requests)!
      expect(Math.abs(first.rateRps / 200 - 1)).toBeLessThan(0.07)
    }
  })

  test('uses windows of 1,000, 3,000 and 10,000 requests', () => {
    const server = serverOf((rate) => rate / 8, 390)
    capacityOf(server)
    expect([...new Set(server.asked.map(({ requests }) => requests))]).toEqual([1000, 3000, 10_000])
    for (const { requests, most, limitMs } of server.asked)
      expect([most, limitMs]).toEqual([requests / 100, 50])
    // Doubling steps: a good start needs few windows.
    expect(server.asked.length).toBeLessThan(12)
  })
})

test('failed requests count as violations', () => {
  const server = {
    ...serverOf(() => 1, 400),
    countViolations: ({ rateRps, durationS }: Load & { rateRps: number }) => {
      const requests = Math.round(rateRps * durationS)
      const failed = rateRps > 300 ? 0.02 * requests : 0
      return { requests, violations: failed, failed }
    },
  } as unknown as ReturnType<typeof serverOf>
  const { capacityRps } = capacityOf(server)
  expect(capacityRps).toBeLessThanOrEqual(300)
  expect(capacityRps).toBeGreaterThan(300 / 1.0203)
})
