/** What hours are made of, on a curve that is known exactly. */
import { expect, test } from 'vitest'
import {
  calibrationHours,
  type DriftState,
  initialDrift,
  summariseDrift,
  updateDrift,
} from './drift.ts'
import type { MeasuredServer } from './slowness.ts'

const knot = (rateRps: number, latencyMs: number, part = 0) => ({
  ...{
    rateRps,
    latencyMs,
    lowMs: latencyMs * (1 - part),
    highMs: latencyMs * (1 + part),
    requests: 1000,
  },
})
/** The same latency at every rate: what is slower by a factor takes that much longer. */
const server: MeasuredServer = {
  capacityRps: 100,
  curve: [knot(0, 10), knot(20, 10), knot(100, 10)],
}
const question = { tolerance: 0.07, falseAlarmDays: 365 }

/** Hours of so many windows of five minutes each, two replicas. */
function hours(
  before: DriftState,
  from: number,
  list: readonly (readonly [perReplicaRps: number, slowness: number])[],
  windows = 12,
  of = server,
): DriftState {
  let state = before
  for (const [i, [perReplicaRps, slowness]] of list.entries())
    for (let k = 0; k < windows; k++)
      state = updateDrift(
        state,
        {
          fromS: (from + i) * 3600 + k * 300,
          seconds: 300,
          rateRps: 2 * perReplicaRps,
          sloMs: 10 * slowness,
        },
        of,
        2,
        question,
      )
  return state
}
const same = (n: number, slowness: number, perReplicaRps = 50) =>
  Array.from({ length: n }, () => [perReplicaRps, slowness] as const)

test('as many hours set the curve right as are said, and an hour counts when half of it was seen', () => {
  // An hour is over with the first window of the next.
  expect(summariseDrift(hours(initialDrift, 0, same(calibrationHours, 1))).state).toBe('settling')
  expect(summariseDrift(hours(initialDrift, 0, same(calibrationHours + 1, 1)))).toMatchObject({
    state: 'quiet',
    hours: 0,
  })
  expect(summariseDrift(hours(initialDrift, 0, same(calibrationHours + 1, 1), 6)).state).toBe(
    'quiet',
  )
  expect(summariseDrift(hours(initialDrift, 0, same(calibrationHours + 1, 1), 5))).toMatchObject({
    state: 'settling',
    hours: 0,
  })
})

test('each load has its own offset where it was seen often, and the nearest one’s elsewhere', () => {
  const days = Array.from({ length: calibrationHours + 1 }, (_, i) =>
    i === 5 ? ([90, 0.95] as const) : i % 2 === 0 ? ([20, 1.06] as const) : ([50, 1] as const),
  )
  const state = hours(initialDrift, 0, days)
  // Steps of 25 % below the capacity: 20 of 100 are seven, 50 are three; 90 was seen in one hour
  // alone.
  expect(Object.keys(state.offsets!).sort()).toEqual(['-3', '-7', 'all'])
  expect(state.offsets!['-7']).toBeCloseTo(Math.log(1.06), 3)
  expect(state.offsets!['-3']).toBeCloseTo(0, 3)
  const told = (perReplicaRps: number, slowness: number) =>
    summariseDrift(
      hours({ ...state, open: undefined }, 100, [...same(1, slowness, perReplicaRps), [50, 1]]),
    ).slowness
  expect(told(20, 1.06)).toBeCloseTo(1, 3)
  expect(told(25, 1.06)).toBeCloseTo(1, 3)
  expect(told(40, 1.06)).toBeCloseTo(1.06, 3)
  expect(told(60, 1.1)).toBeCloseTo(1.1, 3)
})

test('a curve is set right by 10 % beyond its own interval, and no further', () => {
  const offset = (slowness: number, of = server) =>
    hours(initialDrift, 0, same(calibrationHours + 1, slowness), 12, of).offsets!.all
  expect(offset(1.3)).toBeCloseTo(Math.log(1.1), 3)
  expect(offset(0.5)).toBeCloseTo(-Math.log(1.1), 3)
  const vague = { ...server, curve: [knot(0, 10), knot(20, 10, 0.05), knot(100, 10, 0.1)] }
  expect(offset(1.3, vague)).toBeCloseTo(Math.log(1.1 * 1.1), 3)
  expect(offset(0.5, vague)).toBeCloseTo(Math.log(0.95 / 1.1), 3)
})

test('nine slow hours establish it, by the tolerance and not below it', () => {
  const settled = { ...hours(initialDrift, 0, same(calibrationHours + 1, 1)), open: undefined }
  const after = (n: number, slowness: number) =>
    summariseDrift(hours(settled, 100, [...same(n, slowness), [50, 1]])).state
  expect([after(8, 1.08), after(9, 1.08), after(40, 1.065)]).toEqual(['quiet', 'drifted', 'quiet'])
})

test('it has ended when nine of twelve hours since are within the tolerance, not before', () => {
  const settled = { ...hours(initialDrift, 0, same(calibrationHours + 1, 1)), open: undefined }
  const drifted = { ...hours(settled, 100, [...same(9, 1.2), [50, 1]]), open: undefined }
  const after = (slow: number, fast: number) =>
    summariseDrift(hours(drifted, 109, [...same(slow, 1.2), ...same(fast, 1), [50, 1]])).state
  expect(summariseDrift(drifted)).toMatchObject({
    state: 'drifted',
    sinceS: 100 * 3600,
    establishedS: 109 * 3600,
  })
  expect([after(3, 9), after(4, 8), after(0, 11)]).toEqual(['quiet', 'drifted', 'drifted'])
})

test('windows above the capacity, without requests or without a latency say nothing', () => {
  const window = { fromS: 0, seconds: 300, rateRps: 300, sloMs: 10 }
  for (const one of [
    window,
    { ...window, rateRps: 0 },
    { ...window, rateRps: 100, sloMs: undefined },
  ])
    expect(updateDrift(initialDrift, one, server, 2, question).open).toBeUndefined()
})
