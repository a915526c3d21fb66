import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { rankCandidates } from '../../reports/recommendation/ranking.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { heldAt, measurement } from '../testing/fakes.ts'
import { computeLogSd, findRefuted, observeTrial } from './observations.ts'

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

describe('the log standard deviation of a capacity', () => {
  const logSd = (low: number, high: number) =>
    computeLogSd({ ...measurement(100), capacityCi90Rps: [low, high] })

  test('is that of the log-normal distribution with the measured 90 % interval', () => {
    // 90 % of a normal lie within 1.6449 standard deviations: e^(±1.6449 x 0.1).
    expect(logSd(100 * Math.exp(-0.16449), 100 * Math.exp(0.16449))).toBeCloseTo(0.1, 4)
    expect(logSd(50, 200)).toBeCloseTo(Math.log(4) / 3.2897, 4)
  })

  test('does not depend on the unit', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0.1, max: 1e5, noNaN: true }),
        fc.double({ min: 1.001, max: 100, noNaN: true }),
        (low, ratio) => {
          expect(logSd(60 * low, 60 * low * ratio)).toBeCloseTo(logSd(low, low * ratio)!, 9)
        },
      ),
    )
  })

  test.each([
    ['a lower bound', 90, Number.POSITIVE_INFINITY],
    ['an upper bound', 0, 90],
    ['an empty interval', 90, 90],
    ['a reversed interval', 90, 80],
    ['NaN', Number.NaN, Number.NaN],
  ])('is undefined for %s', (_, low, high) => {
    expect(logSd(low, high)).toBeUndefined()
  })
})

describe('the observation of a trial', () => {
  test('contains the measured capacity and unloaded latency', () => {
    const measured = {
      ...measurement(250),
      unloaded: { ...measurement(250).unloaded, p99Ms: 7.25 },
    }
    expect(observeTrial(complete(measured), objective)).toEqual({
      configuration: { batchSize: 4 },
      state: 'complete',
      rate: { value: 250, logSd: computeLogSd(measured) },
      constraint: { value: 7.25 },
      censored: false,
    })
  })

  test('contains a capacity of 0', () => {
    const none = complete({ outcome: 'slo-unattainable', capacityRps: 0, capacityCi90Rps: [0, 0] })
    expect(observeTrial(none, objective)).toMatchObject({
      state: 'complete',
      rate: { value: 0, logSd: undefined },
    })
  })

  test.each(['host-interference', 'generator-limit', 'non-stationary', 'server-died'] as const)(
    'is undefined for an inconclusive outcome: %s',
    (outcome) => {
      expect(
        observeTrial(
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

  test('of a pruned trial is censored', () => {
    expect(observeTrial(complete({ outcome: 'pruned' }), objective)).toMatchObject({
      censored: true,
    })
    for (const outcome of ['converged', 'budget', 'generator-limit', 'errors'] as const)
      expect(observeTrial(complete({ outcome }), objective)).toMatchObject({ censored: false })
  })

  test('has no constraint where the unloaded latency was not measured', () => {
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
    expect(observeTrial(complete({ unloaded: zero }), objective)).toMatchObject({
      constraint: undefined,
    })
    const refuted = complete(
      { unloaded: zero, capacityCi90Rps: [80, 125] },
      { purpose: 'confirmation' },
    )
    expect(observeTrial(refuted, objective)).toMatchObject({
      constraint: undefined,
      rate: { value: 100 },
    })
  })

  test('of an infeasible trial contains the reason', () => {
    const trial: FinishedTrial = {
      ...base,
      state: 'infeasible',
      reason: 'out-of-memory',
      detail: 'needs 9 GiB',
    }
    expect(observeTrial(trial, objective)).toEqual({
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
    ['is a confirmation that met the SLO', complete(heldAt(90), { purpose: 'confirmation' })],
    [
      'is a confirmation that did not start',
      { ...base, purpose: 'confirmation', state: 'infeasible', reason: 'crashed', detail: '' },
    ],
  ])('is undefined where the trial %s', (_, trial) => {
    expect(observeTrial(trial, objective)).toBeUndefined()
  })

  test('of the baseline is like any other', () => {
    expect(observeTrial(complete({}, { purpose: 'default' }), objective)).toMatchObject({
      rate: { value: 100 },
    })
  })
})

describe('the observed unloaded latency', () => {
  const unloaded = { requests: 100, meanMs: 2, p50Ms: 1, p90Ms: 3, p95Ms: 4, p99Ms: 9, maxMs: 10 }
  const at = (percentile: number, summary = unloaded) =>
    complete({ unloaded: summary, slo: { ...measurement(100).slo, percentile } })
  const observedMs = (trial: FinishedTrial) => {
    const observation = observeTrial(trial, objective)
    return observation?.state === 'complete' ? observation.constraint?.value : undefined
  }

  test.each([
    [0.5, 1],
    [0.9, 3],
    [0.95, 4],
    [0.99, 9],
    // A hundred requests show nothing beyond the slowest one.
    [0.999, 10],
    // Linear in ln(1 - q): from 1 at p50, ln 2, to 3 at p90, ln 10.
    [0.75, 1 + (2 * Math.log(4 / 2)) / Math.log(10 / 2)],
  ])('at percentile %d is %d ms', (percentile, ms) => {
    expect(observedMs(at(percentile))).toBeCloseTo(ms, 9)
  })

  test('may be shorter than 1 ms', () => {
    expect(observedMs(at(0.99, { ...unloaded, p99Ms: 0.4 }))).toBe(0.4)
  })

  test('equals the one of the recommendation', () => {
    const view = { objective, pricePerHour: () => 1, label: () => '' }
    fc.assert(
      fc.property(
        fc.double({ min: 0.5, max: 0.9999, noNaN: true }),
        fc.double({ min: 0.1, max: 40, noNaN: true }),
        (percentile, p99Ms) => {
          const trial = at(percentile, { ...unloaded, p99Ms, maxMs: p99Ms + 1 })
          const slo = { ...measurement(100).slo, percentile }
          if (trial.state !== 'complete') throw new Error('unreachable')
          const [judged] = rankCandidates(
            [{ ...trial, measurement: { ...trial.measurement, points: [] } }],
            { ...view, slo },
          )
          expect(observedMs(trial)).toBe(judged?.candidate.unloadedMs)
        },
      ),
    )
  })
})

describe('a refuted confirmation', () => {
  const refuted = (metRps: number, violatedRps: number, more: Partial<FinishedTrial> = {}) =>
    complete(
      {
        outcome: metRps > 0 ? 'converged' : 'budget',
        capacityRps: metRps,
        capacityCi90Rps: [metRps, violatedRps],
      },
      { purpose: 'confirmation', ...more },
    )

  test('puts the capacity between the rates that met and violated the SLO', () => {
    const observed = observeTrial(refuted(80, 125), objective)
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

  test('gives an upper bound where no rate met the SLO', () => {
    expect(observeTrial(refuted(0, 90), objective)).toMatchObject({
      rate: { value: 90 },
      censored: true,
    })
  })

  test('gives no observation for objectives other than capacity', () => {
    expect(observeTrial(refuted(80, 125), { kind: 'min-energy' })).toBeUndefined()
  })

  test('replaces earlier measurements of its configuration alone', () => {
    const other = complete({}, { configuration: { batchSize: 8 } })
    const [first, held, last] = [
      complete(),
      complete(heldAt(90), { purpose: 'confirmation' }),
      refuted(80, 125),
    ]
    expect(findRefuted([first, other, held])).toEqual([])
    expect(findRefuted([first, other, refuted(70, 110), last])).toEqual([first, refuted(70, 110)])
    expect(findRefuted([first, last, other])).toEqual([first])
  })
})
