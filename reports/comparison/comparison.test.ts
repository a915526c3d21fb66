import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { recommend } from '../recommendation/recommend.ts'
import { type RecommendationDocument, toDocument } from '../report/recommendation-json.ts'
import { sampleInput } from '../samples.contract.ts'
import { type Check, runChecks } from './build-checks.ts'
import { formatAnnotations, formatJunitXml, formatSummary } from './build-output.ts'
import {
  changeText,
  computeChange,
  decideChange,
  formatBestCost,
  listDifferentConditions,
  listDifferentQuestions,
} from './comparison.ts'

const sample = toDocument(recommend(sampleInput))

/** The sample with another capacity and interval, at $1 an hour. */
const serving = (
  capacityRps: number,
  low: number | null,
  high: number | null,
  changes: object = {},
): RecommendationDocument => ({
  ...sample,
  objective: { kind: 'price-per-request' },
  best: {
    ...sample.best!,
    pricePerHour: 1,
    capacityRps,
    estimateRps: undefined,
    capacityCi90Rps: [low, high],
  },
  ...changes,
})

describe('how much more expensive it became', () => {
  test('half the capacity at the same price is 100 % more expensive; intervals add as independent errors', () => {
    const { worse, interval90 } = computeChange(
      serving(200, 180, 220),
      serving(100, 95, 110),
      'measured',
    )!
    expect(worse).toBeCloseTo(1, 9)
    // By hand: ln 2 with sqrt(ln(1.1)^2 + ln(1.1)^2) below, sqrt(ln(100/95)^2 + ln(220/200)^2)
    // above.
    expect(interval90[0]).toBeCloseTo(
      2 * Math.exp(-Math.hypot(Math.log(1.1), Math.log(200 / 180))) - 1,
      9,
    )
    expect(interval90[1]).toBeCloseTo(
      2 * Math.exp(Math.hypot(Math.log(100 / 95), Math.log(1.1))) - 1,
      9,
    )
  })

  test('the interval holds the change; the same twice is no change; the other way round is the inverse', () => {
    const half = fc.double({ min: 1, max: 1.5, noNaN: true })
    const side = fc
      .tuple(fc.double({ min: 1, max: 1e5, noNaN: true }), half, half)
      .map(([at, down, up]) => serving(at, at / down, at * up))
    fc.assert(
      fc.property(side, side, (a, b) => {
        const there = computeChange(a, b, 'measured')!
        const back = computeChange(b, a, 'measured')!
        expect(there.interval90[0]).toBeLessThanOrEqual(there.worse + 1e-9)
        expect(there.interval90[1]).toBeGreaterThanOrEqual(there.worse - 1e-9)
        expect((1 + there.worse) * (1 + back.worse)).toBeCloseTo(1, 6)
        expect((1 + there.interval90[1]) * (1 + back.interval90[0])).toBeCloseTo(1, 6)
        expect(computeChange(a, a, 'measured')!.worse).toBeCloseTo(0, 9)
      }),
    )
  })

  test('of a rate that is to be high, less is worse', () => {
    const most = { objective: { kind: 'max-rate', maxPricePerHour: 5 } as const }
    expect(
      computeChange(serving(200, 200, 200, most), serving(160, 160, 160, most), 'measured')?.worse,
    ).toBeCloseTo(0.25, 9)
  })

  test('an estimate is compared at its safe capacity, its interval discounted alike', () => {
    const once = serving(90, 80, 110)
    const estimated = { ...once, best: { ...once.best!, estimateRps: 100 } }
    expect(computeChange(serving(90, 72, 99), estimated, 'measured')).toEqual(
      computeChange(serving(90, 72, 99), serving(90, 72, 99), 'measured'),
    )
  })

  test('an interval without an end leaves everything open on its side', () => {
    const change = computeChange(serving(100, 90, 110), serving(90, null, null), 'measured')!
    expect(change.interval90).toEqual([-1, Number.POSITIVE_INFINITY])
    expect(decideChange(change, 0.05)).toBe('undecided')
  })

  test('a rate that is proven twice was kept, whatever lies beyond it; what is less than promised was not', () => {
    const proven = serving(1000, 1000, 1130)
    expect(decideChange(computeChange(proven, proven, 'promised')!, 0.05)).toBe('within-limit')
    expect(decideChange(computeChange(proven, proven, 'measured')!, 0.05)).toBe('undecided')
    expect(decideChange(computeChange(proven, serving(900, 900, 1020), 'promised')!, 0.05)).toBe(
      'undecided',
    )
    expect(decideChange(computeChange(proven, serving(800, 800, 900), 'promised')!, 0.05)).toBe(
      'regressed',
    )
  })

  test('where nothing is recommended there is no change', () => {
    const { best: _, ...none } = sample
    expect(computeChange(none, sample, 'measured')).toBeUndefined()
    expect(computeChange(sample, none, 'measured')).toBeUndefined()
    expect(formatBestCost(none)).toBeUndefined()
  })
})

test.each([
  [[0.06, 0.1], 'regressed'],
  [[0.04, 0.1], 'undecided'],
  [[0.05, 0.1], 'undecided'],
  [[-0.1, 0.05], 'within-limit'],
  [[-0.1, 0.051], 'undecided'],
] as const)('an interval of %j beside 5 %% is %s', (interval90, decision) => {
  expect(decideChange({ worse: 0, interval90 }, 0.05)).toBe(decision)
})

test('a change is told with its interval, in the words of the objective', () => {
  const price = serving(1, 1, 1)
  expect(changeText({ worse: 0.042, interval90: [-0.01, 0.09] }, price)).toBe(
    '4.2 % more expensive (90 %: 1 % cheaper to 9 % more expensive)',
  )
  expect(changeText({ worse: -0.2, interval90: [-0.2, -0.2] }, price)).toBe('20 % cheaper')
  expect(changeText({ worse: 0, interval90: [-1, Number.POSITIVE_INFINITY] }, price)).toContain(
    'to infinitely more expensive',
  )
})

describe('what is not alike', () => {
  test('another SLO or objective is another question, other seeds and prices are not', () => {
    expect(listDifferentQuestions(sample, { ...sample, seed: 9 })).toEqual([])
    expect(
      listDifferentQuestions(sample, { ...sample, slo: { ...sample.slo, limitMs: 51 } }),
    ).toEqual(['the SLO: p99 <= 50 ms, now p99 <= 51 ms'])
    const demand = (demandRps: number) => ({
      ...sample,
      objective: { kind: 'price-for-demand', demandRps, headroom: 0.2 } as const,
    })
    expect(listDifferentQuestions(demand(10), demand(20))).toHaveLength(1)
    expect(listDifferentQuestions(demand(10), demand(10))).toEqual([])
  })

  test('another server, engine or way of measuring may be the reason', () => {
    const measuredWith = {
      how: 'measured',
      server: 'triton',
      model: 'bert',
      protocol: 'oip-v2',
      modelKind: 'encoder',
      weights: 'own',
    } as const
    const a = { ...sample, measuredWith }
    expect(listDifferentConditions(a, { ...a, seed: 3 })).toEqual([])
    expect(
      listDifferentConditions(a, {
        ...a,
        provenance: 'simulated',
        measuredWith: { ...measuredWith, server: 'tfserving' },
      }),
    ).toEqual([`figures: ${a.provenance}, now simulated`, 'server: triton, now tfserving'])
  })
})

describe('the checks of a build', () => {
  const stateOf = (checks: readonly Check[]) =>
    Object.fromEntries(checks.map(({ name, state }) => [name, state]))
  const confirmed = { conclusion: 'confirmed' } as const
  const baseline = serving(1000, 990, 1010, confirmed)

  test.each([
    [
      'as cheap, confirmed',
      serving(1000, 990, 1010, confirmed),
      { slo: 'passed', confirmed: 'passed', regression: 'passed' },
    ],
    [
      'a fifth more expensive',
      serving(800, 790, 810, confirmed),
      { slo: 'passed', confirmed: 'passed', regression: 'failed' },
    ],
    [
      'more expensive within the intervals',
      serving(930, 800, 1050, confirmed),
      { slo: 'passed', confirmed: 'passed', regression: 'undecided' },
    ],
    [
      'not confirmed',
      serving(1000, 990, 1010, { conclusion: 'unconfirmed' }),
      { slo: 'passed', confirmed: 'failed', regression: 'passed' },
    ],
    [
      'simulated',
      serving(1000, 990, 1010, { conclusion: 'simulated' }),
      { slo: 'passed', confirmed: 'undecided', regression: 'passed' },
    ],
  ] as const)('%s', (_, now, states) =>
    expect(stateOf(runChecks(baseline, now, 0.05))).toEqual(states),
  )

  test('where nothing keeps the SLO, that is the one failure; where the baseline had nothing, nothing is decided', () => {
    const { best: _, ...none } = serving(1000, 990, 1010, {
      verdict: 'No configuration meets p99 <= 50 ms',
    })
    expect(runChecks(baseline, none, 0.05)).toEqual([
      { name: 'slo', state: 'failed', message: 'No configuration meets p99 <= 50 ms' },
    ])
    expect(stateOf(runChecks(none, baseline, 0.05)).regression).toBe('undecided')
  })
})

describe('for build servers', () => {
  const checks: Check[] = [
    { name: 'slo', state: 'passed', message: 'keeps "p99 <= 50 ms" & more' },
    { name: 'confirmed', state: 'undecided', message: 'nothing\nis % measured' },
    { name: 'regression', state: 'failed', message: '<b>20 %</b> dearer | than\u0000 before' },
  ]

  test('JUnit counts them and holds no text as markup', () => {
    expect(formatJunitXml('a<b', checks)).toBe(`<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="a&#60;b" tests="3" failures="1" errors="0" skipped="1">
  <testcase classname="a&#60;b" name="slo"><system-out>keeps &#34;p99 &#60;= 50 ms&#34; &#38; more</system-out></testcase>
  <testcase classname="a&#60;b" name="confirmed"><skipped message="nothing\nis % measured"/></testcase>
  <testcase classname="a&#60;b" name="regression"><failure message="&#60;b&#62;20 %&#60;/b&#62; dearer | than  before"/></testcase>
</testsuite>
`)
  })

  test('GitHub gets a line for each, whatever is in it', () => {
    expect(formatAnnotations('a: b, c', checks)).toEqual([
      '::notice title=tune a%3A b%2C c%3A slo::keeps "p99 <= 50 ms" & more',
      '::warning title=tune a%3A b%2C c%3A confirmed::nothing%0Ais %25 measured',
      '::error title=tune a%3A b%2C c%3A regression::<b>20 %25</b> dearer | than\u0000 before',
    ])
  })

  test('a table of Markdown keeps its rows', () => {
    expect(formatSummary('bert', checks).split('\n').slice(4, 7)).toEqual([
      '| slo | passed | keeps "p99 \\<= 50 ms" &amp; more |',
      '| confirmed | undecided | nothing is % measured |',
      '| regression | failed | \\<b\\>20 %\\</b\\> dearer \\| than  before |',
    ])
  })
})
