import { describe, expect, test } from 'vitest'
import { PauseDetector } from '../load/pause-detector.ts'
import type { LoadRun } from '../model/load-run.ts'
import { runOf } from '../testing/scripted-generator.ts'
import { findDisagreements } from './consistency-checks.ts'
import { findInterference, overlapsAny, sumSpansMs } from './host-interference.ts'
import { extractServiceLog } from './service-log/service-log.ts'

const run = (more: Partial<LoadRun>): LoadRun => ({
  load: { kind: 'open', rateRps: 100, durationS: 10, arrivals: { kind: 'poisson' }, seed: 1 },
  sentMs: Float64Array.from({ length: 1000 }, (_, i) => i * 10),
  latencyMs: new Float64Array(1000).fill(5),
  errorKinds: {},
  planned: 1000,
  latenessP99Ms: 0,
  seconds: 10,
  elapsedS: 10,
  generatorCores: 0.1,
  ...more,
})

test('a timer that fires late is an outage of the process', () => {
  const watch = new PauseDetector(10)
  for (const at of [10, 20.5, 31, 90, 100]) watch.tick(at)
  expect([...watch.listSpansMs()]).toEqual([41, 90])
})

test('outages count with twice their length after them, joined where they touch, short ones not', () => {
  const spans = findInterference(
    run({ generatorPausesMs: Float64Array.of(100, 120, 150, 180, 500, 505) }),
    10,
  )
  expect(spans).toEqual([[100, 240]])
  expect(sumSpansMs(spans)).toBe(140)
  expect([
    overlapsAny(spans, 0, 99),
    overlapsAny(spans, 90, 101),
    overlapsAny(spans, 150, 160),
    overlapsAny(spans, 241, 250),
  ]).toEqual([false, true, true, false])
  expect(findInterference(run({}), 10)).toEqual([])
  expect(
    findInterference(run({ generatorPausesMs: Float64Array.of(0, 10, 30, 45, 80, 90) }), 10),
  ).toEqual([
    [0, 75],
    [80, 110],
  ])
  expect([
    overlapsAny([[100, 240]], 50, 100),
    overlapsAny([[100, 240]], 240, 250),
    overlapsAny([], 0, 1e9),
  ]).toEqual([true, true, false])
})

test('outages while the server itself had the cores are its own doing', () => {
  const generatorPausesMs = Float64Array.of(100, 150, 300, 350)
  const stalled = (behindServerMs: number) =>
    findInterference(run({ generatorPausesMs, machineWait: { behindServerMs } }), 10)
  expect([stalled(100), stalled(99), stalled(0)].map((spans) => spans.length)).toEqual([0, 2, 2])
})

test('steps that met a disturbance are no steps of the server', () => {
  const latencyMs = new Float64Array(1000).fill(5)
  for (let i = 20; i <= 28; i++) latencyMs[i] = 290 - i * 10
  const disturbed = [[200, 290]] as const
  expect(Math.max(...extractServiceLog(run({ latencyMs }), 1).tookMs)).toBeGreaterThan(50)
  expect(Math.max(...extractServiceLog(run({ latencyMs }), 1, disturbed).tookMs)).toBeLessThan(20)
})

test('windows at one rate that differ beyond chance are said to disagree', () => {
  const slow = new Float64Array(1000).map((_, i) => (i % 4 === 0 ? 90 : 5))
  expect(findDisagreements([run({}), run({ latencyMs: slow })], 50).join()).toMatch(
    /disagree: 0\.0 % and then 25\.0 %/,
  )
  expect(findDisagreements([run({}), run({})], 50)).toEqual([])
  const otherRate = run({
    latencyMs: slow,
    load: { kind: 'open', rateRps: 150, durationS: 10, arrivals: { kind: 'poisson' }, seed: 1 },
  })
  expect(findDisagreements([run({}), otherRate], 50)).toEqual([])
})

describe('disagreement', () => {
  /** So many of so many requests are slow, at even distances. */
  const slowIn = (over: number, n = 1000, rateRps = 100, more: Partial<LoadRun> = {}) =>
    runOf(
      { kind: 'open', rateRps, durationS: n / rateRps, arrivals: { kind: 'poisson' }, seed: 1 },
      Array.from({ length: n }, (_, i) =>
        Math.floor(((i + 1) * over) / n) > Math.floor((i * over) / n) ? 90 : 5,
      ),
      more,
    )

  test('is significant at the false-alarm level: 3.29 standard errors of the share over the limit', () => {
    // Of 100 and 150 in 1,000 each: the pooled share 0.125, 3.29 errors sqrt(0.125 0.875 2 / 1000)
    // are 0.0487.
    expect(findDisagreements([slowIn(100), slowIn(150)], 50)).toEqual([
      'two windows at about 100 req/s disagree: 10.0 % and then 15.0 % of requests over the limit',
    ])
    expect(findDisagreements([slowIn(150), slowIn(100)], 50)).toHaveLength(1)
    expect(findDisagreements([slowIn(100), slowIn(140)], 50)).toEqual([])
    // Of 100 in 1,000 and 68 in 400: pooled 0.12, 3.29 errors sqrt(0.12 0.88 (1 / 1000 + 1 / 400)) are
    // 0.0632.
    expect(
      [
        findDisagreements([slowIn(100), slowIn(64, 400)], 50),
        findDisagreements([slowIn(100), slowIn(68, 400)], 50),
      ].map((of) => of.length),
    ).toEqual([0, 1])
    expect(findDisagreements([slowIn(0), slowIn(0)], 50)).toEqual([])
  })

  test('is between windows at rates no more than 5 % apart', () => {
    const at = (a: number, b: number) =>
      findDisagreements([slowIn(0, 1000, a), slowIn(400, 1000, b)], 50).length
    expect([at(100, 105), at(104, 100), at(100, 106), at(106, 100)]).toEqual([1, 1, 0, 0])
  })

  test('is told once, of steady open windows that were played to their end', () => {
    expect(findDisagreements([slowIn(0), slowIn(300), slowIn(600)], 50)).toEqual([
      expect.stringMatching(/0\.0 % and then 30\.0 %/),
    ])
    expect(findDisagreements([slowIn(0), slowIn(300, 1000, 100, { cutMs: 9000 })], 50)).toEqual([])
    const sweep = slowIn(300)
    const load = {
      ...sweep.load,
      arrivals: { kind: 'sweep', fromRps: 50, toRps: 150 },
    } as LoadRun['load']
    expect(findDisagreements([slowIn(0), { ...sweep, load }], 50)).toEqual([])
    expect(
      findDisagreements(
        [slowIn(0), { ...sweep, load: { kind: 'closed', connections: 4, durationS: 10 } }],
        50,
      ),
    ).toEqual([])
    expect(findDisagreements([slowIn(0), slowIn(0, 0)], 50)).toEqual([])
    expect(findDisagreements([slowIn(0, 1), slowIn(300)], 50)).toEqual([])
  })
})
