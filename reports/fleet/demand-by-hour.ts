/** The demand of a model by the hours of the day. */
import { type Demand, periodSeconds } from '../plan/demand.ts'

export const hoursPerDay = 24
/** Demands and time zones change at quarters of an hour. */
const stepsPerDay = 96
const stepSeconds = 86_400 / stepsPerDay

/**
 * The highest rate in each hour of the day, over all days of the period. On a day on which clocks
 * change the hours are those that clocks show: an hour that occurs twice counts both times, and an
 * hour that no day of the period has is taken as the higher of its neighbours.
 * @param timezone of the day, IANA
 */
export function peaksByHour(demand: Demand, timezone = 'UTC'): number[] {
  const peaks = new Array<number>(stepsPerDay).fill(Number.NaN)
  const begins = demand.beginsAtS ?? 0
  const ends = begins + Math.max(86_400, periodSeconds(demand))
  const stepAt = localSteps(demand, timezone)
  let fromS = begins
  // A period shorter than a day repeats within it.
  while (fromS < ends - 1e-6) {
    for (const { rps, seconds } of demand.spans) {
      const last = Math.ceil((Math.min(ends, fromS + seconds) - 1e-6) / stepSeconds)
      for (let quarter = Math.floor((fromS + 1e-6) / stepSeconds); quarter < last; quarter++) {
        const step = stepAt(quarter)
        peaks[step] = Math.max(peaks[step] || 0, rps)
      }
      fromS += seconds
    }
  }
  const known = peaks.map((rps, step) =>
    Number.isNaN(rps) ? Math.max(nearestKnown(peaks, step, -1), nearestKnown(peaks, step, 1)) : rps,
  )
  const each = stepsPerDay / hoursPerDay
  return Array.from({ length: hoursPerDay }, (_, hour) =>
    Math.max(...known.slice(hour * each, (hour + 1) * each)),
  )
}

function nearestKnown(peaks: readonly number[], from: number, by: 1 | -1): number {
  let step = from
  while (Number.isNaN(peaks.at(step % stepsPerDay))) step += by
  return peaks.at(step % stepsPerDay)!
}

/**
 * The step of the local day for a quarter of an hour, which counts from 1970, or from midnight
 * where the demand has no date.
 */
function localSteps(demand: Demand, timezone: string): (quarter: number) => number {
  if (demand.beginsAtS === undefined) return (quarter) => quarter % stepsPerDay
  const clock = localSecond(demand.asClocksShow ? 'UTC' : timezone)
  const known = new Map<number, number>()
  return (quarter) => {
    const step = known.get(quarter) ?? Math.floor(clock(quarter * stepSeconds) / stepSeconds)
    known.set(quarter, step)
    return step
  }
}

/** The second of the local day for seconds since 1970. */
function localSecond(timeZone: string): (sinceEpochS: number) => number {
  const clock = new Intl.DateTimeFormat('en', {
    timeZone,
    hourCycle: 'h23',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  return (sinceEpochS) => {
    const part = Object.fromEntries(
      clock.formatToParts(sinceEpochS * 1000).map(({ type, value }) => [type, Number(value)]),
    )
    return part.hour! * 3600 + part.minute! * 60 + part.second!
  }
}

/** Consecutive hours that are alike, as one span. */
export function groupHours<T>(
  byHour: readonly T[],
  keyOf: (one: T) => string,
): { readonly from: number; readonly to: number; readonly value: T }[] {
  const spans: { from: number; to: number; value: T }[] = []
  for (const [hour, value] of byHour.entries()) {
    const last = spans.at(-1)
    if (last !== undefined && keyOf(last.value) === keyOf(value)) last.to = hour + 1
    else spans.push({ from: hour, to: hour + 1, value })
  }
  return spans
}

/** '0-8: 1, 8-24: 2' */
export const formatByHour = (counts: readonly number[]): string =>
  groupHours(counts, String)
    .map(({ from, to, value }) => `${from}-${to}: ${value}`)
    .join(', ')
