/**
 * Whether a confirmation may end early: only where all measurements of the configuration agree, and
 * the server's speed did not move.
 */
import { describe, expect, test } from 'vitest'
import { summariseRun } from '../../load/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { Measurement } from '../../model/measurement.ts'
import { QueueServer } from '../../testing/queue-server.ts'
import { confirmed, open, slo } from '../../testing/scripted-confirmation.ts'
import { runOf } from '../../testing/scripted-generator.ts'
import { extractEarlierMeasurement } from './agreement.ts'
import { confirmCapacity } from './confirm.ts'

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
/** A window of an earlier trial; `over` of its requests are spread over it and take too long. */
const pointAt = (rateRps: number, over: number, durationS = 1, more: Partial<LoadRun> = {}) => {
  const arrivals = { kind: 'poisson' } as const
  const load = { kind: 'open', rateRps, arrivals, durationS, seed: 1 } as const
  const n = rateRps * durationS
  const each = Math.floor(n / Math.max(1, over))
  const took = (i: number) => (over > 0 && i % each === 0 && i < over * each ? 90 : 5)
  return summariseRun(
    runOf(
      load,
      Array.from({ length: n }, (_, i) => took(i)),
      more,
    ),
    slo,
  )
}
const earlier = (points: ReturnType<typeof pointAt>[], unloadedMs = 5) => {
  const unloaded = { requests: 100, meanMs: unloadedMs, p50Ms: unloadedMs, p90Ms: unloadedMs + 0.1 }
  const measurement = { points, slo, unloaded } as unknown as Measurement
  return [extractEarlierMeasurement(measurement)]
}
const six = Array.from({ length: 6 }, () => pointAt(109, 0))

describe('a confirmation', () => {
  test.each<[string, Parameters<typeof confirmed>[1]]>([
    ['of nothing measured before', {}],
    ['of windows that all met the SLO', { earlier: earlier([...six, pointAt(120, 0)]) }],
    ['where only a far higher rate violated it', { earlier: earlier([...six, pointAt(130, 30)]) }],
    ['where a higher rate violated it than any met', { earlier: earlier([pointAt(109, 20)]) }],
    [
      'where shorter windows met what a longer one violated',
      { earlier: earlier([...six, pointAt(109, 60, 5)]) },
    ],
    [
      'where the violated window was disturbed',
      { earlier: earlier([...six, pointAt(109, 20, 1, { machineWait: { server: 0.5 } })]) },
    ],
    ['of an unloaded latency that is nearly as before', { earlier: earlier(six, 5.4) }],
  ])('%s ends as soon as it is proven', async (_, options) => {
    const { found, each, rests } = await confirmed((load) => open(load), options)
    expect([each.length, rests]).toEqual([2, []])
    expect(found).toMatchObject({ met: true, proven: true })
    expect(found.variation).toBeUndefined()
  })

  test.each<[string, Parameters<typeof confirmed>[1], Parameters<typeof confirmed>[0], RegExp]>([
    [
      'of a rate that one trial window violated and six others met',
      { earlier: earlier([...six, pointAt(109, 20)]) },
      (load) => open(load),
      /^one window violated the SLO at 109\.0 requests per second \(18\.3 % .*, 6 others met it at that rate or higher \(0\.0 %\)$/,
    ],
    [
      'of a rate that one trial violated and this one meets',
      { earlier: earlier([pointAt(90, 20)]) },
      (load) => open(load),
      /^one window violated the SLO at 90\.0 .*, another met it at that rate or higher/,
    ],
    [
      'of a server that gets slower',
      {},
      (load, window) => open(load, () => (window === 1 ? 8 : 5)),
      /^the server ran at 0\.6\d to 1\.00 times the speed of its first window$/,
    ],
    [
      'of a server that gets faster',
      {},
      (load, window) => open(load, () => (window === 1 ? 5 : 8)),
      /^the server ran at 1\.00 to 1\.6\d times the speed of its first window$/,
    ],
    [
      'of a server that was faster before',
      { earlier: earlier(six, 3.9) },
      (load) => open(load),
      /^one request at a time took 3\.90 ms in an earlier measurement and 5\.00 ms in this one$/,
    ],
  ])('%s takes its whole time, spread over twice as much', async (_, options, answer, why) => {
    const { found, asked, rests } = await confirmed(answer, options)
    const loadS = sum(asked.map(({ durationS }) => durationS))
    expect(loadS).toBeGreaterThanOrEqual(10)
    expect(loadS + sum(rests)).toBeCloseTo(20, 6)
    expect(found).toMatchObject({ met: true, proven: true, capacityRps: 100 })
    expect(found.variation).toMatchObject({
      found: [expect.stringMatching(why)],
      windows: asked.length,
      spanS: expect.closeTo(20, 6),
    })
  })

  test('of a server that was cold before its warm-up ends as soon as it is proven', async () => {
    let served = 0
    const cold = new QueueServer({
      seed: 1,
      servers: 1,
      maxBatch: 1,
      serviceMs: () => (served++ < 200 ? 9 : 5),
    })
    const found = await confirmCapacity({
      target: { kind: 'virtual', server: cold },
      slo,
      rateRps: 100,
      seconds: 10,
      earlier: earlier(six),
      signal: new AbortController().signal,
    })
    expect(found).toMatchObject({ met: true, unloaded: { p50Ms: 5 } })
    expect(found.variation).toBeUndefined()
  })

  test('says how its windows varied', async () => {
    const { found } = await confirmed((load, window) => open(load, () => 5 + 4 * window))
    const { sloMs, speed } = found.variation!
    expect(sloMs).toEqual([5, 5 + 4 * (found.variation!.windows - 1)])
    expect(speed[0]).toBeCloseTo(0.5, 1)
    expect(speed[1]).toBe(1)
  })

  test('that once disagreed is spread at lower rates too', async () => {
    const { found, asked, rests } = await confirmed(
      (load, window) => open(load, () => (load.rateRps > 99 ? (window < 1 ? 5 : 70) : 5)),
      { minRps: 80 },
    )
    expect(found).toMatchObject({ met: false, capacityRps: expect.closeTo(93.3, 1) })
    const lower = asked.filter(({ rateRps }) => rateRps < 100)
    expect(sum(lower.map(({ durationS }) => durationS))).toBeGreaterThanOrEqual(10)
    expect(sum(rests)).toBeGreaterThan(9)
  })
})

describe('a server that is half as fast for ten seconds of each forty', () => {
  const slowShare = (atMs: number) => (atMs % 40_000 < 10_000 ? 2 : 1)
  const server = () =>
    new QueueServer({
      seed: 1,
      servers: 1,
      maxBatch: 1,
      serviceMs: (_, __, atMs) => 8 * slowShare(atMs),
    })
  const at = (rateRps: number, more: { earlier?: ReturnType<typeof earlier> } = {}) => {
    const virtual = server()
    // Its slow time is over when the confirmation begins.
    virtual.play({ kind: 'closed', connections: 1, durationS: 11 })
    return confirmCapacity({
      target: { kind: 'virtual', server: virtual },
      slo,
      rateRps,
      signal: new AbortController().signal,
      ...more,
    })
  }

  test('is not confirmed at what it serves when it is fast, once a trial saw it slow', async () => {
    // 125 a second when it is fast, 62 when it is slow.
    expect(await at(80)).toMatchObject({ met: true, capacityRps: 80 })
    const found = await at(80, { earlier: earlier([pointAt(80, 60), pointAt(80, 0)]) })
    expect(found.met).toBe(false)
    expect(found.capacityRps).toBeGreaterThan(0)
    expect(found.capacityRps).toBeLessThan(62)
  })
})
