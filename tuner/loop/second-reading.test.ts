import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { CapacityOutcome } from '../../profiler/types.ts'
import type { FinishedTrial, Prediction } from '../../trials/types.ts'
import { measurement } from '../testing/fakes.ts'
import { secondReadings } from './second-reading.ts'

const predicted: Prediction = { rate: 100, low: 80, high: 125, feasible: 1 }
/** ±5 % at 90 %, as the fakes measure. */
const reading = (
  number: number,
  capacityRps: number,
  rest: { batchSize?: number; predicted?: Prediction; outcome?: CapacityOutcome } = {},
) => {
  const measured = { ...measurement(capacityRps), ...(rest.outcome && { outcome: rest.outcome }) }
  const { batchSize = 1 } = rest
  const base = {
    number,
    configuration: { batchSize },
    why: '',
    startedAt: '2026-01-01T00:00:00Z',
    seconds: 5,
  }
  return {
    ...base,
    predicted: 'predicted' in rest ? rest.predicted : predicted,
    state: 'complete',
    measurement: measured,
  } as FinishedTrial
}
const physics = () => ({ capacityRps: 100, relativeError: 0.1 })
const due = (
  trials: FinishedTrial[],
  expectation: Parameters<typeof secondReadings>[1] = physics,
) => secondReadings(trials, expectation).due.map(({ number }) => number)

test('a reading far from both beliefs is due again, up or down; one that is near either counts', () => {
  expect(due([reading(1, 300)])).toEqual([1])
  expect(due([reading(1, 30)])).toEqual([1])
  expect(due([reading(1, 130)])).toEqual([])
  // Physics is wrong here, and the search has learned it.
  expect(
    due([reading(1, 300, { predicted: { ...predicted, rate: 300, low: 240, high: 375 } })]),
  ).toEqual([])
  // The search's model is wrong, and physics is not.
  expect(due([reading(1, 300)], () => ({ capacityRps: 280, relativeError: 0.1 }))).toEqual([])
})

test('three half widths of the difference: just inside and just outside', () => {
  const halfWidth = (relativeError: number, [low, high]: readonly [number, number]) =>
    1.645 * Math.hypot(Math.log1p(relativeError), Math.log(high / low) / (2 * 1.645))
  const measured = reading(1, 100)
  const ci =
    measured.state === 'complete' ? measured.measurement.capacityCi90Rps : ([1, 1] as const)
  const edge = 100 * Math.exp(-3 * halfWidth(0.1, ci))
  // A belief of the search as far off as can be: physics alone decides.
  const off = { rate: 1, low: 0.99, high: 1.01, feasible: 1 }
  const far = (capacityRps: number) =>
    due([reading(1, 100, { predicted: off })], () => ({ capacityRps, relativeError: 0.1 }))
  expect(far(edge * 0.99)).toEqual([1])
  expect(far(edge * 1.01)).toEqual([])
})

test('a capacity below one request per second is a figure like any other', () => {
  const slow = { rate: 0.1, low: 0.08, high: 0.125, feasible: 1 }
  expect(
    due([reading(1, 0.9, { predicted: slow })], () => ({ capacityRps: 0.1, relativeError: 0.1 })),
  ).toEqual([1])
})

test('what the search believes is an interval: a wide one forgives', () => {
  const wide = { ...predicted, low: 20, high: 500 }
  expect(due([reading(1, 300, { predicted: wide })])).toEqual([])
  expect(due([reading(1, 300)], () => ({ capacityRps: 100, relativeError: 0.9 }))).toEqual([])
})

test('a confirmation is no reading, and is not doubted', () => {
  expect(due([{ ...reading(1, 300), purpose: 'confirmation' }])).toEqual([])
})

test('one belief alone condemns nothing', () => {
  expect(due([reading(1, 300, { predicted: undefined })])).toEqual([])
  expect(due([reading(1, 300)], () => undefined)).toEqual([])
})

test.each(['beaten', 'generator-limit', 'slo-unattainable', 'disturbed'] as const)(
  'a search that ended as %s says no figure to doubt',
  (outcome) => {
    expect(due([reading(1, 300, { outcome })])).toEqual([])
  },
)

test('a figure whose time was up is doubted as far as its own interval is from both beliefs', () => {
  expect(due([reading(1, 300, { outcome: 'budget' })])).toEqual([1])
  const measured = reading(1, 300, { outcome: 'budget' })
  const wide = { ...(measured as Extract<FinishedTrial, { state: 'complete' }>) }
  expect(
    due([{ ...wide, measurement: { ...wide.measurement, capacityCi90Rps: [150, 600] } }]),
  ).toEqual([])
})

test('the second reading stands, whatever it says', () => {
  for (const capacityRps of [100, 310]) {
    const trials = [reading(1, 300), reading(2, 100, { batchSize: 2 }), reading(3, capacityRps)]
    const { due, replaced } = secondReadings(trials, physics)
    expect(due).toEqual([])
    expect(replaced.map(({ number }) => number)).toEqual([1])
  }
})

test('a second try that failed, was disturbed or only confirmed leaves the reading due', () => {
  const base = { configuration: { batchSize: 1 }, why: '', startedAt: '', seconds: 1, number: 2 }
  expect(due([reading(1, 300), { ...base, state: 'failed', error: 'x' }])).toEqual([1])
  expect(due([reading(1, 300), reading(2, 100, { outcome: 'disturbed' })])).toEqual([1])
  expect(
    due([reading(1, 300), { ...(reading(2, 300) as FinishedTrial), purpose: 'confirmation' }]),
  ).toEqual([1])
  // It turned out not to serve at all: that is a reading.
  expect(
    due([reading(1, 300), { ...base, state: 'infeasible', reason: 'crashed', detail: '' }]),
  ).toEqual([])
})

test('no configuration is measured a third time for being hard to believe', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.tuple(fc.integer({ min: 1, max: 3 }), fc.double({ min: 1, max: 1e4, noNaN: true })),
        { maxLength: 12 },
      ),
      (drawn) => {
        const trials: FinishedTrial[] = []
        for (const [batchSize, capacityRps] of drawn)
          trials.push(reading(trials.length + 1, capacityRps, { batchSize }))
        const { due, replaced } = secondReadings(trials, physics)
        for (const trial of [...due, ...replaced]) {
          const same = trials.filter(
            ({ configuration }) => configuration.batchSize === trial.configuration.batchSize,
          )
          expect(same[0]).toBe(trial)
          expect(due.includes(trial)).toBe(same.length === 1)
        }
      },
    ),
  )
})
