import { describe, expect, test } from 'vitest'
import type { Slo } from '../../profiler/types.ts'
import type { Objective } from '../../search/types.ts'
import { slo } from '../samples.contract.ts'
import type { Status } from './status.ts'
import type { Candidate, Conclusion } from './types.ts'
import { confidenceOf, verdictOf, verdictOfNone, verdictOfNothing, whyNot } from './verdict.ts'

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
  idleMs: 8,
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
    verdictOf(candidate(change), conclusion, asked, perRequest, {})
  const figures = 'one: 100 req/s at p99 43 ms, $1.00 per million requests'

  test.each<[Conclusion, string]>([
    ['confirmed', figures],
    ['unconfirmed', `Best found, NOT confirmed: ${figures}`],
    ['not asked', `Best found, measured once as asked: ${figures}`],
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
    expect(verdictOf(candidate(), 'confirmed', slo, perRequest, { variation })).toBe(
      `${figures}; measurements of it disagree: the server ran at 0.71 to 1.00 times the speed of its first window; p99 was 31 ms to 47 ms in 7 windows over 62 s`,
    )
  })

  test.each<[Partial<Candidate>, string]>([
    [{ bound: 'lower' }, 'at least 100 req/s at p99 43 ms'],
    [{ bound: 'upper' }, 'at most 100 req/s at p99 43 ms'],
    [{ sloMsFrom: 'model' }, '100 req/s at p99 43 ms by the model'],
    [
      { bound: 'upper', capacityRps: 0, sloMsFrom: 'idle' },
      'below 103 req/s at p99 43 ms when idle',
    ],
    [
      { missed: { rateRps: 120, sloMs: 65 } },
      'requests; measured again it missed the SLO at 120 req/s (p99 65 ms)',
    ],
    [{ missed: { rateRps: 120, sloMs: Infinity } }, 'missed the SLO at 120 req/s (no answer)'],
  ])('%j: %s', (change, text) => {
    expect(said(change)).toContain(text)
  })

  test('a joint SLO is kept with parts of its limits, not at a latency', () => {
    expect(said({}, 'confirmed', joint)).toContain(
      '100 req/s with p99 of TTFT and TPOT at 86 % of the limits',
    )
  })
})

describe('the gain over the default', () => {
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
    verdictOf(candidate(), 'confirmed', slo, objective, {
      candidate: fallback && candidate({ trial: 2, ...fallback }),
      gain: times,
    }).split(/requests, |per hour, /)[1]

  test.each<[string, Partial<Candidate> | undefined, number | undefined, string | undefined]>([
    ['none was measured', undefined, 2, undefined],
    ['it is the default', { trial: 1 }, 1, 'which is the default itself'],
    [
      'the default violated it when measured again',
      { ...out(0, 'refuted'), missed: { rateRps: 250, sloMs: 163 } },
      undefined,
      'where the default violated the SLO at 250 req/s and lower rates were not tried',
    ],
    [
      'the default cannot serve',
      out(0, 'infeasible'),
      undefined,
      'where the default does not meet the SLO',
    ],
    [
      'the default kept it at no rate tried',
      out(0, 'bound'),
      undefined,
      'where the default is not known to meet the SLO',
    ],
    [
      'the machine spoilt the default',
      out(0, 'disturbed'),
      undefined,
      'where nothing is known of the default',
    ],
    [
      'the default was not measured',
      out(0, 'failed'),
      undefined,
      'where nothing is known of the default',
    ],
    [
      'imported without its percentile',
      { ...out(0, 'imported'), sloMsAtCapacity: Number.NaN },
      undefined,
      'where nothing is known of the default',
    ],
    [
      'the default was cut as it had lost',
      { ...out(40, 'bound'), bound: 'upper' },
      undefined,
      'at least 2.5x cheaper than the default',
    ],
    [
      'the default was cut, and may be better',
      { ...out(120, 'bound'), bound: 'upper' },
      undefined,
      'not settled against the default',
    ],
    [
      'the default serves, and is not wanted',
      out(40, 'confirmed'),
      undefined,
      'where the default is no candidate',
    ],
    ['it is not known', {}, undefined, undefined],
    ['a clear one', {}, 2.34, '2.3x cheaper than the default'],
    ['a small one', {}, 1.01, '1.01x cheaper than the default'],
    ['one that would read 1x', {}, 1.004, 'no better than the default'],
  ])('%s', (_, fallback, times, text) => {
    expect(gain(fallback, times)).toBe(text)
  })

  test('in the words of the objective', () => {
    expect(gain({}, 2, mostRate)).toBe('2x the rate of the default')
    const cut = { ...out(40, 'bound'), bound: 'upper', pricePerHour: 1.2 } as const
    expect(gain(cut, undefined, mostRate)).toBe('where the default costs more than is allowed')
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
      sloMsFrom: 'idle',
      reason: 'because',
      ...change,
    })
    return verdictOfNone(nearest, [nearest, ...others], asked, objective)
  }

  test('the nearest misses it when idle: by how much', () => {
    expect(none({ sloMsAtCapacity: 60 })).toBe(
      'No configuration meets p99 <= 50 ms: the nearest, one, takes 60 ms for one request at a time, 1.2x the limit',
    )
    expect(none({ sloMsAtCapacity: 60 }, perRequest, joint)).toBe(
      'No configuration meets TTFT <= 50 ms and TPOT <= 10 ms for 99 % of requests: the nearest, one, takes 120 % of the limits for one request at a time',
    )
  })

  test.each<Status>(['bound', 'refuted', 'disturbed'])(
    'is not known where only some rates of another were tried (%s)',
    (status) => {
      const other = candidate({ trial: 2, status, feasible: false, capacityRps: 0 })
      expect(none({ sloMsAtCapacity: 60 }, perRequest, slo, [other])).toBe(
        'No configuration is known to meet p99 <= 50 ms: the nearest, one, takes 60 ms for one request at a time, 1.2x the limit',
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
    expect(verdictOfNone(undefined, [], slo, perRequest)).toBe(
      'No configuration meets p99 <= 50 ms: none of those tried could serve',
    )
  })

  test('nothing is known of any', () => {
    const failed = candidate({ reason: 'not measured: no port' })
    expect(verdictOfNothing([])).toBe('Nothing has been measured yet')
    expect(verdictOfNothing([failed])).toBe('Not measured: no port')
    expect(verdictOfNothing([failed, candidate()])).toBe(
      'Nothing is known of any of the 2 configurations tried: one: not measured: no port',
    )
  })
})

describe('why another one was not chosen', () => {
  const best = candidate()
  const why = (change: Partial<Candidate>, objective: Objective = perRequest) =>
    whyNot(candidate({ trial: 2, label: 'two', ...change }), best, objective)

  test.each<[string, Partial<Candidate>, string]>([
    ['dearer', { cost: 1.12, capacityCi90Rps: [89, 90], capacityRps: 89.3 }, '12 % dearer'],
    [
      'dearer, perhaps',
      { cost: 1.03, capacityRps: 97, capacityCi90Rps: [94, 101] },
      '3 % dearer, within the uncertainty',
    ],
    ['equal', { cost: 1.0004 }, 'equal'],
    ['equal, and smaller', { cost: 1, capacityRps: 99.9 }, 'equal, with a lower capacity'],
    ['no longer equal', { cost: 1.0006, capacityCi90Rps: [90, 91] }, '0.1 % dearer'],
    [
      'far better, once',
      { status: 'measured', cost: 0.87, capacityRps: 115 },
      'not settled: better by one measurement',
    ],
    [
      'equal, once',
      { status: 'measured', cost: 0.9996, capacityRps: 112 },
      'not settled: equal by one measurement',
    ],
    [
      'better by luck',
      { status: 'measured', cost: 0.98, capacityRps: 102 },
      'no better at the rate that it would be confirmed at',
    ],
    ['cannot serve', { feasible: false, reason: 'out of memory' }, 'out of memory'],
    ['cannot be told', { feasible: false }, 'not chosen'],
  ])('%s', (_, change, text) => {
    expect(why(change)).toBe(text)
  })

  test('less of what is to be most', () => {
    const most = candidate({ cost: -100 })
    const less = candidate({ trial: 2, capacityRps: 80, capacityCi90Rps: [78, 82], cost: -80 })
    expect(whyNot(less, most, mostRate)).toBe('20 % less rate')
  })

  test('half a thousandth is equal, more is not', () => {
    expect(why({ cost: 1.0007, capacityCi90Rps: [90, 91] })).toBe('0.1 % dearer')
    expect(why({ status: 'measured', cost: 0.9993, capacityRps: 112 })).toBe(
      'not settled: better by one measurement',
    )
    expect(why({ ...cut(99.93) })).toContain('dearer at least')
    expect(why({ ...cut(99.96) })).toContain('not settled')
  })

  const cut = (capacityRps: number): Partial<Candidate> => ({
    feasible: false,
    bound: 'upper',
    capacityRps,
    cost: Infinity,
    reason: `serves at most ${capacityRps} req/s`,
  })
  test('cut short: dearer at least, or not settled', () => {
    expect(why(cut(80))).toBe('25 % dearer at least: serves at most 80 req/s')
    expect(why(cut(100))).toBe('not settled: serves at most 100 req/s')
    expect(why(cut(200))).toBe('not settled: serves at most 200 req/s')
    expect(why(cut(0))).toBe('serves at most 0 req/s')
    const most = candidate({ cost: -100 })
    const of = (rps: number) => whyNot(candidate({ trial: 2, ...cut(rps) }), most, mostRate)
    expect(of(80)).toBe('20 % less rate at least: serves at most 80 req/s')
    expect(of(120)).toBe('not settled: serves at most 120 req/s')
    expect(whyNot(candidate(cut(80)), undefined, perRequest)).toBe('serves at most 80 req/s')
  })

  test('where nothing is best, its own reason', () => {
    expect(
      whyNot(candidate({ feasible: false, reason: 'out of memory' }), undefined, perRequest),
    ).toBe('out of memory')
  })
})

describe('how sure the search is', () => {
  test.each<[number, number | undefined, string]>([
    [
      0.04,
      0.96,
      "With 96 % probability, nothing untried in the search space is more than 5 % better (by the search's own model).",
    ],
    [
      0.5,
      0.5,
      "With 50 % probability, nothing untried in the search space is more than 5 % better (by the search's own model).",
    ],
    [
      0.51,
      0.49,
      "The search stopped before it could be sure: with 51 % probability, something untried is more than 5 % better (by the search's own model).",
    ],
    [
      0,
      1,
      "With 100 % probability, nothing untried in the search space is more than 5 % better (by the search's own model).",
    ],
    [
      1,
      undefined,
      'Whether something untried is better is not known: there are too few trials to tell.',
    ],
  ])('believing %d of something better', (probabilityBetterExists, probability, statement) => {
    const confidence = confidenceOf({ probabilityBetterExists, tolerance: 0.05 })
    expect(confidence).toMatchObject({ tolerance: 0.05, statement })
    if (probability === undefined)
      expect(confidence).not.toHaveProperty('probabilityWithinTolerance')
    else expect(confidence.probabilityWithinTolerance).toBeCloseTo(probability, 12)
  })

  test('rounded down, and not by what a computer makes of a decimal', () => {
    expect(confidenceOf({ probabilityBetterExists: 0.0461, tolerance: 0.1 }).statement).toContain(
      'With 95 % probability, nothing untried in the search space is more than 10 % better',
    )
    // 1 - 0.42 is 0.5800000000000001, 1 - 0.43 is 0.57, times 100 56.99999999999999.
    expect(confidenceOf({ probabilityBetterExists: 0.43 }).statement).toContain('With 57 %')
  })

  test('within 5 %, where no tolerance is said', () => {
    expect(confidenceOf({ probabilityBetterExists: 0.04 })).toMatchObject({ tolerance: 0.05 })
  })

  test('not assessed', () => {
    expect(confidenceOf()).toEqual({
      tolerance: 0.05,
      statement: 'How sure the search is was not assessed.',
    })
  })
})
