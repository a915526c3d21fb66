/** Demand over time: one period (a day, or a trace) that repeats. */

import { isUnknown, readNumber, readRows } from '../../trials/table-text.ts'
import { rate, significant } from '../format.ts'
import { readPrometheusSeries, readRate, readRateHeading } from './trace-rates.ts'

/** A rate, requests per second, and how long it holds. */
interface DemandSpan {
  readonly rps: number
  readonly seconds: number
}

export interface Demand {
  /** One after the other, each as long as it was given: no peak is averaged away or left out. */
  readonly spans: readonly DemandSpan[]
  /** For people: 'a steady 100 req/s'. */
  readonly what: string
  /** When it begins, seconds since 1970; absent: at midnight of any day. */
  readonly beginsAtS?: number
  /**
   * Its times name no zone: `beginsAtS` is what a clock shows where the requests come, read as if
   * it were UTC.
   */
  readonly asClocksShow?: true
}

/** The demand cannot be read; `hint` says what form it has. */
export class DemandError extends Error {
  constructor(
    message: string,
    readonly hint: string,
  ) {
    super(message)
    this.name = 'DemandError'
  }
  readonly exitCode = 2
}

const daySeconds = 86_400
const aYearSeconds = 365 * daySeconds
/** Of any date. */
const latestSeconds = 8.64e12

/** The same rate around the clock. */
export function steadyDemand(rps: number): Demand {
  if (!(rps > 0 && Number.isFinite(rps)))
    throw new DemandError(
      `cannot plan for a demand of ${rps} requests per second`,
      'use a number above 0',
    )
  return { spans: [{ rps, seconds: daySeconds }], what: `a steady ${rate(rps)}` }
}

/**
 * A day in hours: '0-8:20, 8-20:200, 20-24:60'. Every hour must be there once; half hours are
 * written 8.5, and quarters are the least.
 */
export function tableDemand(text: string): Demand {
  const hint = "write a day as '0-8:20, 8-20:200, 20-24:60' (hours: requests per second)"
  const stepSeconds = 900
  const rps = new Array<number>(daySeconds / stepSeconds).fill(Number.NaN)
  for (const part of text.split(',')) {
    const match = /^\s*(\d+(?:\.\d+)?)\s*-\s*(\d+(?:\.\d+)?)\s*:\s*(\d+(?:\.\d+)?)\s*$/.exec(part)
    const [from, to, value] = (match ?? []).slice(1).map(Number)
    if (from === undefined || to === undefined || value === undefined)
      throw new DemandError(`'${part.trim()}' is not a part of a day`, hint)
    if (to > 24 || from >= to) throw new DemandError(`${from}-${to} is not a span of hours`, hint)
    if (!Number.isFinite(value)) throw new DemandError(`'${part.trim()}' has no usable rate`, hint)
    const uneven = [from, to].find((hour) => hour % 0.25 !== 0)
    if (uneven !== undefined)
      throw new DemandError(
        `hour ${uneven} is not a multiple of a quarter of an hour`,
        'write 8, 8.25, 8.5 or 8.75, or use a trace for other lengths',
      )
    for (let i = from * 4; i < to * 4; i++) {
      if (!Number.isNaN(rps[i])) throw new DemandError(`hour ${i / 4} appears twice`, hint)
      rps[i] = value
    }
  }
  const missing = rps.findIndex(Number.isNaN)
  if (missing >= 0) throw new DemandError(`hour ${missing / 4} is missing`, hint)
  return checked({ spans: spansOf(rps, stepSeconds), what: `a day of ${text.trim()}` })
}

/**
 * A trace: two columns, timestamp (seconds, milliseconds or ISO 8601) and rate, with or without a
 * header, which may name its unit; or one series of Prometheus's JSON. Each rate holds exactly until the next timestamp, the last one as long as the one before
 * it; a last row whole days after the first closes the period and holds for no time, unless its
 * rate is the highest.
 */
export function traceDemand(text: string, file: string): Demand {
  const hint = 'write two columns: timestamp (seconds or ISO 8601), requests per second'
  const { rows, notes } = readRows({ file, text: asTable(text, file) })
  const [first] = rows
  const header =
    first !== undefined &&
    Number.isNaN(timeOf(first.cells[0]!)) &&
    !first.cells.some((cell) => isRate(cell))
      ? 1
      : 0
  const unit = unitOf(rows[header]?.cells[0] ?? '')
  const heading = header === 1 && first?.cells.length === 2 ? first.cells[1]! : ''
  const perSeconds = readRateHeading(heading)
  if (perSeconds === 'unknown span')
    throw new DemandError(
      `${file}:${first!.line}: '${heading}' counts requests, but does not name the period`,
      'rename the column to requests_per_second, requests_per_minute or requests_per_hour; divide sums over other periods first',
    )
  const all = rows.slice(header)
  const known = all.filter(({ cells }) => !isGap(cells))
  const gaps = all.length - known.length
  const samples = known.map(({ cells, line }) => {
    const at = `${file}:${line}: '${cells.join(',')}'`
    const columns = cells.findLastIndex((cell) => cell !== '') + 1
    if (columns !== 2)
      throw new DemandError(
        `${at} has ${columns} column${columns === 1 ? '' : 's'}, but a trace has 2`,
        hint,
      )
    if (!isSample(cells)) throw new DemandError(`${at} is not a timestamp and a rate`, hint)
    return { line, at: timeOf(cells[0]!, unit), rps: readRate(cells[1]!, perSeconds) }
  })
  if (samples.length < 2)
    throw new DemandError(
      `${file} has ${samples.length === 1 ? 'one row' : 'no rows'}`,
      `${hint}, in at least two rows`,
    )
  const steps = samples.slice(1).map((s, i) => s.at - samples[i]!.at)
  const backwards = steps.findIndex((step) => step <= 0)
  if (backwards >= 0)
    throw new DemandError(
      `${file}:${samples[backwards + 1]!.line}: the time does not increase`,
      'sort the trace by time, with each time once; if the clocks are set back, add the offset: 2026-10-25T02:00:00+02:00',
    )
  const days = (samples.at(-1)!.at - samples[0]!.at) / daySeconds
  const spans = samples.map(
    ({ rps }, i): DemandSpan => ({ rps, seconds: steps[i] ?? steps.at(-1)! }),
  )
  const closes =
    days >= 1 &&
    Math.abs(days - Math.round(days)) < 1e-9 &&
    spans.slice(0, -1).some(({ rps }) => rps >= spans.at(-1)!.rps)
  const beginsAtS = samples[0]!.at
  // Smaller numbers are seconds since the trace's own beginning; larger ones no calendar has.
  const demand = {
    spans: closes ? spans.slice(0, -1) : spans,
    what: '',
    ...(beginsAtS > aYearSeconds &&
      beginsAtS < latestSeconds && {
        beginsAtS,
        ...(isOfClock(rows[header]!.cells[0]!) && asClocksShow),
      }),
  }
  const lasts = timeSaid(periodSeconds(demand))
  const told =
    perSeconds === 1 ? '' : `; '${heading}' is read as requests in ${timeSaid(perSeconds)}`
  const withoutRate = gaps > 0 ? `; ${gaps} rows without a rate, filled with the rate before` : ''
  return checked({
    ...demand,
    what: `the trace ${file} (${demand.spans.length} rates over ${lasts}${holeIn(demand)}${told}${withoutRate}${notes.map((note) => note.replace(`${file}:`, ';')).join('')})`,
  })
}

/** Two columns of a JSON answer of Prometheus; any other text as it is. */
function asTable(text: string, file: string): string {
  if (!/^\s*[[{]/.test(text)) return text
  const series = readPrometheusSeries(text)
  if (series?.length === 1) return series[0]!.map(([at, value]) => `${at},${value}`).join('\n')
  throw new DemandError(
    series === undefined
      ? `${file} is JSON, but not an answer of Prometheus to query_range`
      : `${file} has ${series.length} series, but a trace has one`,
    series === undefined
      ? 'write two columns: timestamp, requests per second'
      : 'add them up in the query: sum(rate(http_requests_total[1m]))',
  )
}

const timeSaid = (seconds: number): string =>
  seconds >= 3600
    ? `${significant(seconds / 3600)} h`
    : seconds >= 60
      ? `${significant(seconds / 60)} min`
      : `${significant(seconds)} s`

/** Where rows are missing a rate is held for long: that is told. */
function holeIn({ spans }: Pick<Demand, 'spans'>): string {
  const lasting = spans.map(({ seconds }) => seconds).sort((a, b) => a - b)
  const [usual, longest] = [lasting[Math.floor(lasting.length / 2)]!, lasting.at(-1)!]
  return longest > mostHeld * usual
    ? `; one lasts ${timeSaid(longest)}, most last ${timeSaid(usual)}`
    : ''
}

/** Times as long as most rates: rows are missing, or were written when the rate changed. */
const mostHeld = 10

const isRate = (cell: string): boolean => readRate(cell) >= 0
const isSample = ([time = '', rps = '']: readonly string[]): boolean =>
  !Number.isNaN(timeOf(time)) && isRate(rps)
/** A time without a value, as monitoring exports it. */
const isGap = ([time = '', ...others]: readonly string[]): boolean =>
  others.length > 0 && others.every(isUnknown) && !Number.isNaN(timeOf(time))

const asClocksShow = { asClocksShow: true } as const
const isOfClock = (text: string): boolean =>
  Number.isNaN(readNumber(text)) && isoParts(text)?.zone === undefined

/** ISO 8601 as exports have it: slashes (CloudWatch), a blank for the T, the zone's colon left out, a date alone. */
function isoParts(
  text: string,
): { readonly date: string; readonly time: string; readonly zone?: string } | undefined {
  const found =
    /^\s*(\d{4}([-/])\d\d\2\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)\s*(?:(Z)|([+-]\d\d)(?::?(\d\d))?)?)?\s*$/i.exec(
      text,
    )
  if (!found) return undefined
  const [, date = '', , time = '00:00', utc, hours, minutes = '00'] = found
  return {
    date: date.replaceAll('/', '-'),
    time,
    ...(utc ? { zone: 'Z' } : hours && { zone: `${hours}:${minutes}` }),
  }
}

/**
 * Seconds; of a text without a zone as if it were UTC, whatever the zone of this machine. @param
 * unit of numbers, so many in a second
 */
function timeOf(text: string, unit = 1): number {
  const number = readNumber(text)
  if (!Number.isNaN(number)) return number / unit
  const iso = isoParts(text)
  return iso === undefined
    ? Number.NaN
    : Date.parse(`${iso.date}T${iso.time}${iso.zone ?? 'Z'}`) / 1000
}

/**
 * Numbers that begin so high are milliseconds, microseconds or nanoseconds since 1970: in seconds
 * the least of each would be the year 5138.
 */
const unitOf = (first: string): number =>
  unitsOfTime.find(([from]) => Number(first) > from)?.[1] ?? 1
const unitsOfTime = [
  [1e17, 1e9],
  [1e14, 1e6],
  [1e11, 1e3],
] as const

/**
 * Shapes of practice, as shares of the peak over a day, in steps of five minutes.
 * daily: a smooth valley at night (a fifth of the peak at 4 am) and a peak at 3 pm. evening-bursts:
 * a low day, then half-hour bursts between 7 and 11 pm. periodic-jobs: a batch of ten minutes at
 * the peak every hour over a low base. low-mean: nearly idle, with two short daily peaks.
 */
export const demandPatterns = ['daily', 'evening-bursts', 'periodic-jobs', 'low-mean'] as const
type DemandPattern = (typeof demandPatterns)[number]

const shapes: Readonly<Record<DemandPattern, (hour: number) => number>> = {
  daily: (hour) => 0.6 - 0.4 * Math.cos((2 * Math.PI * (hour - 3)) / 24),
  'evening-bursts': (hour) =>
    hour >= 19 && hour < 23 && hour % 1 < 0.5 ? 1 : hour >= 7 && hour < 23 ? 0.3 : 0.1,
  'periodic-jobs': (hour) => (hour % 1 < 1 / 6 ? 1 : 0.08),
  'low-mean': (hour) =>
    Math.max(
      0.05,
      Math.exp(-(((hour - 10) / 0.7) ** 2)),
      0.8 * Math.exp(-(((hour - 17) / 0.7) ** 2)),
    ),
}

/** A day of a pattern whose highest sample is `peakRps`. */
export function patternDemand(pattern: DemandPattern, peakRps: number): Demand {
  if (!(peakRps > 0 && Number.isFinite(peakRps)))
    throw new DemandError(
      `cannot plan for a peak of ${peakRps} requests per second`,
      'set --peak to a number above 0',
    )
  const stepSeconds = 300
  const shares = Array.from({ length: daySeconds / stepSeconds }, (_, i) =>
    shapes[pattern]((i * stepSeconds) / 3600),
  )
  const highest = Math.max(...shares)
  return {
    spans: spansOf(
      shares.map((share) => (peakRps * share) / highest),
      stepSeconds,
    ),
    what: `pattern ${pattern} with a peak of ${rate(peakRps)}`,
  }
}

function checked(demand: Demand): Demand {
  if (!(peakOf(demand) > 0))
    throw new DemandError('the demand is 0 all the time', 'there is nothing to plan')
  return demand
}

const spansOf = (rps: readonly number[], seconds: number): DemandSpan[] =>
  rps.map((r) => ({ rps: r, seconds }))

export const periodSeconds = ({ spans }: Pick<Demand, 'spans'>): number =>
  spans.reduce((sum, { seconds }) => sum + seconds, 0)
/** At which its period begins: UTC, or what clocks show where its times name no zone. */
export const secondOfDay = ({ beginsAtS = 0 }: Pick<Demand, 'beginsAtS'>): number =>
  beginsAtS % daySeconds
/**
 * The same, its period so often that it takes some time: what scales needs longer than that to
 * settle.
 */
export function repeated(demand: Demand, leastSeconds: number): Demand {
  const times = Math.max(1, Math.ceil(leastSeconds / periodSeconds(demand) - 1e-9))
  return times === 1
    ? demand
    : { ...demand, spans: Array.from({ length: times }, () => demand.spans).flat() }
}
export const peakOf = ({ spans }: Demand): number =>
  spans.reduce((peak, { rps }) => Math.max(peak, rps), 0)
export const leastOf = ({ spans }: Demand): number =>
  spans.reduce((least, { rps }) => Math.min(least, rps), Number.POSITIVE_INFINITY)
/** Over time: a rate counts as long as it holds. */
export const meanOf = (demand: Demand): number =>
  demand.spans.reduce((sum, { rps, seconds }) => sum + rps * seconds, 0) / periodSeconds(demand)
export const scaled = (demand: Demand, factor: number): Demand => ({
  ...demand,
  spans: demand.spans.map(({ rps, seconds }) => ({ rps: rps * factor, seconds })),
})
