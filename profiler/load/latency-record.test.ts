import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { LoadRun } from '../model/load-run.ts'
import { computeDispersion } from '../statistics/dependence.ts'
import { runOf as scriptedRun } from '../testing/scripted-generator.ts'
import { countWithin, recordLatencies } from './latency-record.ts'

const runOf = (latencyMs: readonly number[], stream?: LoadRun['stream']): LoadRun =>
  scriptedRun({ kind: 'closed', connections: 1, durationS: 1 }, latencyMs, { stream })
const recordOf = (...latencyMs: number[]) => recordLatencies(runOf(latencyMs)).e2e

describe('a record', () => {
  test('has 16 bins a doubling from a microsecond, by rising bin, with their counts; failures are left out', () => {
    // A microsecond, 2 us, 4 us and 1 ms: log2 of 1, 2, 4 and 1000, times 16.
    expect(recordOf(0.004, 0.001, Number.NaN, 1, 0.002, 1, 0.002, 0.002)).toEqual([
      0,
      1,
      16,
      3,
      32,
      1,
      Math.floor(16 * Math.log2(1000)),
      2,
    ])
    // 4.4 % more is the next bin.
    expect(recordOf(1.024, 1.024 * 1.043, 1.024 * 1.045)).toEqual([160, 2, 161, 1])
  })

  test('counts latencies out of range in the outermost bins', () => {
    expect(recordOf(0, 1e-6)).toEqual([0, 2])
    expect(recordOf(3_600_000, 1e9)).toEqual([Math.floor(16 * Math.log2(3.6e9)), 2])
    expect(recordOf(3_400_000)).not.toEqual(recordOf(3_600_000))
  })

  test('has parts of streams, and the whole answers whatever the SLO counts', () => {
    const part = (...ms: number[]) => Float64Array.from(ms)
    const stream = {
      latenciesMs: { ttft: part(0.002, 0.004), tpot: part(0.001, 0.001), e2e: part(0.008, 0.016) },
      tokens: part(2, 2),
      gapsMs: part(),
    }
    expect(recordLatencies(runOf([1, 1], stream))).toEqual({
      e2e: [48, 1, 64, 1],
      ttft: [16, 1, 32, 1],
      tpot: [0, 2],
      dispersion: 1,
    })
  })
})

describe('the dispersion of a record', () => {
  const slowest = (share: number, n = 400) =>
    Array.from({ length: n }, (_, i) => (i < share * n ? 50 : 10))

  test('is the largest of the shares over the median and the 90th, 95th and 99th percentile', () => {
    // Half of them slow, all in a row: the share over the median.
    expect(recordLatencies(runOf(slowest(0.5))).dispersion).toBe(
      Number(computeDispersion(slowest(0.5).map((ms) => (ms > 10 ? 1 : 0))).toPrecision(4)),
    )
    // One in twenty, in a row, which fill one of the twenty batches of 20: 20 (1 / 20) / (0.05
    // 0.95).
    expect(recordLatencies(runOf(slowest(0.05))).dispersion).toBe(21.05)
    // Slow and slower ones: half of the requests, evenly, and within them the slowest tenth in a
    // row.
    const nested = Array.from({ length: 2000 }, (_, i) =>
      i % 2 === 0 ? 10 : i >= 1000 && i < 1200 ? 90 : 40,
    )
    const overNinety = Number(
      computeDispersion(nested.map((ms) => (ms > 40 ? 1 : 0))).toPrecision(4),
    )
    expect(overNinety).toBeGreaterThan(10)
    expect(recordLatencies(runOf(nested)).dispersion).toBe(overNinety)
  })

  test('depends on the clustering of slow requests; failures count as the slowest', () => {
    const mirrored = slowest(0.3).toReversed()
    expect(recordLatencies(runOf(mirrored)).dispersion).toBe(
      recordLatencies(runOf(slowest(0.3))).dispersion,
    )
    const failing = slowest(0.3).map((ms) => (ms === 50 ? Number.NaN : ms))
    expect(recordLatencies(runOf(failing)).dispersion).toBe(
      recordLatencies(runOf(slowest(0.3))).dispersion,
    )
  })

  test('is the largest over the stream metrics, to four digits; 1 without requests', () => {
    const even = Float64Array.from({ length: 400 }, (_, i) => 10 + (i % 2))
    const inARow = Float64Array.from(slowest(1 / 3))
    const stream = {
      latenciesMs: { ttft: even, tpot: inARow, e2e: even },
      tokens: even,
      gapsMs: even,
    }
    const most = computeDispersion(Array.from(inARow, (ms) => (ms > 10 ? 1 : 0)))
    const found = recordLatencies(runOf([...even], stream)).dispersion
    expect(found).toBe(Number(most.toPrecision(4)))
    expect(found).not.toBe(most)
    expect(recordLatencies(runOf([])).dispersion).toBe(1)
  })
})

describe('the number of requests within a limit', () => {
  test('is known up to the count of the bin of the limit', () => {
    const record = recordOf(0.001, 0.002, 0.002, 0.004, 0.004, 0.004, 0.008)
    expect(countWithin(record, 0.004)).toEqual([3, 6])
    expect(countWithin(record, 0.003)).toEqual([3, 3])
    expect([countWithin(record, 0.0005), countWithin(record, 9)]).toEqual([
      [0, 1],
      [7, 7],
    ])
    expect(countWithin([], 5)).toEqual([0, 0])
  })

  test('bounds the true number within 4.4 % of the limit', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0.01, max: 1e4, noNaN: true }), { maxLength: 60 }),
        fc.double({ min: 0.02, max: 9e3, noNaN: true }),
        (latencyMs, limitMs) => {
          const [least, most] = countWithin(recordOf(...latencyMs), limitMs)
          const within = (limit: number) => latencyMs.filter((ms) => ms <= limit).length
          expect(least).toBeLessThanOrEqual(within(limitMs))
          expect(most).toBeGreaterThanOrEqual(within(limitMs))
          expect(least).toBeGreaterThanOrEqual(within(limitMs / 1.0443))
          expect(most).toBeLessThanOrEqual(within(limitMs * 1.0443))
        },
      ),
    )
  })
})
