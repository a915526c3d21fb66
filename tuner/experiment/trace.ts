/**
 * Arrival traces: when requests came, and where the trace says so how many items each had and which
 * body it was.
 */

import type { PayloadOrder } from '../../profiler/payload-source.ts'
import { readRows } from './delimited.ts'
import { lengthColumns } from './lengths.ts'
import { isMooncake, readMooncake } from './mooncake.ts'
import { UnitError } from './units.ts'

interface Trace {
  /** From its start, ascending. Length n. */
  readonly atMs: readonly number[]
  /** Absent for a trace of times alone. */
  readonly order?: PayloadOrder
}

const hint =
  "one arrival a line, ms from the start, ascending; further columns by a header: 'ms,items,body'; or a public trace of language models, with 'timestamp'"
/**
 * What its header calls a column; a timestamp is a date (Azure's LLM inference traces), seconds
 * (BurstGPT), or time since 1970 in a smaller unit.
 */
const columns: Readonly<Record<string, 'ms' | 'timestamp' | 'items' | 'bodies'>> = {
  timestamp: 'timestamp',
  ms: 'ms',
  atms: 'ms',
  items: 'items',
  size: 'items',
  body: 'bodies',
  payload: 'bodies',
}

/**
 * Reads a trace: one arrival a line, columns apart by comma, semicolon or tab. Without a header the
 * first column is the time and others mean nothing. Of public traces of language models (Azure's,
 * BurstGPT, Mooncake's JSON Lines) those requests that `readLengths` takes.
 * @param shown how errors call it
 * @throws UnitError that names the line
 */
export function readTrace(path: string, shown: string): Trace {
  if (isMooncake(path))
    return fromFirst(
      readMooncake(path, shown).map(({ atMs }) => atMs),
      shown,
    )
  const rows = readRows(path, 'trace', hint)
  const headed =
    rows[0]?.[0] !== undefined && rows[0][0] !== '' && !Number.isFinite(Number(rows[0][0]))
  const names = headed ? rows[0]!.map((cell) => columns[cell.toLowerCase()]) : []
  if (names.includes('timestamp'))
    return fromFirst(timesOf(rows, names.indexOf('timestamp'), shown), shown)
  const at = {
    ms: Math.max(0, names.indexOf('ms')),
    items: names.indexOf('items'),
    bodies: names.indexOf('bodies'),
  }
  const trace: Record<'ms' | 'items' | 'bodies' | 'lines', number[]> = {
    ms: [],
    items: [],
    bodies: [],
    lines: [],
  }
  for (const [i, row] of rows.entries()) {
    if ((headed && i === 0) || row.every((cell) => cell === '')) continue
    const fail = (what: string): never => {
      throw new UnitError(`${shown}:${i + 1}: ${what}`, hint)
    }
    const whole = (column: 'items' | 'bodies', least: number, what: string) => {
      if (at[column] < 0) return
      const cell = row[at[column]] ?? ''
      if (!/^\d+$/.test(cell) || Number(cell) < least) fail(`'${cell}' is no ${what}`)
      trace[column].push(Number(cell))
    }
    const cell = row[at.ms] ?? ''
    const ms = cell === '' ? Number.NaN : Number(cell)
    if (!Number.isFinite(ms) || ms < 0) fail(`'${cell}' is no time in ms`)
    if (ms < (trace.ms.at(-1) ?? 0)) fail(`'${cell}' is before the line above`)
    trace.ms.push(ms)
    trace.lines.push(i + 1)
    whole('items', 1, 'number of items, from 1')
    whole('bodies', 0, 'number of a body, from 0')
  }
  atLeastTwo(trace.ms, shown)
  if (at.items < 0 && at.bodies < 0) return { atMs: trace.ms }
  const { items, bodies, lines } = trace
  return {
    atMs: trace.ms,
    order: {
      file: path,
      lines,
      ...(at.items >= 0 && { items }),
      ...(at.bodies >= 0 && { bodies }),
    },
  }
}

/** Times of the requests that have tokens, ms; of all where no column tells. */
function timesOf(rows: readonly (readonly string[])[], column: number, shown: string): number[] {
  const lengths = lengthColumns(rows[0]!).filter((at) => at >= 0)
  const times: number[] = []
  for (const [i, row] of rows.entries()) {
    if (i === 0 || row.every((cell) => cell === '') || lengths.some((at) => Number(row[at]) === 0))
      continue
    const cell = row[column] ?? ''
    const ms = /^\d+(\.\d+)?$/.test(cell) ? msOf(Number(cell)) : Date.parse(withZone(cell))
    if (!Number.isFinite(ms)) throw new UnitError(`${shown}:${i + 1}: '${cell}' is no time`, hint)
    if (ms < (times.at(-1) ?? Number.NEGATIVE_INFINITY))
      throw new UnitError(
        `${shown}:${i + 1}: '${cell}' is before the line above`,
        'sort its lines by time',
      )
    times.push(ms)
  }
  return times
}

/**
 * Seconds, from whenever; what would be seconds of later centuries counts from 1970 in
 * milliseconds, micro- or nanoseconds.
 */
function msOf(time: number): number {
  const [, unit] = (
    [
      [1e17, 1e-6],
      [1e14, 1e-3],
      [1e11, 1],
    ] as const
  ).find(([least]) => time >= least) ?? [0, 1000]
  return unit * time
}

/** '2023-11-16 18:17:03.9799600' as UTC, which all of one file may as well be. */
const withZone = (cell: string): string =>
  cell.replace(' ', 'T') + (/(Z|[+-]\d\d:?\d\d)$/.test(cell) ? '' : 'Z')

function fromFirst(times: readonly number[], shown: string): Trace {
  atLeastTwo(times, shown)
  return { atMs: times.map((ms) => ms - times[0]!) }
}

function atLeastTwo(times: readonly number[], shown: string): void {
  if (times.length < 2)
    throw new UnitError(`the trace ${shown} has ${times.length} arrivals`, 'give at least two')
}
