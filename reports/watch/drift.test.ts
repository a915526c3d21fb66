/**
 * Constants were chosen on other days: patterns daily, low-mean and evening-bursts, seeds 1 to 20,
 * servers measured with seeds 1 to 4, and no wandering.
 */
import { expect, test } from 'vitest'
import { type DriftState, initialDrift, summariseDrift, updateDrift } from './drift.ts'
import { type Days, measured, noises, Production } from './testing/production.ts'

const question = { tolerance: 0.07, falseAlarmDays: 365 }
const server = measured(55)
const production = new Production(server, 555_000, 8)

function* watched(days: number, about: Days) {
  let state: DriftState = initialDrift
  for (const window of production.days(days, about)) {
    state = updateDrift(state, window, server, 1, question)
    yield { window, state }
  }
}

function alarms(days: number, about: Days): number {
  let [count, before] = [0, false]
  for (const { state } of watched(days, about)) {
    const now = state.established !== undefined
    if (now && !before) count++
    before = now
  }
  return count
}

/**
 * Hours from the change on the fourth day to its being established; NaN for an alarm before it,
 * Infinity where there is none.
 */
function delay(about: Omit<Days, 'slowness' | 'slowFromDay'>): number {
  for (const { window, state } of watched(8, { ...about, slowness: 1.15, slowFromDay: 4 }))
    if (state.established) return window.fromS < 4 * 86_400 ? Number.NaN : window.fromS / 3600 - 96
  return Number.POSITIVE_INFINITY
}

test.each([
  ...noises.map((noise) => ['evening-bursts', noise] as const),
  ['periodic-jobs', 'all'] as const,
])(
  '%s, noise %s: 200 quiet days raise two alarms at most, and 15 % is detected within a day',
  (pattern, noise) => {
    expect(alarms(200, { pattern, noise, seed: 1001 })).toBeLessThanOrEqual(2)
    for (const seed of [2001, 2002]) expect(delay({ pattern, noise, seed })).toBeLessThanOrEqual(24)
  },
)

test('the size of it is told, and its beginning', () => {
  const last = [
    ...watched(6, {
      pattern: 'evening-bursts',
      noise: 'autocorrelated',
      seed: 3001,
      slowness: 1.15,
      slowFromDay: 4,
    }),
  ].at(-1)!
  const { state, slowness, sinceS } = summariseDrift(last.state)
  expect(state).toBe('drifted')
  expect(slowness).toBeGreaterThan(1.08)
  expect(slowness).toBeLessThan(1.22)
  expect(Math.abs(sinceS! - 4 * 86_400)).toBeLessThan(6 * 3600)
})

test('a state that was written and read again between all windows decides the same', () => {
  let state: DriftState = initialDrift
  const about = {
    pattern: 'evening-bursts',
    noise: 'all',
    seed: 3002,
    slowness: 1.15,
    slowFromDay: 4,
  } as const
  for (const window of production.days(6, about))
    state = updateDrift(JSON.parse(JSON.stringify(state)), window, server, 1, question)
  expect(state).toEqual(JSON.parse(JSON.stringify([...watched(6, about)].at(-1)!.state)))
  expect(state.established).toBeDefined()
})

test('it ends when the server is as fast as before, and may come again', () => {
  let state: DriftState = initialDrift
  const run = (days: number, slowness: number, fromDay: number) => {
    for (const window of production.days(days, {
      pattern: 'evening-bursts',
      noise: 'none',
      seed: 3003,
      slowness,
    }))
      state = updateDrift(
        state,
        { ...window, fromS: window.fromS + fromDay * 86_400 },
        server,
        1,
        question,
      )
    return state.established !== undefined
  }
  expect([run(4, 1, 0), run(2, 1.15, 4), run(1, 1, 6), run(2, 1.15, 7)]).toEqual([
    false,
    true,
    false,
    true,
  ])
})

test('a server that takes twice as long as measured from its first day on is told, though production knows no other', () => {
  const all = [...watched(5, { pattern: 'evening-bursts', noise: 'none', seed: 3004, slowness: 2 })]
  expect(summariseDrift(all.at(-1)!.state).state).toBe('drifted')
})
