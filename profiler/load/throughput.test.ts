import { describe, expect, test } from 'vitest'
import { runOf } from '../testing/scripted-generator.ts'
import { computeSteadyThroughput } from './throughput.ts'

/**
 * A closed loop over a quarter of a second: its connections get their first answers from `firstMs`
 * on, and all of them `rps` from then on, `batch` at a time.
 */
function loop(connections: number, rps: number, firstMs: number, batch = 1) {
  const seconds = 0.25
  const ends = Array.from(
    { length: Math.floor(((1000 * seconds - firstMs) * rps) / 1000) },
    (_, i) => {
      const jitterMs = 0.01 * (i % batch)
      return firstMs + (1000 * (Math.floor(i / batch) * batch)) / rps + jitterMs
    },
  )
  const sentMs = ends.map((_, i) => (i < connections ? 0 : ends[i - connections]!))
  const latencyMs = ends.map((at, i) => at - sentMs[i]!)
  return runOf({ kind: 'closed', connections, durationS: seconds }, latencyMs, {
    sentMs: Float64Array.from(sentMs),
    seconds,
  })
}

describe('throughput of a closed loop', () => {
  test.each([
    ['at once', 20, 2000, 5, 1],
    ['after a hundred milliseconds of connecting', 100, 4000, 100, 1],
    ['in batches of 64', 200, 6400, 60, 64],
  ])(
    'is the rate after the first answer of each connection, %s',
    (_, connections, rps, firstMs, batch) => {
      const run = loop(connections, rps, firstMs, batch)
      expect(computeSteadyThroughput(run, connections) / rps).toBeGreaterThan(0.95)
      expect(computeSteadyThroughput(run, connections) / rps).toBeLessThan(1.05)
    },
  )

  test('is 0 where few answers follow, or all at one time', () => {
    expect(computeSteadyThroughput(loop(200, 1000, 50), 200)).toBe(0)
    const atOnce = runOf({ kind: 'closed', connections: 2, durationS: 1 }, [8, 8, 8, 8, 8, 8], {
      sentMs: new Float64Array(6),
    })
    expect(computeSteadyThroughput(atOnce, 2)).toBe(0)
  })

  test('has the bound of Little where a single batch follows', () => {
    // Two batches of 13, each answered within a tenth of a millisecond, 80 ms apart: 162 a second.
    const run = loop(13, 162, 60, 13)
    expect(run.latencyMs.length).toBeGreaterThanOrEqual(26)
    const oneSince = {
      ...run,
      sentMs: run.sentMs.slice(0, 26),
      latencyMs: run.latencyMs.slice(0, 26),
    }
    expect(computeSteadyThroughput(oneSince, 13)).toBeCloseTo(162, 0)
  })

  test('ignores failed requests and answers after the window', () => {
    const run = loop(20, 2000, 5)
    const failing = {
      ...run,
      latencyMs: run.latencyMs.map((ms, i) => (i % 2 === 0 ? Number.NaN : ms)),
    }
    expect(computeSteadyThroughput(failing, 20) / 1000).toBeCloseTo(1, 1)
    const late = {
      ...run,
      latencyMs: run.latencyMs.map((ms, i) => (run.sentMs[i]! + ms > 100 ? ms + 1000 : ms)),
    }
    expect(computeSteadyThroughput(late, 20) / 2000).toBeCloseTo(1, 1)
  })
})
