/** Demand traces: timestamps and rates, as a table or as JSON of Prometheus. */
import { isUnknown, readNumber, readRows, type TextRow } from '../../trials/table-text.ts'
import { significant } from '../format.ts'
import {
  type Demand,
  DemandError,
  type DemandSpan,
  daySeconds,
  requireDemand,
  sumPeriodSeconds,
} from './demand.ts'
import { readPrometheusSeries, readRate, readRateHeading } from './trace-rates.ts'

/** Smaller times are seconds since the trace's own beginning, not since 1970. */
const minDateSeconds = 365 * daySeconds
/** The last date of a calendar in JavaScript, seconds since 1970. */
const maxDateSeconds = 8.64e12

const formHint = 'write two columns: timestamp (seconds or ISO 8601), requests per second'

/**
 * Reads a trace: two columns, timestamp (seconds, milliseconds or ISO 8601) and rate, with or
 * without a header, which may name the unit; or one series of Prometheus's JSON. Each rate lasts
 * until the next timestamp, the last one as long as the one before it. A last row whole days after
 * the first only closes the period, unless its rate is the highest.
 */
export function parseTraceDemand(text: string, file: string): Demand {
  const { rows, notes } = readRows({ file, text: toTable(text, file) })
  const header = rows[0] && isHeader(rows[0]) ? rows[0] : undefined
  const dataRows = rows.slice(header ? 1 : 0)
  const heading = header?.cells.length === 2 ? header.cells[1]! : ''
  const perSeconds = readRateHeading(heading)
  if (perSeconds === 'unknown span')
    throw new DemandError(
      `${file}:${header!.line}: '${heading}' counts requests, but does not name the period`,
      'rename the column to requests_per_second, requests_per_minute or requests_per_hour; divide sums over other periods first',
    )
  const knownRows = dataRows.filter(({ cells }) => !isGap(cells))
  const firstTime = dataRows[0]?.cells[0] ?? ''
  const samples = readSamples(knownRows, file, detectUnitsPerSecond(firstTime), perSeconds)
  const beginsAtS = samples[0]!.at
  const demand = {
    spans: toSpans(samples),
    what: '',
    ...(beginsAtS > minDateSeconds &&
      beginsAtS < maxDateSeconds && {
        beginsAtS,
        ...(hasNoZone(firstTime) && { isLocalTime: true as const }),
      }),
  }
  const gaps = dataRows.length - knownRows.length
  const details = [
    `${demand.spans.length} rates over ${formatSpan(sumPeriodSeconds(demand))}${describeGap(demand)}`,
    ...(perSeconds === 1 ? [] : [`'${heading}' is read as requests in ${formatSpan(perSeconds)}`]),
    ...(gaps > 0 ? [`${gaps} rows without a rate, filled with the rate before`] : []),
  ]
  const noteTexts = notes.map((note) => note.replace(`${file}:`, ';')).join('')
  return requireDemand({ ...demand, what: `the trace ${file} (${details.join('; ')}${noteTexts})` })
}

const isHeader = ({ cells }: TextRow): boolean =>
  Number.isNaN(parseTime(cells[0]!)) && !cells.some((cell) => isRate(cell))

interface Sample {
  readonly line: number
  /** Time, seconds. */
  readonly at: number
  readonly rps: number
}

/**
 * @param unitsPerSecond units of numeric timestamps in a second: 1000 for milliseconds
 * @param perSeconds seconds that rates without a unit count requests over
 * @returns two or more samples by rising time
 */
function readSamples(
  rows: readonly TextRow[],
  file: string,
  unitsPerSecond: number,
  perSeconds: number,
): Sample[] {
  const samples = rows.map(({ cells, line }): Sample => {
    const place = `${file}:${line}: '${cells.join(',')}'`
    const columns = cells.findLastIndex((cell) => cell !== '') + 1
    if (columns !== 2)
      throw new DemandError(
        `${place} has ${columns} column${columns === 1 ? '' : 's'}, but a trace has 2`,
        formHint,
      )
    if (!isSample(cells)) throw new DemandError(`${place} is not a timestamp and a rate`, formHint)
    return { line, at: parseTime(cells[0]!, unitsPerSecond), rps: readRate(cells[1]!, perSeconds) }
  })
  if (samples.length < 2)
    throw new DemandError(
      `${file} has ${samples.length === 1 ? 'one row' : 'no rows'}`,
      `${formHint}, in at least two rows`,
    )
  const backwards = samples.find(({ at }, i) => i > 0 && at <= samples[i - 1]!.at)
  if (backwards)
    throw new DemandError(
      `${file}:${backwards.line}: the time does not increase`,
      'sort the trace by time, with each time once; if the clocks are set back, add the offset: 2026-10-25T02:00:00+02:00',
    )
  return samples
}

function toSpans(samples: readonly Sample[]): DemandSpan[] {
  const steps = samples.slice(1).map(({ at }, i) => at - samples[i]!.at)
  const spans = samples.map(
    ({ rps }, i): DemandSpan => ({ rps, seconds: steps[i] ?? steps.at(-1)! }),
  )
  const days = (samples.at(-1)!.at - samples[0]!.at) / daySeconds
  const closesPeriod =
    days >= 1 &&
    Math.abs(days - Math.round(days)) < 1e-9 &&
    spans.slice(0, -1).some(({ rps }) => rps >= spans.at(-1)!.rps)
  return closesPeriod ? spans.slice(0, -1) : spans
}

/** Two columns of a JSON answer of Prometheus; any other text as it is. */
function toTable(text: string, file: string): string {
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

const formatSpan = (seconds: number): string =>
  seconds >= 3600
    ? `${significant(seconds / 3600)} h`
    : seconds >= 60
      ? `${significant(seconds / 60)} min`
      : `${significant(seconds)} s`

/** Names a rate that lasts far longer than most: rows may be missing. '' where there is none. */
function describeGap({ spans }: Pick<Demand, 'spans'>): string {
  const seconds = spans.map((span) => span.seconds).sort((a, b) => a - b)
  const [usual, longest] = [seconds[Math.floor(seconds.length / 2)]!, seconds.at(-1)!]
  return longest > maxSpanRatio * usual
    ? `; one lasts ${formatSpan(longest)}, most last ${formatSpan(usual)}`
    : ''
}

/** A rate that lasts longer than this multiple of the median is reported. */
const maxSpanRatio = 10

const isRate = (cell: string): boolean => readRate(cell) >= 0
const isSample = ([time = '', rps = '']: readonly string[]): boolean =>
  !Number.isNaN(parseTime(time)) && isRate(rps)
/** A time without a value, as monitoring exports it. */
const isGap = ([time = '', ...others]: readonly string[]): boolean =>
  others.length > 0 && others.every(isUnknown) && !Number.isNaN(parseTime(time))

const hasNoZone = (text: string): boolean =>
  Number.isNaN(readNumber(text)) && splitIso(text)?.zone === undefined

/**
 * ISO 8601 as exports write it: '2026-10-25T02:00:00+02:00', '2026/10/25 02:00' (CloudWatch),
 * '2026-10-25 02:00:00 +0200', or a date alone.
 */
function splitIso(
  text: string,
): { readonly date: string; readonly time: string; readonly zone?: string } | undefined {
  const match =
    /^\s*(\d{4}([-/])\d\d\2\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)\s*(?:(Z)|([+-]\d\d)(?::?(\d\d))?)?)?\s*$/i.exec(
      text,
    )
  if (!match) return undefined
  const [, date = '', , time = '00:00', utc, hours, minutes = '00'] = match
  return {
    date: date.replaceAll('/', '-'),
    time,
    ...(utc ? { zone: 'Z' } : hours && { zone: `${hours}:${minutes}` }),
  }
}

/**
 * Parses a time in seconds; NaN for other text. Times without a zone are read as UTC, whatever the
 * zone of this machine.
 * @param unitsPerSecond units of numeric times in a second
 */
function parseTime(text: string, unitsPerSecond = 1): number {
  const number = readNumber(text)
  if (!Number.isNaN(number)) return number / unitsPerSecond
  const iso = splitIso(text)
  return iso === undefined
    ? Number.NaN
    : Date.parse(`${iso.date}T${iso.time}${iso.zone ?? 'Z'}`) / 1000
}

/**
 * Units in a second, by the first number of a trace: large ones are milliseconds, microseconds or
 * nanoseconds since 1970. The lowest of these, in seconds, would be in the year 5138.
 */
const detectUnitsPerSecond = (first: string): number =>
  timeUnits.find(([from]) => Number(first) > from)?.[1] ?? 1
const timeUnits = [
  [1e17, 1e9],
  [1e14, 1e6],
  [1e11, 1e3],
] as const
