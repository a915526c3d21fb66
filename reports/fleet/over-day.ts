/**
 * A day of a model in steps of a quarter of an hour: what is asked of it, and what of it must be in
 * memory.
 */
import { type Demand, periodSeconds } from '../plan/demand.ts'

export const stepsOfDay = 96
export const stepSeconds = 86_400 / stepsOfDay

/** What of a model is in memory over a day, what is loading counted. */
export interface OverDay {
  /** Parts of its highest rate, ascending; the last is 1. */
  readonly levels: readonly number[]
  /** Of each step, how many of the levels are reached: with 0 nothing of the model is in memory. */
  readonly levelAt: readonly number[]
  /** Likewise, how many are asked for: what is loading answers nothing yet. */
  readonly askedAt: readonly number[]
  /** Of its requests of a day, 0-1, those that come when it has left before its hours end. */
  readonly refused?: number
}

/**
 * @param rates what replicas must carry in each step @param aheadS they are in memory so long
 * before they are asked
 * @param mostLevels a day that has more different rates is taken in so many parts of its highest,
 * each rate rounded up
 */
export function overDayOf(rates: readonly number[], aheadS: number, mostLevels = 8): OverDay {
  const ahead = Math.ceil(aheadS / stepSeconds - 1e-9)
  const held = rates.map((_, step) =>
    Math.max(...Array.from({ length: ahead + 1 }, (__, i) => rates[(step + i) % rates.length]!)),
  )
  const most = Math.max(...held)
  const distinct = new Set(held.map((rps) => rps / most))
  // However little is asked, it is in memory.
  const roundedUp = (share: number) =>
    share > 0 ? Math.max(1, Math.ceil(share * mostLevels - 1e-9)) / mostLevels : 0
  const shares =
    distinct.size - Number(distinct.has(0)) <= mostLevels ? (share: number) => share : roundedUp
  const levels = [...new Set(held.map((rps) => shares(rps / most)))]
    .filter((share) => share > 0)
    .sort((a, b) => a - b)
  const levelOf = (rps: number) => levels.findLastIndex((level) => level <= shares(rps / most)) + 1
  return { levels, levelAt: held.map(levelOf), askedAt: rates.map(levelOf) }
}

/** Rates without the last of every span of hours before one in which nothing is asked. */
export function endedEarly(rates: readonly number[], earlyS: number): number[] {
  const early = Math.ceil(earlyS / stepSeconds - 1e-9)
  return rates.map((rps, step) =>
    Array.from({ length: early }, (_, i) => rates[(step + i + 1) % rates.length]).includes(0)
      ? 0
      : rps,
  )
}

/**
 * The highest rate in each step of the day, over all days of the period. A day on which clocks are
 * changed counts by what they show: what comes in an hour that there is twice counts for it, and an
 * hour that no day of the period has is taken as those beside it.
 * @param steps that a day has, quarters of an hour at the least @param timezone of the day, IANA
 */
export function peaksOver(demand: Demand, steps: number, timezone = 'UTC'): number[] {
  const peaks = new Array<number>(stepsOfDay).fill(Number.NaN)
  const begins = demand.beginsAtS ?? 0
  const ends = begins + Math.max(86_400, periodSeconds(demand))
  const shown = quartersShown(demand, timezone)
  let fromS = begins
  // A period shorter than a day begins anew within it.
  while (fromS < ends - 1e-6) {
    for (const { rps, seconds } of demand.spans) {
      const last = Math.ceil((Math.min(ends, fromS + seconds) - 1e-6) / stepSeconds)
      for (let quarter = Math.floor((fromS + 1e-6) / stepSeconds); quarter < last; quarter++) {
        const step = shown(quarter)
        peaks[step] = Math.max(peaks[step] || 0, rps)
      }
      fromS += seconds
    }
  }
  const known = peaks.map((rps, step) =>
    Number.isNaN(rps) ? Math.max(seenBeside(peaks, step, -1), seenBeside(peaks, step, 1)) : rps,
  )
  const each = stepsOfDay / steps
  return Array.from({ length: steps }, (_, step) =>
    Math.max(...known.slice(step * each, (step + 1) * each)),
  )
}

function seenBeside(peaks: readonly number[], from: number, by: 1 | -1): number {
  let step = from
  while (Number.isNaN(peaks.at(step % stepsOfDay))) step += by
  return peaks.at(step % stepsOfDay)!
}

/**
 * Of a quarter of an hour, counted from 1970 or from the midnight at which a demand without a date
 * begins, the step of the day that clocks show.
 */
function quartersShown(demand: Demand, timezone: string): (quarter: number) => number {
  if (demand.beginsAtS === undefined) return (quarter) => quarter % stepsOfDay
  const clock = clockIn(zoneOf(demand, timezone))
  const known = new Map<number, number>()
  return (quarter) => {
    const step = known.get(quarter) ?? Math.floor(clock(quarter * stepSeconds) / stepSeconds)
    known.set(quarter, step)
    return step
  }
}

/** The second of the day at which its period begins, by the clock of the zone. */
export const beginsAt = (demand: Demand, timezone: string): number =>
  demand.beginsAtS === undefined ? 0 : clockIn(zoneOf(demand, timezone))(demand.beginsAtS)

const zoneOf = ({ asClocksShow }: Demand, timezone: string): string =>
  asClocksShow ? 'UTC' : timezone

/** The second of the day by the clock of a zone, of seconds since 1970. */
function clockIn(timeZone: string): (sinceEpochS: number) => number {
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

/** '7:45'. */
export function clockAt(step: number): string {
  const minutes = (step % stepsOfDay) * (stepSeconds / 60)
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, '0')}`
}

/** '6:45-20:00' @param to above the day's end where it is over midnight */
export const spanOf = ({ from, to }: { readonly from: number; readonly to: number }): string =>
  to - from >= stepsOfDay
    ? 'all day'
    : `${clockAt(from)}-${to % stepsOfDay === 0 ? '24:00' : clockAt(to)}`

/** Hours one after the other that are alike, as one. */
export function hourSpans<T>(
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

/** Counts by the hours: '0-8: 1, 8-24: 2'. */
export const hoursSaid = (byHour: readonly number[]): string =>
  hourSpans(byHour, String)
    .map(({ from, to, value }) => `${from}-${to}: ${value}`)
    .join(', ')
