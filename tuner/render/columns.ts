/**
 * Durations and tables as people read them; rates, latencies and money are in reports/format.ts.
 */
import { grouped } from '../../profiler/format.ts'

/** What a terminal has that does not say, as some of CI's do. */
const usualColumns = 80
/** Lines to a pipe are not cut where a terminal's would be. */
const pipedColumns = 400

/** Characters in a line of a stream, as of now: people make their windows wider and narrower. */
export const columnsOf = (stream: object): number =>
  'columns' in stream && typeof stream.columns === 'number'
    ? stream.columns || usualColumns
    : pipedColumns

/** 7 s, 1 min 20 s, 2 h 5 min. */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds))
  if (s < 60) return `${s} s`
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`
}

/** '40 s ago', '3 h ago', '12 days ago'; of a clock that went back, 'just now'. */
export function ago(seconds: number): string {
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
export const counted = (count: number, what: string): string =>
  `${grouped(count, 0)} ${what}${count === 1 ? '' : 's'}`

/** How many configurations a space has. */
export const spaceText = (size: number): string =>
  Number.isFinite(size) ? counted(size, 'configuration') : 'a continuous space'

/** Left-aligned text columns, the last one ragged. */
export function table(rows: readonly (readonly string[])[]): string[] {
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

/**
 * A sentence over lines of at most `columns` characters, broken between words, continued with an
 * indent. Blanks before the first word stay.
 */
export function wrap(text: string, columns: number, indent = '  '): string[] {
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
