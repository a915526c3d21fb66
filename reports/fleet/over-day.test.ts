import fc from 'fast-check'
import { expect, test } from 'vitest'
import { tableDemand, traceDemand } from '../plan/demand.ts'
import { clockAt, overDayOf, peaksOver, stepsOfDay } from './over-day.ts'

const dayOf = (text: string) => peaksOver(tableDemand(text), stepsOfDay)

test('a model is in memory from the load before its hours on, over midnight too, and not when nothing is asked', () => {
  const { levels, levelAt } = overDayOf(dayOf('0-8:0, 8-12:20, 12-20:50, 20-24:0'), 100)
  expect(levels).toEqual([0.4, 1])
  expect(
    levelAt
      .map((level, step) => (level === levelAt.at(step - 1) ? '' : `${clockAt(step)} ${level}`))
      .filter(Boolean),
  ).toEqual(['7:45 1', '11:45 2', '20:00 0'])
  // Fifteen minutes and a second take two quarters; a day that begins at midnight is loaded on the
  // evening before.
  expect(
    overDayOf(dayOf('0-8:5, 8-24:0'), 901)
      .levelAt.map((level) => level > 0)
      .lastIndexOf(false),
  ).toBe(93)
  const rates = (count: number) =>
    dayOf(
      `${Array.from({ length: count }, (_, i) => `${i}-${i + 1}:${count - i}`).join(', ')}, ${count}-24:0`,
    )
  expect(overDayOf(rates(8), 0).levels).toEqual([1, 2, 3, 4, 5, 6, 7, 8].map((share) => share / 8))
  expect(overDayOf(rates(5), 0).levels).toEqual([0.2, 0.4, 0.6, 0.8, 1])
  expect(overDayOf(rates(5), 0, 4).levels).toEqual([0.25, 0.5, 0.75, 1])
  expect(overDayOf(dayOf('0-24:5'), 100)).toEqual({
    levels: [1],
    levelAt: Array(96).fill(1),
    askedAt: Array(96).fill(1),
  })
})

test('days are folded by what clocks show, through their change: a peak at ten o’clock is at ten on every day', () => {
  const hours = (days: number, at: (day: number) => string) =>
    Array.from({ length: days }, (_, day) => {
      const ten = Date.parse(at(day)) / 1000
      return `${ten},90\n${ten + 3600},5\n`
    }).join('')
  // Clocks go back in Berlin on the 25th, and forward on 29 March.
  const autumn = hours(4, (day) => `2026-10-${23 + day}T10:00:00+0${day < 2 ? 2 : 1}:00`)
  const spring = hours(4, (day) => `2026-03-${27 + day}T10:00:00+0${day < 2 ? 1 : 2}:00`)
  for (const trace of [autumn, spring]) {
    const peaks = peaksOver(traceDemand(trace, 't.csv'), 24, 'Europe/Berlin')
    expect(peaks.map((rps, hour) => (rps > 5 ? hour : -1)).filter((hour) => hour >= 0)).toEqual([
      10,
    ])
  }
  // Times without a zone are those of the fleet's own clocks.
  const naive = traceDemand(
    '2026-10-01 00:00,5\n2026-10-01 10:00,90\n2026-10-01 11:00,5\n2026-10-02 00:00,5\n',
    't.csv',
  )
  expect(peaksOver(naive, 24, 'Asia/Tokyo').indexOf(90)).toBe(10)
})

test('a trace of a day and an hour is not begun anew at another hour; one of a few hours fills the day', () => {
  const hourly = (count: number) =>
    traceDemand(
      Array.from(
        { length: count },
        (_, hour) => `${hour * 3600},${hour % 24 === 9 ? 90 : 5}\n`,
      ).join(''),
      't.csv',
    )
  const at = (count: number) =>
    peaksOver(hourly(count), 24).flatMap((rps, hour) => (rps > 5 ? [hour] : []))
  expect(at(25)).toEqual([9])
  expect(at(12)).toEqual([9, 21])
})

test('an hour that the one day of a trace does not have is taken as those beside it', () => {
  const day = traceDemand(
    Array.from(
      { length: 24 },
      (_, hour) => `${Date.parse('2026-03-29T00:00:00+01:00') / 1000 + 3600 * hour},${hour + 1}\n`,
    ).join(''),
    't.csv',
  )
  const peaks = peaksOver(day, 24, 'Europe/Berlin')
  expect(peaks.slice(0, 5)).toEqual([24, 2, 3, 3, 4])
  expect(peaks.every((rps) => rps > 0)).toBe(true)
})

test('whatever the day, what is held carries each step and all that comes within the load, in few levels', () => {
  const days = fc
    .array(fc.oneof(fc.constant(0), fc.double({ min: 1e-6, max: 90, noNaN: true })), {
      minLength: 96,
      maxLength: 96,
    })
    .filter((rates) => Math.max(...rates) > 0.01)
  fc.assert(
    fc.property(days, fc.integer({ min: 0, max: 3000 }), (rates, aheadS) => {
      const { levels, levelAt } = overDayOf(rates, aheadS)
      expect(levels.length).toBeLessThanOrEqual(8)
      expect(levels.at(-1)).toBe(1)
      const most = Math.max(...rates)
      for (const [step, level] of levelAt.entries())
        for (let later = 0; later <= Math.ceil(aheadS / 900); later++)
          expect(level === 0 ? 0 : levels[level - 1]! * most).toBeGreaterThanOrEqual(
            rates[(step + later) % 96]! * (1 - 1e-9),
          )
    }),
    { numRuns: 60 },
  )
})
