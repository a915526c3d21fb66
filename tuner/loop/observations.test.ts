import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { judge } from '../../reports/recommendation/judged.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { heldAt, measurement } from '../testing/fakes.ts'
import { logSdOf, observationOf, outdatedReadings } from './observations.ts'

const objective = { kind: 'price-per-request' } as const
const base = {
  number: 1,
  configuration: { batchSize: 4 },
  why: '',
  startedAt: '2026-01-01T00:00:00Z',
  seconds: 5,
}
const complete = (
  change: Partial<Measurement> = {},
  rest: Partial<FinishedTrial> = {},
): FinishedTrial =>
  ({
    ...base,
    state: 'complete',
    measurement: { ...measurement(100), ...change },
    ...rest,
  }) as FinishedTrial

describe('the spread of a capacity', () => {
  const spread = (low: number, high: number) =>
    logSdOf({ ...measurement(100), capacityCi90Rps: [low, high] })

  test('is that of the normal in ln whose 90 % interval it is', () => {
    // 90 % of a normal lie within 1.6449 standard deviations: e^(±1.6449 x 0.1).
    expect(spread(100 * Math.exp(-0.16449), 100 * Math.exp(0.16449))).toBeCloseTo(0.1, 4)
    expect(spread(50, 200)).toBeCloseTo(Math.log(4) / 3.2897, 4)
  })

  test('does not depend on the unit', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0.1, max: 1e5, noNaN: true }),
        fc.double({ min: 1.001, max: 100, noNaN: true }),
        (low, ratio) => {
          expect(spread(60 * low, 60 * low * ratio)).toBeCloseTo(spread(low, low * ratio)!, 9)
        },
      ),
    )
  })

  test.each([
    ['a bound from below', 90, Number.POSITIVE_INFINITY],
    ['a bound from above', 0, 90],
    ['no width', 90, 90],
    ['turned round', 90, 80],
    ['no numbers', Number.NaN, Number.NaN],
  ])('is unknown of %s', (_, low, high) => {
    expect(spread(low, high)).toBeUndefined()
  })
})

describe('what a trial teaches', () => {
  test('requests per second and ms, as measured', () => {
    const measured = {
      ...measurement(250),
      unloaded: { ...measurement(250).unloaded, p99Ms: 7.25 },
    }
    expect(observationOf(complete(measured), objective)).toEqual({
      configuration: { batchSize: 4 },
      state: 'complete',
      rate: { value: 250, logSd: logSdOf(measured) },
      constraint: { value: 7.25 },
      censored: false,
    })
  })

  test('what was predicted of it, with the spread of its 90 % interval', () => {
    const predicted = { rate: 90, low: 45, high: 180, feasible: 1 }
    expect(observationOf(complete({}, { predicted }), objective)).toMatchObject({
      predicted: { value: 90, logSd: expect.closeTo(Math.log(4) / 3.2897, 4) },
    })
  })

  test('a capacity of nothing is one, and not unknown', () => {
    const none = complete({ outcome: 'slo-unattainable', capacityRps: 0, capacityCi90Rps: [0, 0] })
    expect(observationOf(none, objective)).toMatchObject({
      state: 'complete',
      rate: { value: 0, logSd: undefined },
    })
  })

  test.each(['host-interference', 'generator-limit', 'non-stationary', 'server-died'] as const)(
    'a rate of nothing that says nothing of the server: %s',
    (outcome) => {
      expect(
        observationOf(
          complete({
            outcome,
            capacityRps: 0,
            capacityCi90Rps: [0, Number.POSITIVE_INFINITY],
            bounds: 'none',
          }),
          objective,
        ),
      ).toBeUndefined()
    },
  )

  test('a trial that was cut short tells of a bound', () => {
    expect(observationOf(complete({ outcome: 'pruned' }), objective)).toMatchObject({
      censored: true,
    })
    for (const outcome of ['converged', 'budget', 'generator-limit', 'errors'] as const)
      expect(observationOf(complete({ outcome }), objective)).toMatchObject({ censored: false })
  })

  test('an idle latency that was not measured constrains nothing', () => {
    const { unloaded } = measurement(100)
    const zero = {
      ...unloaded,
      requests: 0,
      meanMs: 0,
      p50Ms: 0,
      p90Ms: 0,
      p95Ms: 0,
      p99Ms: 0,
      maxMs: 0,
    }
    expect(observationOf(complete({ unloaded: zero }), objective)).toMatchObject({
      constraint: undefined,
    })
    const missed = complete(
      { unloaded: zero, capacityCi90Rps: [80, 125] },
      { purpose: 'confirmation' },
    )
    expect(observationOf(missed, objective)).toMatchObject({
      constraint: undefined,
      rate: { value: 100 },
    })
  })

  test('what cannot serve is infeasible, with its reason', () => {
    const trial: FinishedTrial = {
      ...base,
      state: 'infeasible',
      reason: 'out-of-memory',
      detail: 'needs 9 GiB',
    }
    expect(observationOf(trial, objective)).toEqual({
      configuration: { batchSize: 4 },
      state: 'infeasible',
      reason: 'out-of-memory: needs 9 GiB',
    })
  })

  test.each<[string, FinishedTrial]>([
    ['failed', { ...base, state: 'failed', error: 'no port' }],
    [
      'was disturbed',
      complete({
        outcome: 'host-interference',
        capacityRps: 0,
        capacityCi90Rps: [0, Number.POSITIVE_INFINITY],
      }),
    ],
    ['confirmed', complete(heldAt(90), { purpose: 'confirmation' })],
    [
      'did not come up when confirmed',
      { ...base, purpose: 'confirmation', state: 'infeasible', reason: 'crashed', detail: '' },
    ],
  ])('nothing where it %s', (_, trial) => {
    expect(observationOf(trial, objective)).toBeUndefined()
  })

  test('the yardstick teaches like any other', () => {
    expect(observationOf(complete({}, { purpose: 'default' }), objective)).toMatchObject({
      rate: { value: 100 },
    })
  })
})

describe('the idle latency under an SLO', () => {
  const idle = { requests: 100, meanMs: 2, p50Ms: 1, p90Ms: 3, p95Ms: 4, p99Ms: 9, maxMs: 10 }
  const at = (percentile: number, summary = idle) =>
    complete({ unloaded: summary, slo: { ...measurement(100).slo, percentile } })
  const learned = (trial: FinishedTrial) => {
    const observation = observationOf(trial, objective)
    return observation?.state === 'complete' ? observation.constraint?.value : undefined
  }

  test.each([
    [0.5, 1],
    [0.9, 3],
    [0.95, 4],
    [0.99, 9],
    // Of a hundred requests nothing is known beyond the slowest one.
    [0.999, 10],
    // Linear in ln(1 - q): from 1 at p50, ln 2, to 3 at p90, ln 10.
    [0.75, 1 + (2 * Math.log(4 / 2)) / Math.log(10 / 2)],
  ])('p%d is %d ms', (percentile, ms) => {
    expect(learned(at(percentile))).toBeCloseTo(ms, 9)
  })

  test('as short as it may be, it is one', () => {
    expect(learned(at(0.99, { ...idle, p99Ms: 0.4 }))).toBe(0.4)
  })

  test('the search is told what the recommendation shows', () => {
    const view = { objective, pricePerHour: () => 1, label: () => '' }
    fc.assert(
      fc.property(
        fc.double({ min: 0.5, max: 0.9999, noNaN: true }),
        fc.double({ min: 0.1, max: 40, noNaN: true }),
        (percentile, p99Ms) => {
          const trial = at(percentile, { ...idle, p99Ms, maxMs: p99Ms + 1 })
          const slo = { ...measurement(100).slo, percentile }
          if (trial.state !== 'complete') throw new Error('unreachable')
          const [judged] = judge(
            [{ ...trial, measurement: { ...trial.measurement, points: [] } }],
            { ...view, slo },
          )
          expect(learned(trial)).toBe(judged?.candidate.unloadedMs)
        },
      ),
    )
  })
})

describe('a confirmation that missed', () => {
  const missed = (provenRps: number, missedRps: number, more: Partial<FinishedTrial> = {}) =>
    complete(
      {
        outcome: provenRps > 0 ? 'converged' : 'budget',
        capacityRps: provenRps,
        capacityCi90Rps: [provenRps, missedRps],
      },
      { purpose: 'confirmation', ...more },
    )

  test('puts the capacity between what held and what did not, both ends of a 90 % interval', () => {
    const observed = observationOf(missed(80, 125), objective)
    expect(observed).toMatchObject({
      state: 'complete',
      rate: { value: 100 },
      constraint: { value: 7 },
      censored: false,
    })
    expect(observed?.state === 'complete' && observed.rate?.logSd).toBeCloseTo(
      Math.log(125 / 80) / 3.2897,
      4,
    )
  })

  test('says at most so much where nothing held', () => {
    expect(observationOf(missed(0, 90), objective)).toMatchObject({
      rate: { value: 90 },
      censored: true,
    })
  })

  test('tells nothing of what is ranked by other than capacity', () => {
    expect(observationOf(missed(80, 125), { kind: 'min-energy' })).toBeUndefined()
  })

  test('takes the place of the readings before it, of its configuration alone', () => {
    const other = complete({}, { configuration: { batchSize: 8 } })
    const [first, held, last] = [
      complete(),
      complete(heldAt(90), { purpose: 'confirmation' }),
      missed(80, 125),
    ]
    expect(outdatedReadings([first, other, held])).toEqual([])
    expect(outdatedReadings([first, other, missed(70, 110), last])).toEqual([
      first,
      missed(70, 110),
    ])
    expect(outdatedReadings([first, last, other])).toEqual([first])
  })
})
