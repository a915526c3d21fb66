import { describe, expect, test } from 'vitest'
import { trueCapacities } from '../../bench/truth.bench.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { VirtualServer } from '../../model/virtual-server.ts'
import { drawnCases } from '../../testing/drawn-servers.ts'
import { furtherCases } from '../../testing/further-servers.ts'
import { QuotaServer } from '../../testing/quota-server.ts'
import { simpleCases } from '../../testing/simple-servers.ts'
import { computeHalfWidth } from '../capacity-bounds.ts'
import { efforts } from '../effort.ts'
import { measureCapacity } from '../measure.ts'
import { detectQuotaWait } from './cpu-quota.ts'

const throttled = furtherCases.filter(({ name }) =>
  name.includes('of each 100 ms of computing time'),
)
const loopsOf = (server: VirtualServer, loops = 12, connections = 32) =>
  Array.from({ length: loops }, (): LoadRun => {
    const load = { kind: 'closed', connections, durationS: 0.25 } as const
    return { ...server.play(load), load } as unknown as LoadRun
  })
const fourMs = (quotaMs: number, periodMs = 100) =>
  new QuotaServer({ seed: 1, workers: 1, maxBatch: 1, quotaMs, periodMs, workMs: () => 4 })

describe.each(throttled)('$name', ({ name, slo, server }) => {
  test('is detected by closed loops', () => {
    const [, quotaMs] = /(\d+) of each/.exec(name)!
    const workers =
      Object.entries({ eight: 8, four: 4, three: 3, two: 2 }).find(([word]) =>
        name.includes(`${word} workers`),
      )?.[1] ?? 1
    const waits = 1 - Number(quotaMs) / 100 / workers
    const share = detectQuotaWait(loopsOf(server(1)))
    // From the last answer before to the first one after it.
    expect(share).toBeGreaterThan(waits - 0.01)
    expect(share).toBeLessThan(waits + 0.25)
  })

  test('has its capacity within the interval, with a caveat', async () => {
    const truth = trueCapacities()[name]!
    const { signal } = new AbortController()
    const target = { kind: 'virtual', server: server(1) } as const
    const found = await measureCapacity({ target, slo, signal, effort: 'quick', seed: 10_000 })
    const [low, high] = found.capacityCi90Rps
    expect(low).toBeLessThanOrEqual(truth)
    expect(high).toBeGreaterThanOrEqual(truth)
    expect(found.capacityRps / truth).toBeGreaterThan(0.8)
    expect(found.capacityRps / truth).toBeLessThan(1.3)
    expect(found.caveats.filter((caveat) => caveat.includes('CPU limit'))).toHaveLength(1)
    if (found.outcome === 'converged')
      expect(computeHalfWidth(found)).toBeLessThan(2 * efforts.quick.precision)
  })
})

test('open windows start below the throughput of closed loops, and a wide interval is no convergence', async () => {
  const loads: { rateRps: number; seed: number }[] = []
  const onStep = ({ load }: LoadPoint) => {
    if (load.kind === 'open') loads.push(load)
  }
  const slo = { percentile: 0.99, limitMs: 100, maxErrorRate: 0.001 }
  const { signal } = new AbortController()
  const found = await measureCapacity({
    target: { kind: 'virtual', server: fourMs(60) },
    slo,
    signal,
    effort: 'quick',
    seed: 7,
    onStep,
  })
  // 15 of 4 ms in each period.
  expect(loads[0]!.rateRps / 0.75).toBeCloseTo(150, -1)
  expect(Math.max(...loads.map(({ rateRps }) => rateRps))).toBeLessThan(150)
  expect(loads.map(({ seed }) => seed)).toEqual([7, 8, 9])
  expect(found.saturationRps).toBeCloseTo(150, -1)
  expect(found.capacityCi90Rps[1]).toBeLessThan(160)
  expect(computeHalfWidth(found)).toBeGreaterThan(2 * efforts.quick.precision)
  expect(found).toMatchObject({
    outcome: 'budget',
    detail:
      'the interval is wide: because of the CPU quota, only windows of open load show the capacity',
  })
})

test('a search that ends by its time says so', async () => {
  const slo = { percentile: 0.99, limitMs: 1000, maxErrorRate: 0.001 }
  const { signal } = new AbortController()
  const slow = new QuotaServer({
    seed: 1,
    workers: 4,
    maxBatch: 1,
    quotaMs: 100,
    periodMs: 100,
    workMs: () => 12,
  })
  const found = await measureCapacity({
    target: { kind: 'virtual', server: slow },
    slo,
    signal,
    effort: 'quick',
  })
  expect(found).toMatchObject({
    outcome: 'budget',
    detail: expect.stringContaining('when the time was up'),
  })
  expect(found.caveats.join()).toContain('CPU limit')
})

test.each(simpleCases)('$name does not wait', ({ server }) => {
  expect(detectQuotaWait(loopsOf(server(1)))).toBe(0)
})

// 106 ms a batch, in step with one another for some batches.
test.each([77, 78, 80])(
  'workers that take nearly a period, and end together for a while, do not wait (seed %d)',
  async (seed) => {
    const { slo, server } = drawnCases.find(({ name }) =>
      name.includes('3 x batches of 32 in 10 + 3 n ms'),
    )!
    const { signal } = new AbortController()
    const found = await measureCapacity({
      target: { kind: 'virtual', server: server(seed) },
      slo,
      signal,
      effort: 'quick',
      seed: 4242,
    })
    expect(found.caveats.join()).not.toContain('CPU limit')
  },
)

test('batches that take nearly a period are no quota', () => {
  const batch = (tookMs: (i: number) => number) => (n: number) => {
    let endMs = 0
    const ends = Array.from({ length: n }, (_, i) => {
      endMs += tookMs(i)
      return endMs
    })
    // Their answers leave one after the other.
    const latencyMs = Float64Array.from(
      ends.flatMap((ms) => Array.from({ length: 16 }, (_, i) => ms + i)),
    )
    return {
      latencyMs,
      sentMs: latencyMs.map(() => 0),
      load: { kind: 'closed', connections: 32, durationS: 0.25 },
    } as LoadRun
  }
  const loops = (of: (n: number) => LoadRun) => Array.from({ length: 12 }, () => of(4))
  expect(detectQuotaWait(loops(batch((i) => 97.5 + (i % 2))))).toBe(0)
  expect(detectQuotaWait(loops(batch((i) => 101.5 + (i % 2))))).toBe(0)
  // By the clock.
  expect(detectQuotaWait(loops(batch((i) => 100 + 3 * (-1) ** i)))).toBeCloseTo(0.83, 1)
})

test('answers count in time order, without failed requests', () => {
  const loops = loopsOf(fourMs(60))
  const changed = loops.map((loop) => ({
    ...loop,
    latencyMs: Float64Array.from([...loop.latencyMs.toReversed(), Number.NaN]),
    sentMs: Float64Array.from([...loop.sentMs.toReversed(), 0]),
  }))
  expect(detectQuotaWait(changed)).toBe(detectQuotaWait(loops))
})

test('few waits, few connections or other periods show no quota', () => {
  expect(detectQuotaWait([])).toBe(0)
  expect(detectQuotaWait(loopsOf(fourMs(60), 1))).toBe(0)
  expect(detectQuotaWait(loopsOf(fourMs(60), 2))).toBe(0)
  expect(detectQuotaWait(loopsOf(fourMs(60), 12, 2))).toBe(0)
  expect(
    detectQuotaWait(
      loopsOf(fourMs(60)).map(
        (loop) => ({ ...loop, load: { ...loop.load, forOpen: true } }) as LoadRun,
      ),
    ),
  ).toBe(0)
  expect(detectQuotaWait(loopsOf(fourMs(60), 12, 8))).toBeGreaterThan(0.4)
  expect(detectQuotaWait(loopsOf(fourMs(96)))).toBe(0)
  expect(detectQuotaWait(loopsOf(fourMs(125, 250)))).toBe(0)
})
