import { describe, expect, test } from 'vitest'
import { trueCapacities } from '../../bench/truth.bench.ts'
import { furtherCases } from '../../testing/further-servers.ts'
import { simpleCases } from '../../testing/simple-servers.ts'
import { measureCapacity } from '../measure.ts'
import { isThrottled } from './throttle.ts'

const throttled = furtherCases.filter(({ name }) => name.includes('of computing time'))

describe.each(throttled)('$name', ({ name, slo, server }) => {
  test('is told by closed loops', () => {
    const of = server(1)
    expect(isThrottled(Array.from({ length: 12 }, () => of.play({ kind: 'closed', connections: 32, durationS: 0.25 })))).toBe(true)
  })

  test('has its capacity within the interval, and says why it waits', async () => {
    const truth = trueCapacities()[name]!
    for (const seed of [1, 2]) {
      const { signal } = new AbortController()
      const target = { kind: 'virtual', server: server(seed) } as const
      const found = await measureCapacity({ target, slo, signal, effort: 'quick', seed: 10_000 * seed })
      const [low, high] = found.capacityCi90Rps
      expect(low).toBeLessThanOrEqual(truth)
      expect(high).toBeGreaterThanOrEqual(truth)
      expect(found.capacityRps / truth).toBeGreaterThan(0.7)
      expect(found.caveats.join()).toContain('CPU limit')
    }
  })
})

test.each(simpleCases.slice(0, 6))('$name is none', ({ server }) => {
  const of = server(1)
  expect(isThrottled(Array.from({ length: 12 }, () => of.play({ kind: 'closed', connections: 32, durationS: 0.25 })))).toBe(false)
})

test('nothing is told by loops of too few waits', () => {
  expect(isThrottled([])).toBe(false)
  expect(isThrottled([throttled[0]!.server(1).play({ kind: 'closed', connections: 32, durationS: 0.25 })])).toBe(false)
})
