import { describe, expect, test } from 'vitest'
import type { Slo } from '../../profiler/model/slo.ts'
import type { Objective } from '../../search/types.ts'
import { slo } from '../samples.contract.ts'
import type { Status } from './status.ts'
import type { Candidate, Conclusion } from './types.ts'
import {
  composeVerdict,
  composeVerdictWithoutBest,
  composeVerdictWithoutResult,
  describeConfidence,
  explainWhyNot,
} from './verdict.ts'

const perRequest: Objective = { kind: 'price-per-request' }
const mostRate: Objective = { kind: 'max-rate', maxPricePerHour: 1 }
const candidate = (change: Partial<Candidate> = {}): Candidate => ({
  trial: 1,
  configuration: {},
  label: 'one',
  status: 'confirmed',
  capacityRps: 100,
  capacityCi90Rps: [97, 103],
  sloMsAtCapacity: 43,
  sloMsFrom: 'measured',
  unloadedMs: 8,
  pricePerHour: 0.36,
  pricePerMillionRequests: 1,
  cost: 1,
  feasible: true,
  ...change,
})
const joint: Slo = {
  ...slo,
  limits: [
    { metric: 'ttft', limitMs: 50 },
    { metric: 'tpot', limitMs: 10 },
  ],
}

describe('the verdict', () => {
  const said = (change: Partial<Candidate>, conclusion: Conclusion = 'confirmed', asked = slo) =>
    composeVerdict(candidate(change), conclusion, asked, perRequest, {})
  const figures = 'one: 100 req/s at p99 43 ms, $1.00 per million requests'

  test.each<[Conclusion, string]>([
    ['confirmed', figures],
    ['unconfirmed', `Best found, NOT confirmed: ${figures}`],
    ['not asked', `Best found, measured once as requested: ${figures}`],
    ['simulated', `Simulated, nothing measured: ${figures}`],
  ])('%s', (conclusion, text) => {
    expect(said({}, conclusion)).toBe(text)
  })

  test('how measurements of it disagree', () => {
    const variation = {
      found: ['the server ran at 0.71 to 1.00 times the speed of its first window'],
      windows: 7,
      spanS: 61.6,
      sloMs: [31, 47],
      speed: [0.71, 1],
    } as const
    expect(composeVerdict(candidate(), 'confirmed', slo, perRequest, { variation })).toBe(
      `${figures}; measurements of it disagree: the server ran at 0.71 to 1.00 times the speed of its first window; p99 was 31 ms to 47 ms in 7 windows over 62 s`,
    )
  })

  test.each<[Partial<Candidate>, string]>([
    [{ bound: 'lower' }, 'at least 100 req/s at p99 43 ms'],
    [{ bound: 'upper' }, 'at most 100 req/s at p99 43 ms'],
    [{ sloMsFrom: 'model' }, '100 req/s at p99 43 ms (estimated)'],
    [
      { bound: 'upper', capacityRps: 0, sloMsFrom: 'unloaded' },
      'below 103 req/s at p99 43 ms (unloaded)',
    ],
    [
      { missed: { rateRps: 120, sloMs: 65 } },
      'requests; violated the SLO at 120 req/s in its second load test (p99 65 ms)',
    ],
    [
      { missed: { rateRps: 120, sloMs: Infinity } },
      'violated the SLO at 120 req/s in its second load test (no answer)',
    ],
  ])('%j: %s', (change, text) => {
    expect(said(change)).toContain(text)
  })

  test('a joint SLO is met with parts of its limits, not at a latency', () => {
    expect(said({}, 'confirmed', joint)).toContain(
      '100 req/s with p99 of TTFT and TPOT at 86 % of the limits',
    )
  })
})

describe('the gain over the baseline', () => {
  const out = (capacityRps: number, status: Status): Partial<Candidate> => ({
    status,
    capacityRps,
    feasible: false,
    cost: Infinity,
  })
  const gain = (
    fallback: Partial<Candidate> | undefined,
    times?: number,
    objective: Objective = perRequest,
  ) =>
    composeVerdict(candidate(), 'confirmed', slo, objective, {
      candidate: fallback && candidate({ trial: 2, ...fallback }),
      gain: times,
    }).split(/requests, |per hour, /)[1]

  test.each<[string, Partial<Candidate> | undefined, number | undefined, string | undefined]>([
    ['none was measured', undefined, 2, undefined],
    ['it is the baseline', { trial: 1 }, 1, 'the baseline itself'],
    [
      'the baseline violated it in its second load test',
      { ...out(0, 'refuted'), missed: { rateRps: 250, sloMs: 163 } },
      undefined,
      'the baseline violated the SLO at 250 req/s, and lower rates were not tried',
    ],
    [
      'the baseline cannot serve',
      out(0, 'infeasible'),
      undefined,
      'the baseline does not meet the SLO',
    ],
    [
      'the baseline met it at no rate tried',
      out(0, 'bound'),
      undefined,
      'the baseline is not known to meet the SLO',
    ],
    [
      'the machine disturbed the baseline',
      out(0, 'inconclusive'),
      undefined,
      'the baseline was not measured',
    ],
    ['the baseline failed', out(0, 'failed'), undefined, 'the baseline was not measured'],
    [
      'imported without its percentile',
      { ...out(0, 'imported'), sloMsAtCapacity: Number.NaN },
      undefined,
      'the baseline was not measured',
    ],
    [
      'the baseline was pruned',
      { ...out(40, 'bound'), bound: 'upper' },
      undefined,
      'at least 60 % cheaper than the baseline',
    ],
    [
      'the baseline was stopped early, and may be better',
      { ...out(120, 'bound'), bound: 'upper' },
      undefined,
      'not compared with the baseline, which was stopped early',
    ],
    [
      'the baseline serves, and is not ranked',
      out(40, 'confirmed'),
      undefined,
      'the baseline is not ranked',
    ],
    ['it is not known', {}, undefined, undefined],
    ['a clear one', {}, 2.34, '57 % cheaper than the baseline'],
    ['a small one', {}, 1.01, '1 % cheaper than the baseline'],
    ['one that would read 0 %', {}, 1.004, 'no better than the baseline'],
  ])('%s', (_, fallback, times, text) => {
    expect(gain(fallback, times)).toBe(text)
  })

  test('in the words of the objective', () => {
    expect(gain({}, 2, mostRate)).toBe('2× the throughput of the baseline')
    const cut = { ...out(40, 'bound'), bound: 'upper', pricePerHour: 1.2 } as const
    expect(gain(cut, undefined, mostRate)).toBe('the baseline is over the price limit')
  })
})

describe('where nothing meets the SLO', () => {
  const none = (
    change: Partial<Candidate>,
    objective: Objective = perRequest,
    asked = slo,
    others: readonly Candidate[] = [],
  ) => {
    const nearest = candidate({
      status: 'infeasible',
      feasible: false,
      capacityRps: 0,
      sloMsFrom: 'unloaded',
      reason: 'because',
      ...change,
    })
    return composeVerdictWithoutBest(nearest, [nearest, ...others], asked, objective)
  }

  test('the nearest violates it when unloaded: by how much', () => {
    expect(none({ sloMsAtCapacity: 60 })).toBe(
      'No configuration meets p99 <= 50 ms: the nearest, one, takes 60 ms for one request at a time, 1.2× the limit',
    )
    expect(none({ sloMsAtCapacity: 60 }, perRequest, joint)).toBe(
      'No configuration meets TTFT <= 50 ms and TPOT <= 10 ms for 99 % of requests: the nearest, one, takes 120 % of the limits for one request at a time',
    )
  })

  test.each<Status>(['bound', 'refuted', 'inconclusive'])(
    'is not known where only some rates of another were tried (%s)',
    (status) => {
      const other = candidate({ trial: 2, status, feasible: false, capacityRps: 0 })
      expect(none({ sloMsAtCapacity: 60 }, perRequest, slo, [other])).toBe(
        'No configuration is known to meet p99 <= 50 ms: the nearest, one, takes 60 ms for one request at a time, 1.2× the limit',
      )
    },
  )

  test.each<[string, Partial<Candidate>]>([
    ['is not decided', { sloMsAtCapacity: 60, status: 'refuted' }],
    ['kept it when idle', { sloMsAtCapacity: 50 }],
    ['answered nothing', { sloMsAtCapacity: Infinity }],
    ['missed it under load', { sloMsAtCapacity: 60, sloMsFrom: 'model' }],
  ])('the nearest %s: its reason', (_, change) => {
    expect(none(change)).toBe(
      'No configuration is known to meet p99 <= 50 ms: the nearest, one, because',
    )
  })

  test('the nearest serves, at too high a price', () => {
    expect(none({ capacityRps: 100, pricePerHour: 1.5 }, mostRate)).toBe(
      'No configuration meets p99 <= 50 ms within $1.00 per hour: the nearest, one, costs $1.50',
    )
    expect(none({ capacityRps: 100, pricePerHour: 1 }, mostRate)).toContain('because')
    expect(none({ capacityRps: 0, pricePerHour: 1.5, sloMsAtCapacity: 20 }, mostRate)).toContain(
      'because',
    )
    expect(none({ capacityRps: 100, pricePerHour: 1.5 })).toContain('because')
  })

  test('none could serve', () => {
    expect(composeVerdictWithoutBest(undefined, [], slo, perRequest)).toBe(
      'No configuration meets p99 <= 50 ms: none of those tried could serve',
    )
  })

  test('nothing is known of any', () => {
    const failed = candidate({ reason: 'not measured: no port' })
    expect(composeVerdictWithoutResult([])).toBe('Nothing has been measured yet')
    expect(composeVerdictWithoutResult([failed])).toBe('Not measured: no port')
    expect(composeVerdictWithoutResult([failed, candidate()])).toBe(
      'None of the 2 configurations tried gave a result: one: not measured: no port',
    )
  })
})

describe('why another one was not chosen', () => {
  const best = candidate()
  const why = (change: Partial<Candidate>, objective: Objective = perRequest) =>
    explainWhyNot(candidate({ trial: 2, label: 'two', ...change }), best, objective)

  test.each<[string, Partial<Candidate>, string]>([
    [
      'more expensive',
      { cost: 1.12, capacityCi90Rps: [89, 90], capacityRps: 89.3 },
      '12 % more expensive',
    ],
    [
      'far more expensive',
      { cost: 3.14, capacityRps: 31.8, capacityCi90Rps: [31, 32] },
      '3.1× the cost',
    ],
    [
      'more expensive, perhaps',
      { cost: 1.03, capacityRps: 97, capacityCi90Rps: [94, 101] },
      '3 % more expensive, statistically tied',
    ],
    ['equal', { cost: 1.0004 }, 'equal'],
    ['equal, and smaller', { cost: 1, capacityRps: 99.9 }, 'equal, with a lower capacity'],
    ['no longer equal', { cost: 1.0006, capacityCi90Rps: [90, 91] }, '0.1 % more expensive'],
    [
      'cheaper, measured once',
      { status: 'measured', cost: 0.94, capacityRps: 106, estimateRps: 118 },
      '6 % cheaper, but not confirmed: statistically tied',
    ],
    [
      'cheaper, and refuted',
      { status: 'refuted', cost: 0.8, capacityRps: 125 },
      '20 % cheaper, but failed its confirmation',
    ],
    ['equal, measured once', { status: 'measured', cost: 0.9996, capacityRps: 100.04 }, 'equal'],
    ['cannot serve', { feasible: false, reason: 'out of memory' }, 'out of memory'],
    ['cannot be told', { feasible: false }, 'not chosen'],
  ])('%s', (_, change, text) => {
    expect(why(change)).toBe(text)
  })

  test('less of what is to be most', () => {
    const most = candidate({ cost: -100 })
    const less = candidate({ trial: 2, capacityRps: 80, capacityCi90Rps: [78, 82], cost: -80 })
    expect(explainWhyNot(less, most, mostRate)).toBe('20 % less throughput')
  })

  test('half a thousandth is equal, more is not', () => {
    expect(why({ cost: 1.0007, capacityCi90Rps: [90, 91] })).toBe('0.1 % more expensive')
    expect(why({ status: 'measured', cost: 0.9993, capacityRps: 100.07 })).toContain(
      '0.1 % cheaper',
    )
    expect(why({ ...cut(99.93) })).toContain('at least 0.1 % more expensive')
    expect(why({ ...cut(99.96) })).toContain('statistically tied')
  })

  const cut = (capacityRps: number): Partial<Candidate> => ({
    feasible: false,
    bound: 'upper',
    capacityRps,
    cost: Infinity,
    reason: `serves at most ${capacityRps} req/s`,
  })
  test('stopped early: at least so much more expensive, or statistically tied', () => {
    expect(why(cut(80))).toBe('at least 25 % more expensive: serves at most 80 req/s')
    expect(why(cut(100))).toBe('statistically tied: serves at most 100 req/s')
    expect(why(cut(200))).toBe('statistically tied: serves at most 200 req/s')
    expect(why(cut(0))).toBe('serves at most 0 req/s')
    const most = candidate({ cost: -100 })
    const of = (rps: number) => explainWhyNot(candidate({ trial: 2, ...cut(rps) }), most, mostRate)
    expect(of(80)).toBe('at least 20 % less throughput: serves at most 80 req/s')
    expect(of(120)).toBe('statistically tied: serves at most 120 req/s')
    expect(explainWhyNot(candidate(cut(80)), undefined, perRequest)).toBe('serves at most 80 req/s')
  })

  test('where nothing is best, its own reason', () => {
    expect(
      explainWhyNot(candidate({ feasible: false, reason: 'out of memory' }), undefined, perRequest),
    ).toBe('out of memory')
  })
})

describe('whether it is the cheapest', () => {
  test.each<[number, number | undefined, string]>([
    [0.04, 0.96, '96 % likely that no untried configuration is over 5 % cheaper (model estimate)'],
    [0.5, 0.5, '50 % likely that no untried configuration is over 5 % cheaper (model estimate)'],
    [
      0.51,
      0.49,
      'not certain: 49 % likely that no untried configuration is over 5 % cheaper (model estimate)',
    ],
    [0, 1, '100 % likely that no untried configuration is over 5 % cheaper (model estimate)'],
    [1, undefined, 'not known: too few trials to tell'],
  ])('believing %d of something better', (probabilityBetterExists, probability, statement) => {
    const confidence = describeConfidence(perRequest, { probabilityBetterExists, tolerance: 0.05 })
    expect(confidence).toMatchObject({ tolerance: 0.05, statement })
    if (probability === undefined)
      expect(confidence).not.toHaveProperty('probabilityWithinTolerance')
    else expect(confidence.probabilityWithinTolerance).toBeCloseTo(probability, 12)
  })

  test('rounded down, and not by what a computer makes of a decimal', () => {
    expect(
      describeConfidence(perRequest, { probabilityBetterExists: 0.0461, tolerance: 0.1 }).statement,
    ).toContain('95 % likely that no untried configuration is over 10 % cheaper')
    // 1 - 0.42 is 0.5800000000000001, 1 - 0.43 is 0.57, times 100 56.99999999999999.
    expect(describeConfidence(perRequest, { probabilityBetterExists: 0.43 }).statement).toContain(
      '57 % likely',
    )
  })

  test('within 5 %, where no tolerance is said', () => {
    expect(describeConfidence(perRequest, { probabilityBetterExists: 0.04 })).toMatchObject({
      tolerance: 0.05,
    })
  })

  test('not assessed', () => {
    expect(describeConfidence(perRequest)).toEqual({
      tolerance: 0.05,
      statement: 'not assessed',
    })
  })
})
