import { expect, test } from 'vitest'
import type { LoadRun } from '../model/load-run.ts'
import { runOf } from '../testing/scripted-generator.ts'
import { findOutageSpans } from './outage-spans.ts'

/** Requests by when they were sent and when they were answered, ms; NaN: never. */
const pausesIn = (
  requests: readonly (readonly [sentMs: number, answeredMs: number])[],
  leastMs: number,
  more: Partial<LoadRun> = {},
) =>
  findOutageSpans(
    runOf(
      { kind: 'open', rateRps: 1, arrivals: { kind: 'poisson' }, durationS: 1, seed: 1 },
      requests.map(([sent, answered]) => answered - sent),
      { sentMs: Float64Array.from(requests, ([sent]) => sent), ...more },
    ),
    leastMs,
  )

test('an outage lasts from the last answer, or the first waiting request, to the next answer', () => {
  expect(
    pausesIn(
      [
        [0, 5],
        [90, 95],
        [92, 205],
        [100, 206],
      ],
      100,
    ),
  ).toEqual([{ fromMs: 95, untilMs: 205 }])
  expect(
    pausesIn(
      [
        [0, 5],
        [90, 95],
        [100, 205],
        [110, 206],
      ],
      100,
    ),
  ).toEqual([{ fromMs: 100, untilMs: 205 }])
  expect(
    pausesIn(
      [
        [0, 150],
        [10, 151],
      ],
      100,
    ),
  ).toEqual([{ fromMs: 0, untilMs: 150 }])
})

test('an outage of exactly the minimum length counts', () => {
  const requests = [
    [0, 5],
    [90, 95],
    [92, 205],
  ] as const
  expect(pausesIn(requests, 110)).toHaveLength(1)
  expect(pausesIn(requests, 110.5)).toEqual([])
  // Nothing was answered for 105 ms, but somebody waited for 95 of them alone.
  expect(
    pausesIn(
      [
        [0, 5],
        [90, 100],
        [110, 205],
      ],
      100,
    ),
  ).toEqual([])
})

test('an unloaded server has no outage', () => {
  expect(
    pausesIn(
      [
        [0, 5],
        [300, 305],
        [900, 905],
      ],
      100,
    ),
  ).toEqual([])
})

test('outages are listed in time order', () => {
  const requests = [
    [0, 150],
    [1, 149],
    [200, 205],
    [300, 460],
    [310, 459],
  ] as const
  expect(pausesIn(requests, 100)).toEqual([
    { fromMs: 0, untilMs: 149 },
    { fromMs: 300, untilMs: 459 },
  ])
})

test('failed requests are no answers and do not wait', () => {
  expect(
    pausesIn(
      [
        [0, 5],
        [10, Number.NaN],
        [200, 205],
      ],
      100,
    ),
  ).toEqual([])
  expect(
    pausesIn(
      [
        [0, 5],
        [10, Number.NaN],
        [12, 205],
      ],
      100,
    ),
  ).toEqual([{ fromMs: 12, untilMs: 205 }])
})

test('a cut ends the last outage', () => {
  const requests = [
    [0, 5],
    [20, 300],
    [40, 300],
  ] as const
  expect(pausesIn(requests, 100, { cutMs: 300 })).toEqual([{ fromMs: 20, untilMs: 300 }])
  expect(
    pausesIn(
      [
        [0, 5],
        [20, 250],
        [40, 300],
      ],
      100,
      { cutMs: 300 },
    ),
  ).toEqual([{ fromMs: 20, untilMs: 250 }])
})
