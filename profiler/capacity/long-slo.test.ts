/**
 * Servers whose SLO is long beside a service, as people's own have: whole measurements at quick
 * effort, in virtual time.
 */
import { expect, test } from 'vitest'
import { trueCapacities } from '../bench/truth.bench.ts'
import { simpleCases } from '../testing/simple-servers.ts'
import { measureCapacity } from './measure.ts'

const truths = trueCapacities()

test.each<[string, number, number, number]>([
  // Most error; and most loops, and seconds in all, 512 requests of the warm-up included.
  ['FIFO 20 ms, within 500 ms', 0.02, 32, 15.5],
  ['FIFO 1 ms, within 1 s', 0.01, 10, 7],
  ['batches of 16 in 5 + 0.5 n ms, within 500 ms', 0.01, 12, 7.5],
  ['four workers, 50 ms, within 2 s', 0.02, 26, 13],
  ['two workers, 90 % 8 ms, 10 % 30 ms, within 1 s', 0.05, 18, 9.5],
])('%s: off by at most %d, in so few loops and seconds', async (name, most, loops, seconds) => {
  const { server, slo } = simpleCases.find((known) => known.name === name)!
  let closed = 0
  const found = await measureCapacity({
    target: { kind: 'virtual', server: server(7) },
    slo,
    signal: new AbortController().signal,
    effort: 'quick',
    seed: 9,
    onStep: ({ load }) => {
      if (load.kind === 'closed') closed++
    },
  })
  expect(found.outcome).toBe('converged')
  expect(Math.abs(found.capacityRps / truths[name]! - 1)).toBeLessThan(most)
  expect(found.capacityCi90Rps[0]).toBeLessThan(truths[name]!)
  expect(found.capacityCi90Rps[1]).toBeGreaterThan(truths[name]!)
  expect(closed).toBeLessThanOrEqual(loops)
  expect(found.seconds).toBeLessThan(seconds)
})
