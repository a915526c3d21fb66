import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { summariseRun } from '../load/load-point.ts'
import { Recorder } from '../load/recorder.ts'
import { selectQuantile } from '../statistics/percentile.ts'
import {
  areSameSlo,
  computeSloLatency,
  countMaxViolations,
  countsMeetSlo,
  exceedsErrorRate,
  judgeSloByInterval,
  meetsSlo,
  planEarlyCut,
  replaceLimit,
  resolveLimits,
  type Slo,
  selectLimits,
  sloAxis,
  sloFlag,
  sloLimit,
  sloName,
  sloText,
  sloValue,
  splitByClass,
} from './slo.ts'

const slo: Slo = {
  percentile: 0.5,
  limitMs: 200,
  maxErrorRate: 0.1,
  limits: [
    { metric: 'ttft', limitMs: 200 },
    { metric: 'tpot', limitMs: 30 },
    { metric: 'e2e', limitMs: 5000 },
  ],
}
const ms = fc.double({ min: 0.01, max: 1e5, noNaN: true })

test('a request is within the joint SLO exactly where it keeps every limit, however the limits are ordered', () => {
  fc.assert(
    fc.property(
      ms,
      ms,
      ms,
      fc.shuffledSubarray([...slo.limits!], { minLength: 2 }),
      (ttft, tpot, e2e, limits) => {
        const of = { ttft, tpot, e2e }
        const good = limits.every((limit) => of[limit.metric] <= limit.limitMs)
        expect(computeSloLatency(of, { limits }) <= limits[0]!.limitMs * (1 + 1e-12)).toBe(good)
      },
    ),
  )
})

test('one metric counts as it is, the whole answer where none is said', () => {
  const of = { ttft: 1, tpot: 2, e2e: 3 }
  expect([
    computeSloLatency(of, {}),
    computeSloLatency(of, { metric: 'ttft' }),
    computeSloLatency(of, { metric: 'tpot' }),
  ]).toEqual([3, 1, 2])
})

test('a run counts good requests, those that keep each limit, and failed ones against all', () => {
  const recorder = new Recorder()
  const answer = (firstTokenMs: number, perTokenMs: number, tokens: number) => {
    const lastTokenMs = firstTokenMs + perTokenMs * (tokens - 1)
    recorder.recordAnswer(recorder.addRequest(0), lastTokenMs + 1, {
      firstTokenMs,
      lastTokenMs,
      tokens,
      gapsMs: [],
    })
  }
  answer(100, 20, 11)
  answer(300, 20, 11)
  answer(100, 40, 11)
  recorder.recordFailure(recorder.addRequest(0), 'timeout')
  const load = {
    kind: 'open',
    rateRps: 4,
    arrivals: { kind: 'poisson' },
    durationS: 1,
    seed: 1,
  } as const
  const point = summariseRun(
    recorder.buildRun(load, { seconds: 1, elapsedS: 1, generatorCores: 0 }),
    slo,
  )
  expect(point.joint).toEqual({ good: 0.25, met: { ttft: 0.5, tpot: 0.5, e2e: 0.75 } })
  expect(point.goodputRps).toBe(1)
  // Half of four: the second smallest of the worst parts (2/3, 3/2, 4/3, infinite) in units of the
  // first limit.
  expect(point.sloMs).toBeCloseTo((200 * 4) / 3)
  expect(point.stream!.ttft.maxMs).toBe(300)
})

test('the time per token is of those from the first that was seen: thoughts that are counted and not told came before it', () => {
  const recorder = new Recorder()
  const stream = {
    firstTokenMs: 1000,
    lastTokenMs: 1100,
    tokens: 311,
    hiddenTokens: 300,
    gapsMs: new Array<number>(10).fill(10),
  }
  recorder.recordAnswer(recorder.addRequest(0), 1101, stream)
  const load = { kind: 'closed', connections: 1, durationS: 1 } as const
  const { stream: run } = recorder.buildRun(load, { seconds: 1, elapsedS: 1, generatorCores: 0 })
  expect([run!.latenciesMs.tpot![0], run!.tokens![0]]).toEqual([10, 311])
})

test('a window keeps the SLO by its percentile and its failures, of which chance explains a few', () => {
  const of = { ...slo, limits: undefined, percentile: 0.9, limitMs: 50, maxErrorRate: 0.001 }
  expect(meetsSlo({ requests: 1000, errors: 0, sloMs: 50 }, of)).toBe(true)
  expect(meetsSlo({ requests: 1000, errors: 0, sloMs: 50.001 }, of)).toBe(false)
  expect(meetsSlo({ requests: 30, errors: 1, sloMs: 40 }, of)).toBe(true)
  expect(meetsSlo({ requests: 1000, errors: 3, sloMs: 40 }, of)).toBe(true)
  expect(meetsSlo({ requests: 1000, errors: 7, sloMs: 40 }, of)).toBe(false)
  expect(meetsSlo({ requests: 0, errors: 0, sloMs: 40 }, of)).toBe(false)
  // P(Binomial(1000, 0.001) >= 4) = 0.0189, >= 5: 0.0036 (Python's decimal): once in a hundred
  // windows lies between.
  expect([4, 5].map((errors) => meetsSlo({ requests: 1000, errors, sloMs: 40 }, of))).toEqual([
    true,
    false,
  ])
})

test('as many requests may be over the limit as leave the percentile under it: the percentile itself is one of those that keep it', () => {
  const over = (percentile: number) =>
    [0, 1, 2, 10, 29, 30, 100].map((requests) => countMaxViolations({ percentile }, requests))
  expect(over(0.9)).toEqual([0, 0, 0, 1, 2, 3, 10])
  expect(over(0.5)).toEqual([0, 0, 1, 5, 14, 15, 50])
  // 0.99 of 700 is 693 but for rounding: seven may be over.
  expect([0.95, 0.99].map((percentile) => countMaxViolations({ percentile }, 700))).toEqual([35, 7])
  fc.assert(
    fc.property(
      fc.integer({ min: 2, max: 400 }),
      fc.constantFrom(0.5, 0.75, 0.9, 0.95, 0.99),
      (requests, percentile) => {
        const most = countMaxViolations({ percentile }, requests)
        const sloMs = (slow: number) =>
          selectQuantile(
            Float64Array.from({ length: requests }, (_, i) => (i < requests - slow ? 1 : 100)),
            percentile,
          )
        expect(sloMs(most)).toBe(1)
        expect(sloMs(most + 1)).toBe(100)
      },
    ),
  )
})

test('two SLOs are the same where percentile, limit, errors and latency are', () => {
  const one = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 } as const
  expect(areSameSlo(one, { ...one, metric: 'e2e' })).toBe(true)
  for (const other of [
    { percentile: 0.95 },
    { limitMs: 51 },
    { maxErrorRate: 0.01 },
    { metric: 'ttft' },
  ] as const) {
    expect([other, areSameSlo(one, { ...one, ...other })]).toEqual([other, false])
    expect([other, areSameSlo({ ...one, ...other }, one)]).toEqual([other, false])
  }
})

test('as many failures as are tolerated are never too many, and all of them always are', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5000 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (requests, maxErrorRate) => {
        expect(
          exceedsErrorRate(
            { requests, errors: Math.floor(maxErrorRate * requests) },
            { maxErrorRate },
          ),
        ).toBe(false)
        expect(exceedsErrorRate({ requests, errors: 0 }, { maxErrorRate })).toBe(false)
        if (maxErrorRate ** requests < 0.0099)
          expect(exceedsErrorRate({ requests, errors: requests }, { maxErrorRate })).toBe(true)
      },
    ),
  )
  expect(exceedsErrorRate({ requests: 8, errors: 8 }, { maxErrorRate: 1 })).toBe(false)
})

test('counts whose percentile keeps the limit miss the SLO by their failures', () => {
  const of = { ...slo, limits: undefined, percentile: 0.5, limitMs: 50, maxErrorRate: 0.001 }
  expect(
    [100, 1].map((errors) => countsMeetSlo({ requests: 1000, errors, violations: 200 }, of)),
  ).toEqual([false, true])
})

test('counts keep the SLO exactly where the percentile of the same requests does', () => {
  const of = { ...slo, limits: undefined, limitMs: 50, maxErrorRate: 1 }
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 400 }),
      fc.double({ min: 0, max: 1 }),
      fc.constantFrom(0.5, 0.9, 0.95, 0.99),
      (n, part, percentile) => {
        const over = Math.round(part * n)
        const ascending = Array.from({ length: n }, (_, i) => (i < n - over ? 40 : 60))
        const window = { requests: n, errors: 0, sloMs: selectQuantile(ascending, percentile) }
        expect(countsMeetSlo({ ...window, violations: over }, { ...of, percentile })).toBe(
          meetsSlo(window, { ...of, percentile }),
        )
      },
    ),
  )
})

test('an interval on one side of the limit is certain, one across it is not', () => {
  const of = { ...slo, limits: undefined, limitMs: 50, maxErrorRate: 0 }
  const window = (low: number, high: number, errors = 0) => ({
    requests: 100,
    errors,
    sloMs: 50,
    sloCi95Ms: [low, high] as const,
  })
  expect([
    judgeSloByInterval(window(40, 50), of),
    judgeSloByInterval(window(40, 60), of),
    judgeSloByInterval(window(51, 60), of),
  ]).toEqual([true, undefined, false])
  expect(judgeSloByInterval(window(40, 50, 1), of)).toBe(false)
  expect(judgeSloByInterval(window(50, 60), of)).toBeUndefined()
})

test('only an SLO on whole answers can cut a window short', () => {
  expect(planEarlyCut({ ...slo, limits: undefined }, 9)).toEqual({ overMs: 200, requests: 9 })
  expect(planEarlyCut({ ...slo, limits: undefined, metric: 'ttft' }, 9)).toBeUndefined()
  expect(planEarlyCut(slo, 9)).toBeUndefined()
})

test('a limit is written as it was asked for, a latency as short as it reads', () => {
  const single: Slo = { percentile: 0.99, limitMs: 12.5, maxErrorRate: 0 }
  expect([sloText(single), sloLimit(single), sloValue(single, 12.5)]).toEqual([
    'p99 <= 12.5 ms',
    '12.5 ms',
    '12.5 ms',
  ])
})

test('names say what a percentile is of', () => {
  expect(sloName({ percentile: 0.99, limitMs: 50, maxErrorRate: 0 })).toBe('p99')
  expect(sloName({ percentile: 0.999, limitMs: 50, maxErrorRate: 0, metric: 'ttft' })).toBe(
    'TTFT p99.9',
  )
  expect(sloName(slo)).toBe('p50 of TTFT and TPOT and E2E')
  expect(sloText({ ...slo, limits: slo.limits!.slice(0, 2) })).toBe(
    'TTFT <= 200 ms and TPOT <= 30 ms for 50 % of requests',
  )
  expect([sloValue(slo, 164), sloValue(slo, Number.POSITIVE_INFINITY)]).toEqual([
    '82 % of the limits',
    'no answer',
  ])
})

test('what an axis shows is named with its unit, of a joint SLO the part of its limits', () => {
  const single: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0 }
  expect(
    [single, { ...single, metric: 'ttft' } as const, slo].map((each) => sloAxis(each).latencyName),
  ).toEqual(['latency, ms', 'TTFT, ms', 'TTFT and TPOT and E2E, % of the limits'])
  expect(
    [single, { ...single, metric: 'tpot' } as const, slo].map((each) => sloAxis(each).name),
  ).toEqual([
    'p99 latency, ms',
    'TPOT p99 latency, ms',
    'p50 of TTFT and TPOT and E2E, % of the limits',
  ])
  expect(
    [single, slo].map((each) => [sloAxis(each).limit, sloAxis(each).of(each.limitMs / 2)]),
  ).toEqual([
    [50, 25],
    [100, 50],
  ])
})

test('a closed loop has done what came to its end in the window, whatever the SLO is about', () => {
  const recorder = new Recorder()
  for (const lastTokenMs of [400, 900, 1500])
    recorder.recordAnswer(recorder.addRequest(0), lastTokenMs, {
      firstTokenMs: 10,
      lastTokenMs,
      tokens: 2,
      gapsMs: [],
    })
  const load = { kind: 'closed', connections: 3, durationS: 1 } as const
  const ttft: Slo = { percentile: 0.9, limitMs: 50, maxErrorRate: 0.1, metric: 'ttft' }
  const point = summariseRun(
    recorder.buildRun(load, { seconds: 1, elapsedS: 1.5, generatorCores: 0 }),
    ttft,
  )
  expect([point.achievedRps, point.goodputRps, point.requests]).toEqual([2, 2, 3])
})

test.each([
  [50, 50.3, '50.3 ms'],
  [50, 49.7, '50 ms'],
  [50, 50, '50 ms'],
  [30, 30.04, '30.04 ms'],
  [5, 5.02, '5.02 ms'],
  [50, 65.4, '65 ms'],
  [50, 50.0002, '50.000 ms'],
])('what is over a limit of %d ms reads so: %d ms as %s', (limitMs, ms, text) => {
  expect(sloValue({ percentile: 0.99, limitMs, maxErrorRate: 0 }, ms)).toBe(text)
})

test('a joint SLO that is missed by little does not read 100 %', () => {
  const limits = [
    { metric: 'ttft', limitMs: 200 } as const,
    { metric: 'tpot', limitMs: 30 } as const,
  ]
  expect(sloValue({ percentile: 0.99, limitMs: 200, maxErrorRate: 0, limits }, 200.6)).toBe(
    '100.3 % of the limits',
  )
})

describe('classes of requests', () => {
  const own: Slo = {
    percentile: 0.9,
    limitMs: 300,
    maxErrorRate: 0.01,
    limits: [
      { metric: 'ttft', limitMs: 300, requestClass: 'chat' },
      { metric: 'tpot', limitMs: 30, requestClass: 'chat' },
      { metric: 'ttft', limitMs: 2000 },
    ],
    classes: ['chat', 'summary', 'batch'],
  }
  const shared: Slo = {
    percentile: 0.9,
    limitMs: 300,
    maxErrorRate: 0.01,
    metric: 'ttft',
    classes: ['chat', 'summary'],
  }

  test('have their own limits, else those of no class; one whose class is not known has all', () => {
    const of = (name?: string) => selectLimits(own.limits!, name).map(({ limitMs }) => limitMs)
    expect([of('chat'), of('summary'), of()]).toEqual([[300, 30], [2000], [300, 30, 2000]])
    const late = { ttft: 600, tpot: 10, e2e: 2000 }
    expect(['chat', 'summary'].map((name) => computeSloLatency(late, own, name))).toEqual([600, 90])
    expect(computeSloLatency({ ...late, ttft: 3000 }, own, 'summary')).toBe(450)
  })

  test('keep the percentile by themselves: the worst of them is what a window comes to', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            ttft: ms,
            tpot: ms,
            of: fc.constantFrom('chat', 'summary', 'batch'),
            fails: fc.boolean(),
          }),
          {
            minLength: 1,
            maxLength: 80,
          },
        ),
        (requests) => {
          const recorder = new Recorder()
          for (const { ttft, tpot, of, fails } of [
            { ttft: 1, tpot: 1, of: 'batch', fails: false },
            ...requests,
          ]) {
            const index = recorder.addRequest(0)
            recorder.setClass(index, of)
            const lastTokenMs = ttft + tpot
            if (fails) recorder.recordFailure(index, 'timeout')
            else
              recorder.recordAnswer(index, lastTokenMs, {
                firstTokenMs: ttft,
                lastTokenMs,
                tokens: 2,
                gapsMs: [],
              })
          }
          const load = {
            kind: 'open',
            rateRps: 4,
            arrivals: { kind: 'poisson' },
            durationS: 1,
            seed: 1,
          } as const
          const point = summariseRun(
            recorder.buildRun(load, { seconds: 1, elapsedS: 1, generatorCores: 0 }),
            own,
          )
          const all = [{ ttft: 1, tpot: 1, of: 'batch', fails: false }, ...requests]
          const good = ({ ttft, tpot, of, fails }: (typeof all)[number]) =>
            // The time per token is the difference of two times.
            !fails && (of === 'chat' ? ttft <= 300 && ttft + tpot - ttft <= 30 : ttft <= 2000)
          const keepsEach = ['chat', 'summary', 'batch'].every((name) => {
            const own = all.filter(({ of }) => of === name)
            return (
              own.length - own.filter(good).length <=
              countMaxViolations({ percentile: 0.9 }, own.length)
            )
          })
          expect(point.sloMs <= 300 * (1 + 1e-12)).toBe(keepsEach)
          expect(point.joint!.good).toBeCloseTo(all.filter(good).length / all.length, 12)
          for (const [name, { good: share, errors }] of Object.entries(point.stream!.classes!)) {
            const own = all.filter(({ of }) => of === name)
            expect(share).toBeCloseTo(own.filter(good).length / own.length, 12)
            expect(errors).toBe(own.filter(({ fails }) => fails).length)
          }
        },
      ),
    )
  })

  test('one that was never sent is of no class, and counts to each; without classes all are one', () => {
    const run = {
      sentMs: Float64Array.of(0, 1, 2),
      latencyMs: Float64Array.of(5, 6, Number.NaN),
      stream: {
        latenciesMs: {
          ttft: Float64Array.of(5, 6, 0),
          tpot: Float64Array.of(5, 6, 0),
          e2e: Float64Array.of(5, 6, 0),
        },
        tokens: Float64Array.of(1, 1, 0),
        gapsMs: Float64Array.of(),
        classes: ['chat', 'batch', undefined],
      },
    }
    const groups = (slo: Pick<Slo, 'classes'>) =>
      splitByClass(run, slo).map(({ requestClass, sentMs }) => [requestClass, ...sentMs])
    expect(groups(own)).toEqual([
      ['chat', 0, 2],
      ['batch', 1, 2],
    ])
    expect(groups({})).toEqual([[undefined, 0, 1, 2]])
    expect(groups({ classes: ['other'] })).toEqual([[undefined, 0, 1, 2]])
  })

  test('make another SLO: of the same requests apart, and of no early end', () => {
    const { classes: _, ...together } = shared
    expect([areSameSlo(shared, together), areSameSlo(shared, { ...shared })]).toEqual([false, true])
    expect(
      planEarlyCut({ percentile: 0.9, limitMs: 9, maxErrorRate: 0, classes: ['a'] }, 3),
    ).toBeUndefined()
  })

  test('are named with their limits', () => {
    expect([own, shared].map(sloName)).toEqual(['p90 of each class', 'TTFT p90 of each class'])
    expect(sloText(own)).toBe(
      'chat: TTFT <= 300 ms and TPOT <= 30 ms, summary: TTFT <= 2000 ms, batch: TTFT <= 2000 ms, each for 90 % of its requests',
    )
    expect(sloText(shared)).toBe('TTFT p90 of each class <= 300 ms')
    expect(sloText({ ...slo, limits: slo.limits!.slice(0, 2), classes: ['a'] })).toMatch(
      /for 50 % of requests of each class$/,
    )
    // The command line knows no classes.
    expect(sloFlag(own)).toBe('p90 ttft<300ms tpot<30ms')
    expect(sloAxis(own).latencyName).toBe('TTFT and TPOT, % of the limits')
  })

  test('one of their limits moves alone', () => {
    const moved = replaceLimit(own, 2, 500)
    expect(
      resolveLimits(moved).map(({ limitMs, requestClass }) => [limitMs, requestClass]),
    ).toEqual([
      [300, 'chat'],
      [30, 'chat'],
      [500, undefined],
    ])
  })
})
