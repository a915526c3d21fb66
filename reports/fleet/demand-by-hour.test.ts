import { expect, test } from 'vitest'
import { createSteadyDemand, parseDayTable } from '../plan/demand.ts'
import { parseTraceDemand } from '../plan/trace-demand.ts'
import { listPeaksByHour } from './demand-by-hour.ts'

test('the highest rate of each hour, over all days', () => {
  expect(listPeaksByHour(parseDayTable('0-8:20, 8-8.5:90, 8.5-24:60')).slice(7, 10)).toEqual([
    20, 90, 60,
  ])
  expect(listPeaksByHour(createSteadyDemand(5))).toEqual(Array(24).fill(5))
  // Twelve hours that repeat, and two days.
  const spans = (...rates: number[]) => ({
    what: '',
    spans: rates.map((rps) => ({ rps, seconds: 43_200 })),
  })
  expect(new Set(listPeaksByHour(spans(7)))).toEqual(new Set([7]))
  expect(listPeaksByHour(spans(1, 2, 5, 1)).filter((_, hour) => hour % 12 === 0)).toEqual([5, 2])
})

test('a trace with times of the calendar is taken at its hours, by the clock of the zone', () => {
  const begin = Date.UTC(2026, 6, 1, 22) / 1000
  const trace = (from: number) =>
    parseTraceDemand(
      `${from},5\n${from + 3600},90\n${from + 7200},20\n${from + 86_400},5\n`,
      't.csv',
    )
  const busiest = (...given: Parameters<typeof listPeaksByHour>) =>
    listPeaksByHour(...given).indexOf(90)
  expect(busiest(trace(begin))).toBe(23)
  expect(busiest(trace(begin), 'Europe/Berlin')).toBe(1)
  expect(busiest(trace(0), 'Europe/Berlin')).toBe(1)
  expect(listPeaksByHour(trace(1e14), 'Europe/Berlin')).toHaveLength(24)
  expect(listPeaksByHour(trace(begin)).toSorted()).toEqual(listPeaksByHour(trace(0)).toSorted())
})

test('a peak at ten local time is at ten on every day, through a change of clocks', () => {
  const hours = (days: number, at: (day: number) => string) =>
    Array.from({ length: days }, (_, day) => {
      const ten = Date.parse(at(day)) / 1000
      return `${ten},90\n${ten + 3600},5\n`
    }).join('')
  // Clocks go back in Berlin on the 25th, and forward on 29 March.
  const autumn = hours(4, (day) => `2026-10-${23 + day}T10:00:00+0${day < 2 ? 2 : 1}:00`)
  const spring = hours(4, (day) => `2026-03-${27 + day}T10:00:00+0${day < 2 ? 1 : 2}:00`)
  for (const trace of [autumn, spring]) {
    const peaks = listPeaksByHour(parseTraceDemand(trace, 't.csv'), 'Europe/Berlin')
    expect(peaks.map((rps, hour) => (rps > 5 ? hour : -1)).filter((hour) => hour >= 0)).toEqual([
      10,
    ])
  }
  // Times without a zone are local times of the fleet.
  const naive = parseTraceDemand(
    '2026-10-01 00:00,5\n2026-10-01 10:00,90\n2026-10-01 11:00,5\n2026-10-02 00:00,5\n',
    't.csv',
  )
  expect(listPeaksByHour(naive, 'Asia/Tokyo').indexOf(90)).toBe(10)
})

test('a trace of 25 hours counts once; one of a few hours repeats through the day', () => {
  const hourly = (count: number) =>
    parseTraceDemand(
      Array.from(
        { length: count },
        (_, hour) => `${hour * 3600},${hour % 24 === 9 ? 90 : 5}\n`,
      ).join(''),
      't.csv',
    )
  const at = (count: number) =>
    listPeaksByHour(hourly(count)).flatMap((rps, hour) => (rps > 5 ? [hour] : []))
  expect(at(25)).toEqual([9])
  expect(at(12)).toEqual([9, 21])
})

test('an hour that the one day of a trace lacks takes the higher of its neighbours', () => {
  const day = parseTraceDemand(
    Array.from(
      { length: 24 },
      (_, hour) => `${Date.parse('2026-03-29T00:00:00+01:00') / 1000 + 3600 * hour},${hour + 1}\n`,
    ).join(''),
    't.csv',
  )
  const peaks = listPeaksByHour(day, 'Europe/Berlin')
  expect(peaks.slice(0, 5)).toEqual([24, 2, 3, 3, 4])
  expect(peaks.every((rps) => rps > 0)).toBe(true)
})
