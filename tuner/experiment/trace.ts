/**
 * Arrival traces: when requests came, and where the trace says so how many items each had and which
 * body it was. The unit of its times is the file's own or the user's, never a guess.
 */

import type { PayloadOrder } from '../../profiler/payload-source.ts'
import { readRows } from './delimited.ts'
import { lengthColumns } from './lengths.ts'
import { isRequestTrace, readRequestTrace } from './request-trace.ts'
import { millisecondsPer, parseTimeHeader, type TimeUnit } from './time-unit.ts'
import { UnitError } from './units.ts'

export interface Trace {
  /** From its start, ascending. Length n. */
  readonly atMs: readonly number[]
  /** The unit of its times in the file, and where it comes from: 's (BurstGPT)'. */
  readonly readAs: string
  /** Absent for a trace of times alone. */
  readonly order?: PayloadOrder
}

const hint =
  "one arrival a line, ms from the start, ascending; further columns by a header: 'ms,items,body'; or a public trace of language models, with 'timestamp'"
/** What a header calls the columns beside the time. */
const columns: Readonly<Record<string, 'items' | 'bodies'>> = {
  items: 'items',
  size: 'items',
  body: 'bodies',
  payload: 'bodies',
}

/**
 * Reads a trace: one arrival a line, columns apart by comma, semicolon or tab. Without a header the
 * first column is the time, whole numbers of ms, and others mean nothing. Of public traces of
 * language models (Azure's, BurstGPT, JSON Lines of Mooncake and Bailian) those requests that
 * `readLengths` takes.
 * @param shown how errors call it
 * @param unit of the times where the user names it
 * @throws UnitError that names the line, or asks for the unit
 */
export function readTrace(path: string, shown: string, unit?: TimeUnit): Trace {
  if (isRequestTrace(path)) {
    const { requests, readAs } = readRequestTrace(path, shown, unit)
    return {
      atMs: countedFromFirst(
        requests.map(({ atMs }) => atMs),
        shown,
      ),
      readAs,
    }
  }
  const rows = readRows(path, 'trace', hint)
  const first = rows[0]?.[0] ?? ''
  return first !== '' && !Number.isFinite(Number(first))
    ? readTableWithHeader(path, rows, shown, unit)
    : readTimesAlone(rows, shown, unit)
}

/** Lines of a table that say something, with their number from 1. */
const filledRows = (
  rows: readonly (readonly string[])[],
): { readonly row: readonly string[]; readonly line: number }[] =>
  rows.flatMap((row, i) => (row.every((cell) => cell === '') ? [] : [{ row, line: i + 1 }]))

function readTimesAlone(
  rows: readonly (readonly string[])[],
  shown: string,
  unit: TimeUnit | undefined,
): Trace {
  const times = filledRows(rows).map(({ row, line }) => {
    const time = row[0] === '' ? Number.NaN : Number(row[0])
    if (!Number.isFinite(time) || time < 0)
      throw new UnitError(`${shown}:${line}: '${row[0]}' is no time`, hint)
    return { time, line }
  })
  if (unit === undefined && times.some(({ time }) => !Number.isInteger(time)))
    throw askForUnit(shown, 'it has fractions and no header')
  const atMs = times.map(({ time }) => time * millisecondsPer[unit ?? 'ms'])
  checkAscending(
    atMs,
    times.map(({ line }) => line),
    rows,
    0,
    shown,
  )
  atLeastTwo(atMs, shown)
  return { atMs, readAs: unit === undefined ? 'ms (no header)' : `${unit} (as requested)` }
}

const askForUnit = (shown: string, why: string): UnitError =>
  new UnitError(
    `${shown}: the unit of its times is not known: ${why}`,
    `say it: trace:${shown}:s for seconds, or :ms, :us, :ns; or name it in a header, as in 'at_ms,items'`,
  )

function readTableWithHeader(
  path: string,
  rows: readonly (readonly string[])[],
  shown: string,
  unit: TimeUnit | undefined,
): Trace {
  const header = rows[0]!
  const at = header.findIndex((cell) => parseTimeHeader(cell) !== undefined)
  if (at < 0)
    throw new UnitError(
      `${shown}:1: no column of times among ${header.filter((cell) => cell !== '').join(', ')}`,
      hint,
    )
  const names = header.map((cell) => columns[cell.toLowerCase()])
  const [itemsAt, bodiesAt] = [names.indexOf('items'), names.indexOf('bodies')]
  // Failed requests are recorded with 0 tokens.
  const lengths = lengthColumns(header).filter((column) => column >= 0)
  const filled = filledRows(rows)
    .slice(1)
    .filter(({ row }) => !lengths.some((column) => Number(row[column]) === 0))
  const cells = filled.map(({ row }) => row[at] ?? '')
  const lines = filled.map(({ line }) => line)
  const { times, readAs } = readTimes(cells, lines, header, at, shown, unit)
  checkAscending(times, lines, rows, at, shown)
  const startsAtZero = parseTimeHeader(header[at]!)?.unit !== undefined && lengths.length === 0
  const atMs = startsAtZero ? times : countedFromFirst(times, shown)
  atLeastTwo(atMs, shown)
  if (itemsAt < 0 && bodiesAt < 0) return { atMs, readAs }
  const wholeNumbers = (column: number, min: number, what: string) =>
    filled.map(({ row, line }) => {
      const cell = row[column] ?? ''
      if (!/^\d+$/.test(cell) || Number(cell) < min)
        throw new UnitError(`${shown}:${line}: '${cell}' is no ${what}`, hint)
      return Number(cell)
    })
  return {
    atMs,
    readAs,
    order: {
      file: path,
      lines,
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
  cells: readonly string[],
  lines: readonly number[],
  header: readonly string[],
  at: number,
  shown: string,
  unit: TimeUnit | undefined,
): { readonly times: number[]; readonly readAs: string } {
  const isNumber = (cell: string) => /^\d+(\.\d+)?(e[+-]?\d+)?$/i.test(cell)
  const wrong = (i: number): never => {
    throw new UnitError(`${shown}:${lines[i]}: '${cells[i]}' is no time`, hint)
  }
  if (!cells.some(isNumber)) {
    const times = cells.map((cell) => Date.parse(withZone(cell)))
    const bad = times.findIndex((ms) => !Number.isFinite(ms))
    return bad < 0 ? { times, readAs: 'dates' } : wrong(bad)
  }
  const bad = cells.findIndex((cell) => !isNumber(cell))
  if (bad >= 0) return wrong(bad)
  const numbers = cells.map(Number)
  const named = parseTimeHeader(header[at]!)?.unit
  const known = unit ?? named ?? unitSince1970(Math.min(...numbers))
  if (known !== undefined) {
    const source =
      unit !== undefined ? 'as requested' : named !== undefined ? 'by its header' : 'since 1970'
    return {
      times: numbers.map((time) => time * millisecondsPer[known]),
      readAs: `${known} (${source})`,
    }
  }
  if (isBurstGpt(header))
    return { times: numbers.map((time) => time * 1000), readAs: 's (BurstGPT)' }
  throw askForUnit(shown, `its column '${header[at]}' names none`)
}

/** Its columns: Timestamp, Model, Request tokens, Response tokens, Total tokens, Log Type. */
const isBurstGpt = (header: readonly string[]): boolean =>
  ['request tokens', 'response tokens'].every((name) =>
    header.some((cell) => cell.toLowerCase() === name),
  )

/** Of times between 2001 and 2286, which differ by a factor of 1000 from unit to unit. */
function unitSince1970(time: number): TimeUnit | undefined {
  const units = [
    [1e18, 'ns'],
    [1e15, 'us'],
    [1e12, 'ms'],
    [1e9, 's'],
  ] as const
  return units.find(([from]) => time >= from && time < 10 * from)?.[1]
}

/** '2023-11-16 18:17:03.9799600' as UTC, which all of one file may as well be. */
const withZone = (cell: string): string =>
  cell.replace(' ', 'T') + (/(Z|[+-]\d\d:?\d\d)$/.test(cell) ? '' : 'Z')

function checkAscending(
  times: readonly number[],
  lines: readonly number[],
  rows: readonly (readonly string[])[],
  column: number,
  shown: string,
): void {
  const at = times.findIndex((time, i) => i > 0 && time < times[i - 1]!)
  if (at >= 0)
    throw new UnitError(
      `${shown}:${lines[at]}: '${rows[lines[at]! - 1]![column]}' is before the line above`,
      'sort its lines by time',
    )
}

function countedFromFirst(times: readonly number[], shown: string): number[] {
  atLeastTwo(times, shown)
  return times.map((ms) => ms - times[0]!)
}

function atLeastTwo(times: readonly number[], shown: string): void {
  if (times.length < 2)
    throw new UnitError(`the trace ${shown} has ${times.length} arrivals`, 'give at least two')
}

/** A window this many times shorter or longer than its trace is more likely a wrong unit. */
const maxSpanRatio = 100

/**
 * What a run says of a trace before it sends it: how many requests over which time, and a warning
 * where a window of `durationS` fits so badly that the unit may be wrong.
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
          `warning: a trace over ${Number(spanS.toPrecision(3))} s for a window of ${durationS} s: are its times in ${readAs.split(' ')[0]}? trace:FILE:s, :ms, :us or :ns says it`,
        ]
      : []),
  ]
}
