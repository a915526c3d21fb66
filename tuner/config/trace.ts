/**
 * Arrival traces: when requests arrived and, if recorded, their items and bodies. The unit of times
 * comes from the file or the user, never from a guess.
 */

import type { PayloadOrder } from '../../profiler/payload-source.ts'
import { readNumber, type TextRow } from '../../trials/table-text.ts'
import { findLengthColumns, hasNoTokens } from './recorded-lengths.ts'
import { isRequestTrace, readRequestTrace } from './request-trace.ts'
import { readTraceRows } from './trace-rows.ts'
import { millisecondsPer, parseTimeHeader, type TimeUnit } from './values/time-unit.ts'
import { UnitError } from './values/units.ts'

interface Trace {
  /** Arrival times from the start of the trace, ms, ascending. */
  readonly atMs: readonly number[]
  /** Unit of the times in the file, and how it was determined: 's (BurstGPT)'. */
  readonly readAs: string
  /** Payload of each arrival; absent for a trace with only times. */
  readonly order?: PayloadOrder
}

const hint =
  "write one arrival per line, in ms from the start, ascending; name further columns in a header: 'ms,items,body'; or use a public trace of language models, with 'timestamp'"
/** Names of the columns besides the time. */
const columns: Readonly<Record<string, 'items' | 'bodies'>> = {
  items: 'items',
  size: 'items',
  body: 'bodies',
  payload: 'bodies',
}

/**
 * Reads a trace: one arrival a line, columns apart by comma, semicolon or tab. Without a header the
 * first column is the time in whole ms, and other columns are ignored. From public traces of
 * language models (Azure, BurstGPT, JSON Lines of Mooncake and Bailian) it reads the requests that
 * `readLengths` reads.
 * @param shown name in errors
 * @param unit of the times; default: detected
 * @throws UnitError that names the line, or asks for the unit
 */
export function readTrace(path: string, shown: string, unit?: TimeUnit): Trace {
  if (isRequestTrace(path)) {
    const { requests, readAs } = readRequestTrace(path, shown, unit)
    return {
      atMs: startAtZero(
        requests.map(({ atMs }) => atMs),
        shown,
      ),
      readAs,
    }
  }
  const rows = readTraceRows(path, shown, 'trace', hint)
  const first = rows[0]?.cells[0] ?? ''
  return first !== '' && Number.isNaN(readNumber(first))
    ? readTableWithHeader(path, rows[0]!.cells, rows.slice(1), shown, unit)
    : readTimesOnly(rows, shown, unit)
}

function readTimesOnly(rows: readonly TextRow[], shown: string, unit: TimeUnit | undefined): Trace {
  const times = rows.map(({ where, cells }) => {
    const time = readNumber(cells[0])
    if (!(time >= 0)) throw new UnitError(`${where}: '${cells[0]}' is not a time`, hint)
    return time
  })
  if (unit === undefined && times.some((time) => !Number.isInteger(time)))
    throw askForUnit(shown, 'it has fractions and no header')
  const atMs = times.map((time) => time * millisecondsPer[unit ?? 'ms'])
  checkAscending(atMs, rows, 0)
  checkArrivalCount(atMs, shown)
  return { atMs, readAs: unit === undefined ? 'ms (no header)' : `${unit} (as requested)` }
}

const askForUnit = (shown: string, why: string): UnitError =>
  new UnitError(
    `${shown}: the unit of its times is unknown: ${why}`,
    `set it: trace:${shown}:s for seconds, or :ms, :us, :ns; or name it in a header, such as 'at_ms,items'`,
  )

function readTableWithHeader(
  path: string,
  header: readonly string[],
  all: readonly TextRow[],
  shown: string,
  unit: TimeUnit | undefined,
): Trace {
  const at = header.findIndex((cell) => parseTimeHeader(cell) !== undefined)
  if (at < 0)
    throw new UnitError(
      `${shown}:1: no column of times among ${header.filter((cell) => cell !== '').join(', ')}`,
      hint,
    )
  const names = header.map((cell) => columns[cell.toLowerCase()])
  const [itemsAt, bodiesAt] = [names.indexOf('items'), names.indexOf('bodies')]
  // Failed requests are recorded without tokens.
  const lengths = findLengthColumns(header).filter((column) => column >= 0)
  const rows = all.filter(({ cells }) => !lengths.some((column) => hasNoTokens(cells[column])))
  const { times, readAs } = readTimes(rows, header, at, shown, unit)
  checkAscending(times, rows, at)
  const startsAtZero = parseTimeHeader(header[at]!)?.unit !== undefined && lengths.length === 0
  const atMs = startsAtZero ? times : startAtZero(times, shown)
  checkArrivalCount(atMs, shown)
  if (itemsAt < 0 && bodiesAt < 0) return { atMs, readAs }
  const wholeNumbers = (column: number, min: number, what: string) =>
    rows.map(({ where, cells }) => {
      const cell = cells[column] ?? ''
      if (!/^\d+$/.test(cell) || Number(cell) < min)
        throw new UnitError(`${where}: '${cell}' is not a ${what}`, hint)
      return Number(cell)
    })
  return {
    atMs,
    readAs,
    order: {
      file: path,
      lines: rows.map(({ line }) => line),
      ...(itemsAt >= 0 && { items: wholeNumbers(itemsAt, 1, 'number of items, from 1') }),
      ...(bodiesAt >= 0 && { bodies: wholeNumbers(bodiesAt, 0, 'number of a body, from 0') }),
    },
  }
}

/**
 * Times of a column, ms: dates; numbers in the unit of the user or of the header; times since 1970,
 * which tell their unit by their size; or those of BurstGPT, which has seconds.
 */
function readTimes(
  rows: readonly TextRow[],
  header: readonly string[],
  at: number,
  shown: string,
  unit: TimeUnit | undefined,
): { readonly times: number[]; readonly readAs: string } {
  const cells = rows.map((row) => row.cells[at] ?? '')
  const numbers = cells.map(readNumber)
  const isDates = numbers.every(Number.isNaN)
  const times = isDates ? cells.map((cell) => Date.parse(assumeUtc(cell))) : numbers
  const bad = times.findIndex((time) => !(time >= 0))
  if (bad >= 0) throw new UnitError(`${rows[bad]!.where}: '${cells[bad]}' is not a time`, hint)
  if (isDates) return { times, readAs: 'dates' }
  const headerUnit = parseTimeHeader(header[at]!)?.unit
  const timeUnit =
    unit ??
    headerUnit ??
    guessTimeUnit(numbers.reduce((min, time) => Math.min(min, time), Number.POSITIVE_INFINITY))
  if (timeUnit !== undefined) {
    const source =
      unit !== undefined
        ? 'as requested'
        : headerUnit !== undefined
          ? 'by its header'
          : 'since 1970'
    return {
      times: numbers.map((time) => time * millisecondsPer[timeUnit]),
      readAs: `${timeUnit} (${source})`,
    }
  }
  if (isBurstGpt(header))
    return { times: numbers.map((time) => time * 1000), readAs: 's (BurstGPT)' }
  throw askForUnit(shown, `the name of its column '${header[at]}' has no unit`)
}

/** Its columns: Timestamp, Model, Request tokens, Response tokens, Total tokens, Log Type. */
const isBurstGpt = (header: readonly string[]): boolean =>
  ['request tokens', 'response tokens'].every((name) =>
    header.some((cell) => cell.toLowerCase() === name),
  )

/**
 * Unit of an epoch between 2001 and 2286: units differ by a factor of 1000, so their ranges do not
 * overlap.
 */
function guessTimeUnit(time: number): TimeUnit | undefined {
  const units = [
    [1e18, 'ns'],
    [1e15, 'us'],
    [1e12, 'ms'],
    [1e9, 's'],
  ] as const
  return units.find(([from]) => time >= from && time < 10 * from)?.[1]
}

/** '2023-11-16 18:17:03.9799600' is read as UTC: only differences between times matter. */
const assumeUtc = (cell: string): string =>
  cell.replace(' ', 'T') + (/(Z|[+-]\d\d:?\d\d)$/.test(cell) ? '' : 'Z')

function checkAscending(times: readonly number[], rows: readonly TextRow[], column: number): void {
  const row = times.findIndex((time, i) => i > 0 && time < times[i - 1]!)
  if (row >= 0)
    throw new UnitError(
      `${rows[row]!.where}: '${rows[row]!.cells[column]}' is before the line above`,
      'sort its lines by time',
    )
}

function startAtZero(times: readonly number[], shown: string): number[] {
  checkArrivalCount(times, shown)
  return times.map((ms) => ms - times[0]!)
}

function checkArrivalCount(times: readonly number[], shown: string): void {
  if (times.length < 2)
    throw new UnitError(`the trace ${shown} has ${times.length} arrivals`, 'use at least two')
}

/** A window this many times shorter or longer than its trace is more likely a wrong unit. */
const maxSpanRatio = 100

/**
 * Notices on a trace before it is played: its requests and duration, and a warning if its duration
 * differs so much from `durationS` that the unit may be wrong.
 */
export function describeTrace(
  { atMs }: Pick<Trace, 'atMs'>,
  readAs: string,
  durationS: number,
): string[] {
  const spanS = atMs.at(-1)! / 1000
  const sent = atMs.filter((ms) => ms < durationS * 1000).length
  const whole = `trace: ${atMs.length} requests over ${Number(spanS.toPrecision(3))} s, times read as ${readAs}`
  const part =
    sent < atMs.length ? `; the first ${sent} are sent in a window of ${durationS} s` : ''
  const ratio = spanS / durationS
  return [
    `${whole}${part}`,
    ...(ratio < 1 / maxSpanRatio || ratio > maxSpanRatio
      ? [
          `warning: a trace over ${Number(spanS.toPrecision(3))} s for a window of ${durationS} s: if its times are not in ${readAs.split(' ')[0]}, set their unit with trace:FILE:s, :ms, :us or :ns`,
        ]
      : []),
  ]
}
