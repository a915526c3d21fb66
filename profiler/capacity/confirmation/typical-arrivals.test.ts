import { describe, expect, test } from 'vitest'
import { schedule } from '../../load/arrivals.ts'
import { selectQuantile } from '../../statistics/percentile.ts'
import { QueueServer } from '../../testing/queue-server.ts'
import { chooseTypicalArrivals } from './typical-arrivals.ts'

const window = { kind: 'open', rateRps: 80, durationS: 10, arrivals: { kind: 'poisson' } } as const

describe('typical arrivals', () => {
  test('are one of fifteen Poisson schedules, always the same one', () => {
    const chosen = chooseTypicalArrivals(window, 100)
    expect(chosen).toEqual({ ...window, seed: chosen.seed })
    expect(chosen.seed).toBeGreaterThanOrEqual(100)
    expect(chosen.seed).toBeLessThan(115)
    expect(chooseTypicalArrivals(window, 100)).toEqual(chosen)
  })

  test('halve the scatter between windows of a busy server, slightly above the median', () => {
    const p99Of = (seed: number) => {
      const server = new QueueServer({ seed: 1, servers: 1, maxBatch: 1, serviceMs: () => 10.5 })
      return [...server.play({ ...window, seed }).latencyMs].sort((a, b) => a - b)[
        Math.floor(0.99 * 800)
      ]!
    }
    const windows = Array.from({ length: 30 }, (_, i) => i)
    const [plain, usual] = [
      windows.map((i) => p99Of(15 * i)),
      windows.map((i) => p99Of(chooseTypicalArrivals(window, 15 * i).seed)),
    ]
    const middle = (values: readonly number[]) =>
      [...values].sort((a, b) => a - b)[values.length / 2]!
    const spread = (values: readonly number[]) =>
      Math.sqrt(
        values.reduce((sum, ms) => sum + Math.log(ms / middle(values)) ** 2, 0) / values.length,
      )
    expect(spread(usual)).toBeLessThan(0.6 * spread(plain))
    expect(middle(usual)).toBeGreaterThan(middle(plain))
    expect(middle(usual)).toBeLessThan(1.4 * middle(plain))
  })

  test('have rank ten of fifteen by the waits in queues with constant service', () => {
    const short = { ...window, durationS: 2.5 }
    for (let firstSeed = 0; firstSeed < 40 * 15; firstSeed += 15) {
      const hardness = Array.from({ length: 15 }, (_, i) => {
        const atMs = schedule({ ...short, seed: firstSeed + i })
        const gapMs = (atMs.at(-1)! - atMs[0]!) / (atMs.length - 1)
        const logs = [0.6, 0.75, 0.87, 0.95].map((utilization) => {
          const server = new QueueServer({
            seed: 1,
            servers: 1,
            maxBatch: 1,
            serviceMs: () => utilization * gapMs,
          })
          const { latencyMs } = server.play({ ...short, seed: firstSeed + i })
          const waits = latencyMs.map((ms) => Math.max(0, ms / (utilization * gapMs) - 1)).sort()
          return Math.log(selectQuantile(waits, 0.99) + 0.1)
        })
        return { seed: firstSeed + i, sum: logs.reduce((a, b) => a + b) }
      })
      expect(chooseTypicalArrivals(short, firstSeed).seed).toBe(
        hardness.sort((a, b) => a.sum - b.sum)[9]!.seed,
      )
    }
  })

  test('are not chosen for other arrival types or very long windows', () => {
    const constant = { ...window, arrivals: { kind: 'constant' } } as const
    expect(chooseTypicalArrivals(constant, 100)).toEqual({ ...constant, seed: 100 })
    expect(chooseTypicalArrivals({ ...window, rateRps: 4001 }, 100).seed).toBe(100)
  })
})
