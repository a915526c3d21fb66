/**
 * What single windows teach the evidence of a search; what whole searches make of it is in
 * evidence.test.ts.
 */
import { describe, expect, test } from 'vitest'
import { summariseRun } from '../../load/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { Slo } from '../../model/slo.ts'
import { runOf } from '../../testing/scripted-generator.ts'
import { AgreedDiscipline } from './agreed-discipline.ts'
import { Evidence } from './evidence.ts'

const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
const unloadedMs = 5

/** A window of requests at even distances, each as long as `ms` says of it. */
function windowOf(
  rateRps: number,
  ms: number | ((i: number) => number),
  more: Partial<LoadRun> = {},
  n = 1000,
): LoadRun {
  const load = {
    kind: 'open',
    rateRps,
    arrivals: { kind: 'constant' },
    durationS: n / rateRps,
    seed: 1,
  } as const
  return runOf(
    load,
    Array.from({ length: n }, (_, i) => (typeof ms === 'number' ? ms : ms(i))),
    more,
  )
}
/** One in twenty takes 60 ms. */
const slow = (i: number) => (i % 20 === 10 ? 60 : 5)
const failing = (i: number) => (i % 20 === 10 ? Number.NaN : 5)
/** At 100 a second: who is sent between 2 s and 2.1 s waits until 2.105 s. */
const outageWindow = (i: number) => (i >= 200 && i < 210 ? 105 - 10 * (i - 200) : 5)
const add = (evidence: Evidence, run: LoadRun, steady = true) =>
  evidence.add(run, summariseRun(run, slo), steady)
const workersInOrder = (workers: number) => ({ workers, maxBatch: 1, maxDelayMs: 0, overheadMs: 0 })
const evidence = (of = slo) => new Evidence(of, new AgreedDiscipline(unloadedMs))
/** What the windows showed, in one object. */
const observe = ({ rates, offered, speed, screen, windows }: Evidence) => ({
  ...rates,
  ...offered,
  ...speed,
  isDisturbed: screen.isDisturbed,
  windows,
})

describe('a steady window', () => {
  test('that met the SLO raises the served, met and error-free rates', () => {
    const seen = evidence()
    expect(add(seen, windowOf(100, 5))).toBe('counts')
    expect(observe(seen)).toMatchObject({
      servedRps: 100,
      metRps: 100,
      ciMetRps: 100,
      errorFreeRps: 100,
    })
    expect(observe(seen)).toMatchObject({
      violatedRps: Number.POSITIVE_INFINITY,
      failingRps: Number.POSITIVE_INFINITY,
      lastGain: 1,
      isDisturbed: false,
    })
    // The p99 of 320 requests has no upper end.
    add(seen, windowOf(160, 5, {}, 320))
    expect(observe(seen)).toMatchObject({
      servedRps: 160,
      metRps: 160,
      ciMetRps: 100,
      errorFreeRps: 160,
    })
    add(seen, windowOf(80, 5))
    expect(observe(seen)).toMatchObject({
      servedRps: 160,
      metRps: 160,
      ciMetRps: 100,
      errorFreeRps: 160,
    })
    expect(seen.windows).toHaveLength(3)
  })

  test('that met the SLO counts as long with 100 requests, and as short with 20 over four limits', () => {
    const keptBy = (n: number, rateRps = 40) => {
      const seen = evidence()
      add(seen, windowOf(rateRps, 5, {}, n))
      return [seen.windowRates.longWindowMetRps, seen.windowRates.shortWindowMetRps]
    }
    expect([keptBy(100), keptBy(99), keptBy(20), keptBy(19)]).toEqual([
      [40, 40],
      [0, 40],
      [0, 40],
      [0, 0],
    ])
    // 198 ms of 50.
    expect([keptBy(40, 200), keptBy(39, 200)]).toEqual([
      [0, 200],
      [0, 0],
    ])
  })

  test('that violated the SLO lowers the violated rate and raises the served rate', () => {
    const seen = evidence()
    for (const [rateRps, violatedRps] of [
      [200, 200],
      [125, 125],
      [160, 125],
    ] as const) {
      add(seen, windowOf(rateRps, slow))
      expect(seen.rates.violatedRps).toBe(violatedRps)
    }
    expect(observe(seen)).toMatchObject({ servedRps: 200, metRps: 0, errorFreeRps: 200 })
  })

  test('that refused requests lowers the failing rate; timeouts count as slow instead', () => {
    const seen = evidence()
    add(seen, windowOf(200, failing, { errorKinds: { 'status 503': 50 } }))
    expect(observe(seen)).toMatchObject({
      failingRps: 200,
      errorFreeRps: 0,
      violatedRps: 200,
      metRps: 0,
      servedRps: 190,
    })
    add(seen, windowOf(160, failing, { errorKinds: { timeout: 50 } }))
    expect(observe(seen)).toMatchObject({ failingRps: 200, errorFreeRps: 160, violatedRps: 160 })
    add(seen, windowOf(125, failing, { errorKinds: { timeout: 20, reset: 30 } }))
    expect(observe(seen)).toMatchObject({ failingRps: 125, violatedRps: 125 })
    add(seen, windowOf(250, failing, { errorKinds: { reset: 50 } }))
    expect(seen.rates.failingRps).toBe(125)
  })

  test('that was cut short violated the SLO', () => {
    const seen = evidence()
    add(seen, windowOf(100, 5, { cutMs: 10_000 }))
    expect(observe(seen)).toMatchObject({
      metRps: 0,
      errorFreeRps: 0,
      violatedRps: 100,
      servedRps: 100,
    })
  })
})

test('a sweep contributes its service log, but bounds no rate', () => {
  const seen = evidence()
  expect(add(seen, windowOf(100, slow), false)).toBe('counts')
  expect(observe(seen)).toMatchObject({
    servedRps: 0,
    metRps: 0,
    errorFreeRps: 0,
    violatedRps: Number.POSITIVE_INFINITY,
  })
  expect(seen.windows).toHaveLength(1)
})

test('answers within 15 % of the unloaded latency are one batch', () => {
  const departedBy = (apartMs: number) => {
    const seen = evidence()
    // Every 5 ms one is sent, and every second one is answered so long after the one before it.
    add(
      seen,
      windowOf(200, (i) => (i % 2 === 0 ? 10 : 5 + apartMs)),
    )
    return [...new Set(seen.windows[0]!.log.departed)]
  }
  expect([departedBy(0.7), departedBy(0.8)]).toEqual([[2], [1]])
})

test('after an unsustained window, the generator is limited to 70 % of the sent rate', () => {
  const seen = evidence()
  expect(add(seen, windowOf(100, 5, { planned: 1031 }))).toBe('counts')
  expect(seen.offered.maxGeneratorRps).toBeCloseTo(70, 9)
  expect(observe(seen)).toMatchObject({ metRps: 0, servedRps: 0, windows: [] })
  add(seen, windowOf(80, 5, { generatorCores: 0.96 }))
  expect(seen.offered.maxGeneratorRps).toBeCloseTo(56, 9)
  add(seen, windowOf(200, 5, { generatorCores: 0.96 }))
  expect(seen.offered.maxGeneratorRps).toBeCloseTo(56, 9)
  add(seen, windowOf(100, 5, { planned: 1030, generatorCores: 0.95 }))
  expect(seen.windows).toHaveLength(1)
})

test('late sends count as later arrivals', () => {
  const seen = evidence()
  add(seen, windowOf(100, 8, { lateMs: new Float64Array(1000).fill(3) }))
  const { run } = seen.windows[0]!
  expect([run.sentMs[0], run.sentMs[100], run.latencyMs[0]]).toEqual([3, 1003, 5])
})

describe('a window with host interference', () => {
  const waited = { machineWait: { server: 0.5 } }

  test('that met the SLO in spite of it bounds the rate, but enters no service log', () => {
    const seen = evidence()
    add(seen, windowOf(100, 5))
    for (let i = 0; i < 8; i++) expect(add(seen, windowOf(125, 20, waited))).toBe('counts')
    expect(observe(seen)).toMatchObject({
      isDisturbed: false,
      metRps: 125,
      violatedRps: Number.POSITIVE_INFINITY,
      relativeSpeed: 1,
    })
    expect(seen.windows).toHaveLength(1)
    // A sweep has no rate to hold, and one that was cut or stalled has none that it held.
    expect([
      add(seen, windowOf(200, 5, waited), false),
      add(seen, windowOf(200, 5, { ...waited, cutMs: 900 })),
    ]).toEqual(['repeat', 'repeat'])
    const hasOutages = { generatorPausesMs: Float64Array.of(1000, 2670) }
    expect([
      add(evidence(), windowOf(100, 5, hasOutages)),
      add(evidence(), windowOf(100, slow, hasOutages)),
    ]).toEqual(['counts', 'repeat'])
    expect(seen.rates.metRps).toBe(125)
  })

  test('is repeated three times in a row; then the windows count as disturbed', () => {
    const seen = evidence()
    const invalidWindows = windowOf(100, slow, waited)
    for (const disturbed of [false, false, false, true, true]) {
      expect(add(seen, invalidWindows)).toBe('repeat')
      expect(seen.screen.isDisturbed).toBe(disturbed)
    }
    expect(observe(seen)).toMatchObject({ metRps: 0, windows: [] })
    add(seen, windowOf(100, 5))
    expect(observe(seen)).toMatchObject({ isDisturbed: false, metRps: 100 })
  })

  test('is repeated six times in total', () => {
    const seen = evidence()
    const invalidWindows = windowOf(100, slow, waited)
    for (const each of [3, 3]) {
      for (let i = 0; i < each; i++) add(seen, invalidWindows)
      expect(seen.screen.isDisturbed).toBe(false)
      expect(add(seen, windowOf(100, 5))).toBe('counts')
    }
    add(seen, invalidWindows)
    expect(seen.screen.isDisturbed).toBe(true)
  })

  test('is invalid from half of its time on, counting twice each pause for its queue', () => {
    const stalled = (ms: number) =>
      windowOf(100, slow, { generatorPausesMs: Float64Array.of(1000, 1000 + ms) })
    expect([add(evidence(), stalled(1660)), add(evidence(), stalled(1670))]).toEqual([
      'counts',
      'repeat',
    ])
  })

  test('loses the overlapping steps; a caveat reports it from 2 % of the time on', () => {
    const caveatsOf = (ms: number, of = slo, windows = 1) => {
      const seen = evidence(of)
      for (let i = 0; i < windows; i++)
        add(seen, windowOf(100, slow, { generatorPausesMs: Float64Array.of(1000, 1000 + ms) }))
      return seen.listCaveats()
    }
    expect([caveatsOf(66), caveatsOf(0)]).toEqual([[], []])
    expect(caveatsOf(68)).toEqual([
      'other work on this machine paused the load generator for 2 % of the time, which is left out',
    ])
    expect(caveatsOf(2000)[0]).toMatch(
      /for 60 % of the time, which is left out, and 1 window was repeated$/,
    )
    expect(caveatsOf(2000, slo, 2)[0]).toMatch(/2 windows were repeated$/)
    expect(caveatsOf(2000, slo, 7)[0]).toMatch(/6 windows were repeated$/)
    // Outages count from a tenth of the limit on, and from 10 ms.
    expect(caveatsOf(90, { ...slo, limitMs: 1000 })).toEqual([])
    expect(caveatsOf(110, { ...slo, limitMs: 1000 })).toHaveLength(1)
    const many = (ms: number) => {
      const seen = evidence()
      add(
        seen,
        windowOf(100, 5, {
          generatorPausesMs: Float64Array.from(
            { length: 40 },
            (_, i) => 100 * i + (i % 2) * (ms - 100),
          ),
        }),
      )
      return seen.listCaveats().length
    }
    expect([many(9), many(11)]).toEqual([0, 1])
    const seen = evidence()
    add(seen, windowOf(100, 5, { generatorPausesMs: Float64Array.of(1000, 1100) }))
    const { log } = seen.windows[0]!
    expect(log.endedMs.filter((ms) => ms >= 1000 && ms <= 1300)).toEqual([])
    expect(log.endedMs).toHaveLength(1000 - 31)
  })
})

describe('an outage longer than the limit', () => {
  test('is set aside with a caveat while it is the only one', () => {
    const seen = evidence()
    expect(add(seen, windowOf(100, outageWindow))).toBe('repeat')
    expect(observe(seen)).toMatchObject({
      windows: [],
      metRps: 0,
      violatedRps: Number.POSITIVE_INFINITY,
    })
    expect(add(seen, windowOf(100, 5))).toBe('counts')
    expect(seen.windows).toHaveLength(1)
    expect(seen.listCaveats()).toEqual([
      'the server answered nothing for 105 ms of a window at 100 req/s (the load generator kept running: the server had an outage, or waited); this outage did not recur in later windows and is left out',
    ])
  })

  test('may coincide with host interference, which the caveat says', () => {
    const seen = evidence()
    add(seen, windowOf(100, outageWindow, { generatorPausesMs: Float64Array.of(2000, 2020) }))
    expect(seen.listCaveats()[0]).toMatch(
      /other work on this machine paused the load generator meanwhile/,
    )
  })

  test('counts once a second outage occurs, or with two in one window', () => {
    const seen = evidence()
    add(seen, windowOf(100, outageWindow))
    add(seen, windowOf(100, 5))
    expect(add(seen, windowOf(90, outageWindow))).toBe('counts')
    expect(seen.windows.map(({ run }) => Math.round(run.latencyMs.length / run.seconds))).toEqual([
      100, 100, 90,
    ])
    expect(seen.listCaveats()).toEqual([])
    expect(add(seen, windowOf(95, outageWindow))).toBe('counts')
    expect(seen.windows).toHaveLength(4)
    const twice = evidence()
    expect(
      add(
        twice,
        windowOf(100, (i) => outageWindow(i >= 500 ? i - 500 : i)),
      ),
    ).toBe('counts')
    expect(twice.windows).toHaveLength(1)
  })
})

test('a discipline is kept while two estimates in a row agree on its workers', () => {
  const agreed = new AgreedDiscipline(unloadedMs)
  const seen = new Evidence(slo, agreed)
  add(seen, windowOf(100, 4))
  const isKnown = (workers: number | undefined) => {
    agreed.record(workers === undefined ? undefined : workersInOrder(workers))
    return agreed.extractServices(seen.windows) !== undefined
  }
  expect([2, 2, 3, 3, undefined, 3].map(isKnown)).toEqual([true, true, false, true, true, true])
})

describe('a server that changed its speed', () => {
  const oneWorker = () => {
    const seen = evidence()
    seen.discipline.record(workersInOrder(1))
    return seen
  }

  test('upwards: earlier violations are dropped', () => {
    const seen = oneWorker()
    add(seen, windowOf(100, slow))
    expect(add(seen, windowOf(90, 4))).toBe('faster')
    expect(seen.speed.lastGain).toBeCloseTo(1.25, 9)
    expect(observe(seen)).toMatchObject({ violatedRps: Number.POSITIVE_INFINITY, metRps: 90 })
    expect(seen.windows).toHaveLength(1)
    add(seen, windowOf(100, 4))
    expect([seen.speed.lastGain, seen.windows.length]).toEqual([1, 2])
  })

  test('downwards: earlier windows and met rates are dropped', () => {
    const seen = oneWorker()
    add(seen, windowOf(200, 4))
    expect(add(seen, windowOf(90, 5))).toBe('slower')
    expect(observe(seen)).toMatchObject({
      relativeSpeed: expect.closeTo(0.8, 9),
      maySlowDown: false,
      metRps: 90,
      servedRps: 90,
      errorFreeRps: 90,
      ciMetRps: 90,
    })
    expect(seen.windows).toHaveLength(1)
    expect(seen.listCaveats()).toEqual([
      'the server slowed down during the measurement: earlier windows are left out',
    ])
    // As fast as at first again: what it is said to be is what it is.
    expect(add(seen, windowOf(90, 4))).toBe('faster')
    expect([seen.speed.relativeSpeed, seen.windows.length]).toEqual([expect.closeTo(1, 9), 1])
  })

  test('at the end of a window: another window has to confirm it', () => {
    const seen = oneWorker()
    add(seen, windowOf(100, 4))
    expect(
      add(
        seen,
        windowOf(100, (i) => (i < 600 ? 4 : 5)),
      ),
    ).toBe('counts')
    expect(observe(seen)).toMatchObject({ maySlowDown: true, relativeSpeed: 1 })
    expect(add(seen, windowOf(80, 5))).toBe('slower')
    expect(observe(seen)).toMatchObject({
      maySlowDown: false,
      relativeSpeed: expect.closeTo(0.8, 9),
      metRps: 80,
    })
    const back = oneWorker()
    add(back, windowOf(100, 4))
    add(
      back,
      windowOf(100, (i) => (i < 600 ? 4 : 5)),
    )
    add(back, windowOf(100, 4))
    expect([back.speed.maySlowDown, back.speed.relativeSpeed, back.windows.length]).toEqual([
      false,
      1,
      3,
    ])
  })

  test('while it refuses requests is not recognised', () => {
    const seen = oneWorker()
    add(seen, windowOf(100, 4))
    expect(
      add(
        seen,
        windowOf(90, (i) => (i % 20 === 10 ? Number.NaN : 5), { errorKinds: { 'status 429': 50 } }),
      ),
    ).toBe('counts')
    expect([seen.speed.relativeSpeed, seen.windows.length]).toEqual([1, 2])
  })
})
