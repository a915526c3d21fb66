/**
 * What a search in virtual time plays, against servers whose latency is a step of the rate;
 * searches of the device model's servers are in trials/launchers/simulated.
 */
import { describe, expect, test } from 'vitest'
import type { Load } from '../../model/load.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { Slo } from '../../model/slo.ts'
import type { CapacityPrediction, VirtualRun, VirtualServer } from '../../model/virtual-server.ts'
import { measureSimulatedCapacity, type SimulatedCapacityOptions } from './simulated-capacity.ts'

const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
type Open = Extract<Load, { kind: 'open' }>

interface Script {
  /** Whether an open window of so many requests meets the SLO. */
  readonly keeps?: (rateRps: number, requests: number) => boolean
  readonly unloadedMs?: number
  /** Latencies of the parts of a stream, as parts of the whole answer. */
  readonly streams?: boolean
  readonly expects?: CapacityPrediction
  /** Where the slow ones of an open window stand: all of them, or one in fifty. */
  readonly slow?: (i: number) => boolean
}
/** 1,000 a second at most. */
class Scripted implements VirtualServer {
  readonly asked: Load[] = []
  readonly predictCapacity?: VirtualServer['predictCapacity']
  readonly countViolations?: VirtualServer['countViolations']
  readonly counted: {
    readonly rateRps: number
    readonly limitMs: number
    readonly seed: number
  }[] = []

  constructor(private readonly script: Script) {
    const { expects } = script
    if (expects === undefined) return
    this.predictCapacity = function (this: Scripted) {
      return this.script.expects!
    }
    this.countViolations = function (this: Scripted, load, limitMs, most) {
      const { rateRps, seed, durationS } = load as Open
      this.counted.push({ rateRps, limitMs, seed })
      const requests = Math.round(rateRps * durationS)
      return { requests, violations: this.keeps(rateRps, requests) ? 0 : most + 1, failed: 0 }
    }
  }

  private keeps(rateRps: number, requests: number): boolean {
    return this.script.keeps?.(rateRps, requests) ?? rateRps <= 700
  }

  play(load: Load): VirtualRun {
    this.asked.push(load)
    const { unloadedMs = 5, streams = false, slow = () => true } = this.script
    const [rateRps, ms] =
      load.kind === 'open'
        ? [load.rateRps, 5]
        : load.connections === 1
          ? [1000 / unloadedMs, unloadedMs]
          : [1000, 20]
    const n = Math.round(rateRps * load.durationS)
    const missed = load.kind === 'open' && !this.keeps(rateRps, n)
    const sentMs = Float64Array.from({ length: n }, (_, i) => (1000 * load.durationS * i) / n)
    const latencyMs = Float64Array.from({ length: n }, (_, i) => (missed && slow(i) ? 80 : ms))
    const failure = 'status 500'
    if (!streams)
      return {
        sentMs,
        latencyMs: latencyMs.map((each, i) =>
          load.kind === 'closed' ? Math.min(each, 1000 * load.durationS - sentMs[i]!) : each,
        ),
        failure,
      }
    const answerMs = load.kind === 'closed' && load.connections > 1 ? 800 : 400
    const all = (value: number) => new Float64Array(n).fill(value)
    const e2eMs = all(answerMs).map((each, i) => (i === 0 ? 1.5 * each : each))
    return {
      sentMs,
      latencyMs: e2eMs,
      failure,
      stream: {
        latenciesMs: { ttft: latencyMs, tpot: all(3), e2e: e2eMs },
        tokens: all(100),
        gapsMs: all(3),
      },
    }
  }
}

async function measured(
  script: Script,
  of: Slo = slo,
  options: Partial<SimulatedCapacityOptions> = {},
) {
  const server = new Scripted(script)
  const steps: [LoadPoint, string][] = []
  const found = await measureSimulatedCapacity({
    target: { kind: 'virtual', server },
    slo: of,
    seed: 4,
    signal: new AbortController().signal,
    onStep: (point, phase) => steps.push([point, phase]),
    ...options,
  })
  const open = server.asked.filter((load) => load.kind === 'open')
  const closed = server.asked.filter((load) => load.kind === 'closed')
  return { found, open, closed, steps, counted: server.counted, asked: server.asked }
}
const rates = (loads: readonly Open[]) => loads.map(({ rateRps }) => Math.round(10 * rateRps) / 10)

describe('before the search', () => {
  test('the unloaded latency takes 50 limits, at least 0.5 s, or 200 requests', async () => {
    const seconds = async (limitMs: number, expects?: CapacityPrediction) =>
      (await measured({ expects }, { ...slo, limitMs })).closed.map(({ durationS }) => durationS)
    expect(await seconds(50)).toEqual([2.5, 1])
    expect(await seconds(6)).toEqual([0.5, 1])
    // Then 256 at a time, for four times the limit, a second at least, or for 1,500 requests.
    expect(await seconds(500)).toEqual([25, 2])
    expect(await seconds(500, { capacityRps: 600, saturationRps: 1000, unloadedMs: 5 })).toEqual([
      1, 1.5,
    ])
    expect(await seconds(50, { capacityRps: 600, saturationRps: 1000, unloadedMs: 50 })).toEqual([
      2.5, 1,
    ])
    const { asked } = await measured({})
    expect(asked.slice(0, 2)).toEqual([
      { kind: 'closed', connections: 1, durationS: 2.5 },
      { kind: 'closed', connections: 256, durationS: 1 },
    ])
  })

  test('an unloaded latency over the limit ends the search', async () => {
    const { found, asked } = await measured({ unloadedMs: 80 })
    expect(found).toMatchObject({
      outcome: 'slo-unattainable',
      capacityRps: 0,
      capacityCi90Rps: [0, 0],
      bounds: 'both',
    })
    expect(found.saturationRps).toBeCloseTo(12.4, 6)
    expect(found.detail).toBe('one request at a time takes 80 ms at p99, over 50 ms')
    expect(asked).toHaveLength(1)
    expect((await measured({ unloadedMs: 50 })).found.outcome).toBe('converged')
  })
})

describe('by bisection', () => {
  test('typical rates come first, then the bracket is bisected', async () => {
    const { found, open } = await measured({})
    expect(rates(open)).toEqual([800, 400, 565.7, 672.7, 733.6, 702.5, 687.4, 694.9, 698.7, 698.7])
    expect(open.map(({ rateRps, durationS }) => Math.round(rateRps * durationS))).toEqual([
      ...Array(9).fill(1000),
      3000,
    ])
    expect(open[0]).toEqual({
      kind: 'open',
      rateRps: 800,
      durationS: 1.25,
      arrivals: { kind: 'poisson' },
      seed: 4,
    })
    expect(found).toMatchObject({
      outcome: 'converged',
      bounds: 'both',
      detail: undefined,
      saturationRps: 1000,
    })
    expect(
      [found.capacityRps, ...found.capacityCi90Rps].map((rps) => Math.round(10 * rps) / 10),
    ).toEqual([698.7, 698.7, 702.5])
    const low = await measured({ keeps: (rateRps) => rateRps <= 50 })
    expect(rates(low.open).slice(0, 5)).toEqual([800, 400, 100, 22.4, 47.3])
    const high = await measured({ keeps: (rateRps) => rateRps <= 900 })
    expect(rates(high.open).slice(0, 3)).toEqual([800, 916.5, 856.3])
  })

  test('rates lie between 0.5 % and 105 % of the saturation', async () => {
    const all = await measured({ keeps: () => true })
    expect(all.found.capacityRps).toBeGreaterThan(1050 / 1.01)
    expect(all.found.capacityCi90Rps[1]).toBeCloseTo(1050, 9)
    const none = await measured({ keeps: () => false })
    expect(none.found.capacityRps).toBeCloseTo(5 * 0.985 ** 8, 9)
    expect(none.open.slice(-8).map(({ rateRps }) => rateRps / 5)).toEqual(
      Array.from({ length: 8 }, (_, i) => expect.closeTo(0.985 ** i, 9)),
    )
    expect(none.found.capacityCi90Rps[0]).toBeCloseTo(5 * 0.985 ** 8, 9)
  })

  test('the rate falls by 1.5 % until a long window meets the SLO', async () => {
    const { found, open } = await measured({
      keeps: (rateRps, requests) => rateRps <= (requests > 2000 ? 680 : 700),
    })
    expect(rates(open).slice(-3)).toEqual([698.7, 688.2, 677.9])
    expect(found.capacityRps).toBeCloseTo(677.9, 1)
    expect(found.capacityCi90Rps[0]).toBe(found.capacityRps)
    expect(found.capacityCi90Rps[1]).toBeCloseTo(702.5, 1)
  })

  test('windows with a certain verdict bound the interval', async () => {
    // Of a thousand 11 are over: the percentile misses, its interval does not.
    const { found } = await measured({
      keeps: (rateRps) => rateRps <= 700,
      slow: (i) => i % 90 === 0,
    })
    expect(found.capacityRps).toBeCloseTo(698.7, 1)
    expect(found.capacityCi90Rps.map((rps) => Math.round(10 * rps) / 10)).toEqual([698.7, 1050])
  })
})

describe('a server that counts its slow requests', () => {
  const expects = { capacityRps: 600, saturationRps: 1000, unloadedMs: 5 }

  test('is searched without windows; only its load curve is played', async () => {
    const { found, open, counted } = await measured({ expects })
    expect(found.capacityRps).toBeGreaterThan(700 / 1.0202)
    expect(found.capacityRps).toBeLessThanOrEqual(700)
    expect(found).toMatchObject({ outcome: 'converged', bounds: 'both' })
    const { capacityRps } = found
    expect(open.map(({ rateRps }) => rateRps / capacityRps)).toEqual(
      [0.3, 0.6, 0.85, Math.sqrt(1000 / capacityRps), 1].map((part) => expect.closeTo(part, 9)),
    )
    expect(open.map(({ rateRps, durationS }) => Math.round(rateRps * durationS))).toEqual([
      1000, 1000, 1000, 1000, 4000,
    ])
    expect(counted[0]).toEqual({ rateRps: 600, limitMs: 50, seed: 4 })
    // Near saturation what a looser SLO would allow is looked for 3 % beyond.
    const near = await measured({ expects, keeps: (rateRps) => rateRps <= 980 })
    expect(near.open[3]!.rateRps / near.found.capacityRps).toBeCloseTo(1.03, 9)
  })

  test('is bisected if it has no model of its own', async () => {
    const server = new Scripted({})
    const half = { play: (load: Load) => server.play(load), predictCapacity: () => expects }
    const found = await measureSimulatedCapacity({
      target: { kind: 'virtual', server: half },
      slo,
      seed: 4,
      signal: new AbortController().signal,
    })
    expect(found.capacityRps).toBeCloseTo(698.7, 1)
  })
})

describe('streamed answers', () => {
  const ttft: Slo = { ...slo, metric: 'ttft' }

  test('have windows as long as whole answers', async () => {
    const { closed } = await measured({ streams: true }, ttft)
    // 64 answers, one of 500 of which takes half as long again; then twice the longest alone, and
    // four times the longest of many.
    expect(closed.map(({ connections, durationS }) => [connections, durationS])).toEqual([
      [1, 2.5],
      [1, expect.closeTo((64 * 400 * (1 + 0.5 / 500)) / 1000, 9)],
      [256, 1.2],
      [256, 4.8],
    ])
  })

  test('are not searched beyond the saturation', async () => {
    const { found } = await measured({ streams: true, keeps: () => true }, ttft)
    // 1,000 a second are sent, of which those of the last 0.8 s are not finished within 4.8 s.
    expect(found.saturationRps).toBeCloseTo(4000 / 4.8, 0)
    expect(found.capacityRps).toBeLessThan(found.saturationRps)
    expect(found.capacityRps).toBeGreaterThan(found.saturationRps / 1.011)
  })
})

test('every window is reported and counted', async () => {
  const { found, steps } = await measured({})
  expect(steps.map(([, phase]) => phase)).toEqual([
    'unloaded',
    'saturation',
    ...Array(10).fill('search'),
  ])
  expect(found.points).toEqual(steps.map(([point]) => point))
  expect(found.requests).toBe(500 + 1000 + 9 * 1000 + 3000)
  expect(found.seconds).toBeCloseTo(
    found.points.reduce((sum, { load }) => sum + load.durationS, 0),
    9,
  )
  expect(found.unloaded).toMatchObject({ p50Ms: 5 })
  expect(found.slo).toBe(slo)
  // That nothing was measured stands once, in the notice of the backend.
  expect(found.caveats).toEqual([])
})

test('the requested arrivals are used; a trace is replaced by Poisson arrivals', async () => {
  const kinds = async (arrivals: SimulatedCapacityOptions['arrivals']) =>
    new Set((await measured({}, slo, { arrivals })).open.map((load) => load.arrivals))
  expect([...(await kinds({ kind: 'gamma', cv: 2 }))]).toEqual([{ kind: 'gamma', cv: 2 }])
  for (const arrivals of await kinds({ kind: 'trace', atMs: [0, 1] }))
    expect(arrivals).toEqual({ kind: 'poisson' })
})
