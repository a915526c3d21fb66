/** The demand of a model by the hours of the day. */
import { type Demand, daySeconds, sumPeriodSeconds } from '../plan/demand.ts'

export const hoursPerDay = 24
/** Resolution. UTC offsets in use today are multiples of 15 minutes. */
const stepSeconds = 900
/** Tolerance for sums of span lengths, which may be fractions of a second. */
const roundingToleranceS = 1e-6

/**
 * Lists the highest rate in each hour of the day, over all days of the period. On a day on which
 * clocks change, the hours are those that clocks show: an hour that occurs twice counts both times.
 * An hour that occurs on no day of the period takes the higher rate of its neighbours. Without a
 * beginning, the period begins at midnight; local times are processed as UTC.
 * @param timezone of the day, IANA
 */
export function listPeaksByHour(demand: Demand, timezone = 'UTC'): number[] {
  const { spans, beginsAtS, isLocalTime } = demand
  const beginS = beginsAtS ?? 0
  const endS = beginS + Math.max(daySeconds, sumPeriodSeconds(demand))
  const getHour = createHourReader(beginsAtS === undefined || isLocalTime ? 'UTC' : timezone)
  const peaks = new Array<number>(hoursPerDay).fill(Number.NaN)
  let fromS = beginS
  // Repeats a period that is shorter than a day until it covers one.
  while (fromS < endS - roundingToleranceS) {
    for (const { rps, seconds } of spans) {
      const lastStep = Math.ceil(
        (Math.min(endS, fromS + seconds) - roundingToleranceS) / stepSeconds,
      )
      for (
        let step = Math.floor((fromS + roundingToleranceS) / stepSeconds);
        step < lastStep;
        step++
      ) {
        const hour = getHour(step)
        peaks[hour] = Math.max(peaks[hour] || 0, rps)
      }
      fromS += seconds
    }
  }
  return peaks.map((rps, hour) =>
    Number.isNaN(rps)
      ? Math.max(findNearestKnown(peaks, hour, -1), findNearestKnown(peaks, hour, 1))
      : rps,
  )
}

function findNearestKnown(peaks: readonly number[], from: number, direction: 1 | -1): number {
  let hour = from
  while (Number.isNaN(peaks.at(hour % hoursPerDay))) hour += direction
  return peaks.at(hour % hoursPerDay)!
}

/** Creates a function that reads the hour that clocks show at a step, counted since 1970. */
function createHourReader(timeZone: string): (step: number) => number {
  const clock = new Intl.DateTimeFormat('en', { timeZone, hourCycle: 'h23', hour: 'numeric' })
  const hourByStep = new Map<number, number>()
  return (step) => {
    const hour = hourByStep.get(step) ?? Number(clock.format(step * stepSeconds * 1000))
    hourByStep.set(step, hour)
    return hour
  }
}

/** Merges consecutive hours with equal keys into spans [from, to). */
export function groupHours<T>(
  byHour: readonly T[],
  getKey: (one: T) => string,
): { readonly from: number; readonly to: number; readonly value: T }[] {
  const spans: { from: number; to: number; value: T }[] = []
  for (const [hour, value] of byHour.entries()) {
    const last = spans.at(-1)
    if (last !== undefined && getKey(last.value) === getKey(value)) last.to = hour + 1
    else spans.push({ from: hour, to: hour + 1, value })
  }
  return spans
}

/** '0-8: 1, 8-24: 2' */
export const formatByHour = (counts: readonly number[]): string =>
  groupHours(counts, String)
    .map(({ from, to, value }) => `${from}-${to}: ${value}`)
    .join(', ')
