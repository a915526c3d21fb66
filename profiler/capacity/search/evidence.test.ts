import { describe, expect, test } from 'vitest'
import { trueCapacities } from '../../bench/truth.bench.ts'
import type { Load } from '../../model/load.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { Measurement } from '../../model/measurement.ts'
import type { Slo } from '../../model/slo.ts'
import type { VirtualRun, VirtualServer } from '../../model/virtual-server.ts'
import { busyMachine } from '../../testing/busy-machine.ts'
import { QueueServer } from '../../testing/queue-server.ts'
import { targetAt } from '../../testing/servers.ts'
import { caseNamed, developmentCases } from '../../testing/simple-servers.ts'
import { virtualCases } from '../../testing/virtual-servers.ts'
import { compareSpeeds } from '../changes/speed-change.ts'
import { type CapacityOptions, measureCapacity } from '../measure.ts'
import { findOutageSpans } from '../outage-spans.ts'
import {
  boundSystemCapacity,
  estimateSystemCapacity,
  type ServiceLog,
} from '../service-log/service-log.ts'

const { signal } = new AbortController()
const slo: Slo = { percentile: 0.99, limitMs: 60, maxErrorRate: 0.001 }
const measure = (server: VirtualServer, of = slo, options: Partial<CapacityOptions> = {}) =>
  measureCapacity({
    target: { kind: 'virtual', server },
    slo: of,
    signal,
    seed: 3,
    effort: 'quick',
    ...options,
  })
const fifo = (serviceMs: (atMs: number) => number) =>
  new QueueServer({ seed: 1, servers: 1, maxBatch: 1, serviceMs: (_, __, atMs) => serviceMs(atMs) })

/** Windows of open load that met the SLO, by rate. */
const heldRates = ({ points, slo: { limitMs } }: Measurement) =>
  points
    .filter((p) => p.load.kind === 'open' && p.sloMs <= limitMs && !p.cut)
    .map((p) => p.offeredRps)

describe('bounds by observations', () => {
  test('no estimate exceeds the throughput of full batches by far', async () => {
    const { server } = caseNamed('batches of 16 in 5 + 0.5 n ms')
    for (const seed of [1, 2]) {
      const { capacityRps, capacityCi90Rps } = await measure(server(seed), slo, { seed })
      expect(capacityCi90Rps[1]).toBeLessThan((16 / 13) * 1000 * 1.002)
      expect(Math.abs(capacityRps / 1178.9 - 1)).toBeLessThan(0.03)
    }
  })

  test('the lower end is a rate that an open window met', async () => {
    // Alone it answers in 5 ms, and each one beside another costs it 12: a closed loop gets far
    // more than open load can have within the SLO.
    const bursts = new QueueServer({
      seed: 1,
      servers: 1,
      maxBatch: 64,
      serviceMs: (batch) => (batch > 20 ? 50 : 5 + 2.2 * batch),
    })
    const found = await measure(bursts, { ...slo, limitMs: 80 })
    expect(Math.max(...heldRates(found))).toBeGreaterThanOrEqual(found.capacityCi90Rps[0])
    expect(found.bounds).toBe('both')
  })
})

test('a few dozen slow batches are enough to tell full ones from smaller ones', async () => {
  const { server, slo: of } = virtualCases.find(({ name }) => name === 'CPU batch 8')!
  const truth = trueCapacities()['CPU batch 8']!
  const errors: number[] = []
  for (const seed of [1, 2, 3])
    errors.push((await measure(server(seed), of, { seed: 100 * seed })).capacityRps / truth - 1)
  expect(Math.abs(errors.sort((a, b) => a - b)[1]!)).toBeLessThan(0.045)
})

describe('outages', () => {
  /** 4 ms a request, and once, while it is searched, nothing for 700 ms. */
  const pausing = (everyMs: number, fromMs = 5200) => {
    let next = fromMs
    return fifo((atMs) => {
      if (atMs < next) return 4
      next = atMs + everyMs
      return 704
    })
  }

  test('a single one is repeated and reported, and changes no figure', async () => {
    const [calm, once] = [
      await measure(fifo(() => 4)),
      await measure(pausing(Number.POSITIVE_INFINITY)),
    ]
    expect(once.caveats.join()).toMatch(
      /the server answered nothing for 70\d ms of a window at .* this outage did not recur/,
    )
    expect(Math.abs(once.capacityRps / calm.capacityRps - 1)).toBeLessThan(0.03)
    const raced = await measure(pausing(Number.POSITIVE_INFINITY), slo, {
      capacityToBeatRps: 0.9 * calm.capacityRps,
    })
    expect(raced.outcome).not.toBe('pruned')
  })

  test('recurrent ones are part of the capacity', async () => {
    const found = await measure(pausing(900))
    expect(found.caveats.join()).not.toMatch(/did not recur/)
    expect(found.capacityRps).toBeLessThan(100)
  })

  test('are times in which a request waited and none was answered', () => {
    const run = (sentMs: number[], latencyMs: number[], cutMs?: number) =>
      findOutageSpans(
        {
          sentMs: Float64Array.from(sentMs),
          latencyMs: Float64Array.from(latencyMs),
          cutMs,
        } as unknown as LoadRun,
        50,
      )
    expect(run([0, 5, 100, 110], [4, 4, 4, 4])).toEqual([])
    expect(run([0, 5, 10, 110], [4, 4, 100, 4])).toEqual([{ fromMs: 10, untilMs: 110 }])
    expect(run([0, 5, 20, 30], [4, 4, 180, 170], 200)).toEqual([{ fromMs: 20, untilMs: 200 }])
    expect(run([0, 5, 10, 110], [4, 4, Number.NaN, 4])).toEqual([])
  })
})

describe('warm-up', () => {
  test.each(['FIFO 8 ms, first 300 5x slower', 'FIFO 8 ms, from 5x over 300'])(
    '%s: found by requests, under quick effort too',
    async (name) => {
      const { capacityRps } = await measure(caseNamed(name).server(1))
      expect(Math.abs(capacityRps / 87.6 - 1)).toBeLessThan(0.05)
    },
  )

  test('lasts until the number of requests that warms the server', async () => {
    const warming: { requests: number; seconds: number }[] = []
    let before = true
    await measure(
      fifo(() => 1),
      { ...slo, limitMs: 20 },
      {
        onStep: (point, phase) => {
          before &&= phase === 'warm-up'
          if (before) warming.push(point)
        },
      },
    )
    const of = (key: 'requests' | 'seconds') => warming.reduce((sum, point) => sum + point[key], 0)
    expect(of('requests')).toBeGreaterThanOrEqual(512)
    expect(of('seconds')).toBeLessThan(1)
  })

  test('a server that speeds up during the search is searched again', async () => {
    const found = await measure(fifo((atMs) => (atMs < 7200 ? 8 : 5)))
    expect(found.capacityRps).toBeGreaterThan(140)
  })

  test('a server that keeps speeding up is reported as non-stationary', async () => {
    const found = await measure(fifo((atMs) => 16 * 0.97 ** (atMs / 1000)))
    expect(found).toMatchObject({
      outcome: 'non-stationary',
      detail: expect.stringMatching(/^still speeding up: /),
    })
    expect(found.speedRatio).toBeGreaterThan(1.05)
  })

  test('speeds are compared after equal numbers of requests', () => {
    const steps = (scale: number, present: number): ServiceLog => {
      const of = (value: (i: number) => number) => Array.from({ length: 40 }, (_, i) => value(i))
      const zero = of(() => 0)
      const tookMs = of((i) => scale * (5 + present) * (1 + 0.01 * (i % 3)))
      return {
        present: of(() => present),
        tookMs,
        departed: of(() => present),
        rank: zero,
        endedMs: zero,
        spreadMs: zero,
      }
    }
    expect(compareSpeeds([steps(1, 4)], steps(1, 16)).ratio).toBe(1)
    expect(compareSpeeds([steps(1.2, 4)], steps(1, 4)).ratio).toBeCloseTo(1.2, 1)
    expect(compareSpeeds([steps(1, 4)], steps(1.25, 4)).ratio).toBeCloseTo(0.8, 1)
    expect(compareSpeeds([steps(1.03, 4)], steps(1, 4)).ratio).toBe(1)
  })
})

/**
 * A gateway that lets so many requests a second through, ten at once, and answers 429 to the rest
 * at once.
 */
class Gateway implements VirtualServer {
  private readonly behind = fifo(() => 5)
  private tokens = 10

  constructor(private readonly rps: number) {}

  play(load: Load): VirtualRun {
    const played = this.behind.play(load)
    let atMs = 0
    const latencyMs = played.latencyMs.map((ms, i) => {
      const sentMs = played.sentMs[i]!
      this.tokens = Math.min(10, this.tokens + ((sentMs - atMs) * this.rps) / 1000)
      atMs = sentMs
      if (this.tokens < 1) return Number.NaN
      this.tokens--
      return ms
    })
    return { ...played, latencyMs, failure: 'status 429' }
  }
}

describe('overload', () => {
  test('a gateway that refuses bursts is searched at lower rates', async () => {
    const found = await measure(new Gateway(20))
    expect(found.outcome).not.toBe('errors')
    expect(found.capacityRps).toBeGreaterThan(12)
    expect(found.capacityRps).toBeLessThan(26)
  })

  test('a short queue that refuses before it is slow bounds the capacity', async () => {
    const { server, slo: of } = developmentCases.find(({ name }) =>
      name.includes('refuses beyond 40'),
    )!
    const found = await measure(server(7), of, { seed: 1000 })
    expect(Math.abs(found.capacityRps / 317.7 - 1)).toBeLessThan(0.015)
  })

  test('the system capacity is estimated from refusals of a full queue, not of a rate limit', () => {
    const runOf = (server: VirtualServer) =>
      server.play({ kind: 'closed', connections: 60, durationS: 1 }) as unknown as LoadRun
    expect(
      estimateSystemCapacity([runOf(caseNamed('FIFO 4 ms, refuses beyond 64').server(1))]),
    ).toBeUndefined()
    expect(
      estimateSystemCapacity([
        runOf(
          new QueueServer({ seed: 1, servers: 1, maxBatch: 1, queueLimit: 40, serviceMs: () => 3 }),
        ),
      ]),
    ).toBe(41)
    expect(estimateSystemCapacity([runOf(new Gateway(20))])).toBeUndefined()
  })

  test('the system capacity covers refusals but for a tenth on either side', () => {
    const there = Array.from({ length: 20 }, (_, i) => 10 + i)
    // As many that stay for long, then one that is refused, and all leave.
    const runs = there.map((count) => ({
      sentMs: Float64Array.from({ length: count + 1 }, (_, i) => i),
      latencyMs: Float64Array.from({ length: count + 1 }, (_, i) =>
        i === count ? Number.NaN : 1000,
      ),
    })) as unknown as LoadRun[]
    expect(boundSystemCapacity(runs)).toEqual([12, 27])
    expect(boundSystemCapacity(runs.slice(0, 4))).toBeUndefined()
    // Nine in ten at three fifths of the most at least: those of 18 and more, of 29.
    expect([estimateSystemCapacity(runs), estimateSystemCapacity(runs.slice(7))]).toEqual([
      undefined,
      23,
    ])
  })

  test('the capacity of a server with a full queue is accurate', async () => {
    const found = await measure(caseNamed('FIFO 4 ms, refuses beyond 64').server(1), {
      ...slo,
      limitMs: 400,
    })
    expect(Math.abs(found.capacityRps / 243.9 - 1)).toBeLessThan(0.03)
  })
})

describe('a busy machine', () => {
  const busy = (waits: (open: number) => boolean) =>
    measureCapacity({
      target: targetAt('http://127.0.0.1:1'),
      slo,
      signal,
      seed: 3,
      effort: 'quick',
      generator: busyMachine(
        (kept) => fifo(() => (kept ? 12 : 4)),
        (load, before) =>
          load.kind === 'open' && waits(before.filter(({ kind }) => kind === 'open').length),
      ),
    })

  test('invalid windows are repeated', async () => {
    const [calm, some] = [await busy(() => false), await busy((open) => open === 1)]
    expect(Math.abs(some.capacityRps / calm.capacityRps - 1)).toBeLessThan(0.03)
    expect(some.points.filter((p) => p.invalid).length).toBe(1)
  })

  test('continuous interference gives no capacity', async () => {
    expect(await busy((open) => open > 0)).toMatchObject({
      outcome: 'host-interference',
      bounds: 'none',
      capacityRps: 0,
      capacityCi90Rps: [0, Number.POSITIVE_INFINITY],
    })
  })
})
