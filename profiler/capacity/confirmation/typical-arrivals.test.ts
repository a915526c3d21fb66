import { describe, expect, test } from 'vitest'
import { schedule } from '../../load/arrivals.ts'
import { quantileOfSorted } from '../../statistics/percentile.ts'
import { QueueServer } from '../../testing/queue-server.ts'
import { chooseTypicalArrivals } from './typical-arrivals.ts'

const window = { kind: 'open', rateRps: 80, durationS: 10, arrivals: { kind: 'poisson' } } as const

describe('usual arrivals', () => {
  test('are a Poisson window of one of fifteen seeds, the same each time', () => {
    const chosen = chooseTypicalArrivals(window, 100)
    expect(chosen).toEqual({ ...window, seed: chosen.seed })
    expect(chosen.seed).toBeGreaterThanOrEqual(100)
    expect(chosen.seed).toBeLessThan(115)
    expect(chooseTypicalArrivals(window, 100)).toEqual(chosen)
  })

  test('take luck out of a window of a busy server, and are a little harder than the middle', () => {
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

  test('are the tenth of the fifteen, from the easiest, by what queues with a constant server make of them', () => {
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
          return Math.log(quantileOfSorted(waits, 0.99) + 0.1)
        })
        return { seed: firstSeed + i, sum: logs.reduce((a, b) => a + b) }
      })
      expect(chooseTypicalArrivals(short, firstSeed).seed).toBe(
        hardness.sort((a, b) => a.sum - b.sum)[9]!.seed,
      )
    }
  })

  test('other kinds, and windows of very many requests, are played as they come', () => {
    const constant = { ...window, arrivals: { kind: 'constant' } } as const
    expect(chooseTypicalArrivals(constant, 100)).toEqual({ ...constant, seed: 100 })
    expect(chooseTypicalArrivals({ ...window, rateRps: 4001 }, 100).seed).toBe(100)
  })
})
