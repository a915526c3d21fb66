/**
 * Formats durations, ages, counts and tables. Rates, latencies and money are in reports/format.ts.
 */
import { grouped } from '../../../profiler/format.ts'

/** Width of a terminal that does not report it, as some in CI. */
const defaultColumns = 80
/** Width of lines to a pipe. */
const pipedColumns = 400

/** Current width of a stream; windows can be resized. */
export const countColumns = (stream: object): number =>
  'columns' in stream && typeof stream.columns === 'number'
    ? stream.columns || defaultColumns
    : pipedColumns

/** 7 s, 1 min 20 s, 2 h 5 min. */
export function formatDuration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds))
  if (s < 60) return `${s} s`
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`
}

/** '40 s ago', '3 h ago', '12 days ago'; 'just now' for negative ages. */
export function formatAge(seconds: number): string {
  if (seconds < 1) return 'just now'
  const [size, unit] =
    seconds < 60
      ? [1, 's']
      : seconds < 3600
        ? [60, 'min']
        : seconds < 172_800
          ? [3600, 'h']
          : [86_400, 'days']
  return `${Math.floor(seconds / (size as number))} ${unit} ago`
}

/** 1 trial, 1,200 trials. */
export const formatCount = (count: number, what: string): string =>
  `${grouped(count, 0)} ${what}${count === 1 ? '' : 's'}`

/** 12 configurations, or a continuous space. */
export const formatSpaceSize = (size: number): string =>
  Number.isFinite(size) ? formatCount(size, 'configuration') : 'a continuous space'

/** Left-aligned text columns, the last one ragged. */
export function formatTable(rows: readonly (readonly string[])[]): string[] {
  const widths = rows.reduce<number[]>(
    (w, row) => row.map((cell, i) => Math.max(w[i] ?? 0, cell.length)),
    [],
  )
  return rows.map((row) =>
    row
      .map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd(),
  )
}

/** Wraps text at `columns` characters; further lines are indented. Leading blanks stay. */
export function wrapText(text: string, columns: number, indent = '  '): string[] {
  const lines: string[] = []
  let line = ''
  const [lead] = /^ */.exec(text)!
  for (const word of text.trimStart().split(' ')) {
    if (line.trim() !== '' && line.length + 1 + word.length > columns) {
      lines.push(line)
      line = indent + word
    } else line = line === '' ? lead + word : `${line} ${word}`
  }
  return [...lines, line]
}

/** Replaces the status line on a terminal; an empty text clears it. */
export const showStatusLine = (what: string): void => {
  if (process.stderr.isTTY)
    process.stderr.write(`\r${what.slice(0, countColumns(process.stderr) - 1)}\u001b[K`)
}
