import { describe, expect, test } from 'vitest'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import { measured, slo } from '../samples.contract.ts'
import { window } from './windows.contract.ts'
import { findProvenRps, judgeWindows } from './windows.ts'

/**
 * Of a measurement with one window of 100 req/s for 10 s: its latencies are recorded, as of an
 * exponential tail.
 */
const seen = (p99Ms: number, asked: Slo, change: Partial<LoadPoint> = {}, made: Slo = slo) =>
  judgeWindows(
    { ...measured(200, 5), slo: made, points: [{ ...window(100, p99Ms).point, ...change }] },
    asked,
  )[0]

describe('under the SLO that it was made for, a window', () => {
  test.each<[string, number, Partial<LoadPoint>, boolean | undefined]>([
    ['under the limit keeps it', 49, {}, true],
    ['at the limit keeps it', 50, {}, true],
    ['over it misses it', 51, {}, false],
    [
      'over it by as much as its sends were late says nothing',
      54,
      { generatorSaturated: true, latenessP99Ms: 4 },
      undefined,
    ],
    [
      'over it by more than its sends were late says nothing',
      54.1,
      { generatorSaturated: true, latenessP99Ms: 4 },
      undefined,
    ],
    [
      'with late sends of which a tenth failed misses it',
      49,
      { generatorSaturated: true, latenessP99Ms: 4, errors: 100 },
      false,
    ],
    ['over it says nothing where the machine spoilt it', 51, { invalid: true }, undefined],
    ['under it keeps it in spite of the machine', 49, { invalid: true }, true],
    ['that was cut short misses it', 49, { cut: true }, false],
    [
      'that was cut short on a spoilt machine says nothing',
      49,
      { cut: true, invalid: true },
      undefined,
    ],
    ['of which a tenth failed misses it', 49, { errors: 100 }, false],
  ])('%s', (_, p99Ms, change, kept) => {
    expect(seen(p99Ms, slo, { sloMs: p99Ms, ...change })?.met).toBe(kept)
  })

  test('has its own percentile and interval', () => {
    expect(seen(40, slo)).toMatchObject({
      rateRps: 100,
      sloMs: 40,
      sloCi95Ms: [0.96 * 40, 1.04 * 40],
    })
  })
})

test('a thousand requests with few over the limit prove p99, twenty prove nothing', () => {
  expect(seen(30, slo)?.proven).toBe(true)
  const few = { ...measured(200, 5), points: [window(2, 30).point] }
  expect(judgeWindows(few, slo)[0]).toMatchObject({ met: true, proven: false })
})

describe('under another SLO', () => {
  // p95 of an exponential tail is ln 20 / ln 100 of its p99.
  const p95 = (limitMs: number): Slo => ({ ...slo, percentile: 0.95, limitMs })
  const part = Math.log(20) / Math.log(100)

  test('it is judged by its own latencies', () => {
    expect(seen(40, { ...slo, limitMs: 35 })?.met).toBe(false)
    expect(seen(40, { ...slo, limitMs: 45 })?.met).toBe(true)
    expect(seen(40, p95(40 * part * 1.1))?.met).toBe(true)
    expect(seen(40, p95(40 * part * 0.9))?.met).toBe(false)
  })

  test('its percentile is the one that is asked for, its interval as wide in proportion', () => {
    const { sloMs, sloCi95Ms } = seen(40, p95(30))!
    expect(sloMs).toBeCloseTo(40 * part, 9)
    expect(sloCi95Ms[0]).toBeCloseTo(0.96 * 40 * part, 9)
    expect(sloCi95Ms[1]).toBeCloseTo(1.04 * 40 * part, 9)
    expect(seen(40, { ...slo, limitMs: 45 })).toMatchObject({
      sloMs: 40,
      sloCi95Ms: [0.96 * 40, 1.04 * 40],
    })
  })

  test('another part of a streamed answer is read off the stream', () => {
    // Whole answers take eight times as long as first tokens.
    const { point } = window(100, 40, { limits: [] })
    const measurement = {
      ...measured(200, 5),
      points: [{ ...point, sloMs: 320, sloCi95Ms: [300, 340] as [number, number] }],
    }
    const [first] = judgeWindows(measurement, { ...slo, metric: 'ttft' })
    expect(first).toMatchObject({ sloMs: 40, sloCi95Ms: [(300 / 320) * 40, (340 / 320) * 40] })
  })

  test('without a stream nothing is known of its parts', () => {
    expect(seen(40, { ...slo, metric: 'ttft' })).toEqual({
      rateRps: 100,
      seconds: 10,
      met: undefined,
      proven: false,
      sloMs: Number.NaN,
      sloCi95Ms: [0, Number.POSITIVE_INFINITY],
    })
  })
})

test('closed loops hide their waiting, and sweeps have no one rate: neither is a window', () => {
  const { point } = window(100, 40)
  const at = (load: LoadPoint['load'], offeredRps: number) => ({ ...point, load, offeredRps })
  const open = { kind: 'open', rateRps: 1, durationS: 1, seed: 1 } as const
  const points = [
    at({ ...open, arrivals: { kind: 'constant' } }, 70),
    at({ kind: 'closed', connections: 1, durationS: 1 }, 10),
    at({ ...open, arrivals: { kind: 'sweep', fromRps: 1, toRps: 2 } }, 20),
    at({ ...open, arrivals: { kind: 'gamma', cv: 2 } }, 30),
  ]
  expect(judgeWindows({ ...measured(200, 5), points }, slo).map(({ rateRps }) => rateRps)).toEqual([
    70, 30,
  ])
})

test('the highest rate that a window proved by itself counts below all that missed it', () => {
  const at = (rateRps: number, met: boolean | undefined, proven = met === true) =>
    ({ rateRps, met, proven, sloMs: 20, sloCi95Ms: [19, 21], seconds: 1 }) as const
  expect(findProvenRps([])).toBeUndefined()
  expect(findProvenRps([at(100, true, false), at(90, undefined)])).toBeUndefined()
  expect(findProvenRps([at(100, true), at(200, true), at(300, true, false)])).toBe(200)
  expect(findProvenRps([at(100, true), at(200, true), at(150, false)])).toBe(100)
})
