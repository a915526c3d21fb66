/** The one reader of delimited text: tables and traces that people write or export. */
import { createRequire } from 'node:module'
import type { CsvError } from 'csv-parse/sync'

/** A file as text, under the name the user gave it. */
export interface Source {
  readonly file: string
  readonly text: string
}

/** A fault of a table file, with its position. */
export interface Problem {
  /** 'runs.csv:12'. */
  readonly where: string
  readonly what: string
  readonly hint?: string
}

/** One fault is often in every row. */
const maxShownProblems = 20

export class TableError extends Error {
  readonly problems: readonly Problem[]

  constructor(all: readonly Problem[]) {
    const left = all.length - maxShownProblems
    const [{ where }] = all as readonly [Problem]
    const rest = { where: where.replace(/:\d+$/, ''), what: `${left} more like these` }
    const problems = left > 0 ? [...all.slice(0, maxShownProblems), rest] : all
    super(problems.map((p) => `${p.where}: ${p.what}`).join('\n'))
    this.name = 'TableError'
    this.problems = problems
  }
}

/** A row that is not blank: its cells, trimmed unless they were quoted, and where it begins. */
export interface TextRow {
  readonly line: number
  /** 'runs.csv:12'. */
  readonly where: string
  readonly cells: readonly string[]
}

interface TextRows {
  readonly rows: readonly TextRow[]
  /** For people: how numbers were read. */
  readonly notes: readonly string[]
}

interface TextTable {
  readonly columns: readonly string[]
  readonly rows: readonly {
    readonly line: number
    readonly where: string
    readonly cells: Readonly<Record<string, string>>
  }[]
  readonly notes: readonly string[]
}

/** Ties go to the first: a comma may be a decimal one. */
const separators = ['\t', ';', '|', ','] as const

/** The first line by which Excel names the separator: 'sep=;'. */
const separatorLine = /^"?sep=([,;\t|])"?[ ]*(\r\n|\n|\r|$)/i

/** Detects the separator that the first line with text has most of; a comma where it has none. */
function detectSeparator(text: string): string {
  const first = (/^.*$/m.exec(text.trimStart())?.[0] ?? '').replace(/"[^"]*"/g, '')
  // '0,5;12,5' has one semicolon and two decimal commas.
  const line = /[;\t|]/.test(first) ? first.replace(/\d,\d/g, '') : first
  const count = (separator: string) => line.split(separator).length
  const best = separators.reduce((most, one) => (count(one) > count(most) ? one : most))
  return count(best) > 1 ? best : ','
}

/** Reads the first line with text, by which the program that wrote a table is recognised. */
export function readHeaderLine({ text }: Source): string {
  const unmarked = text.startsWith('\uFEFF') ? text.slice(1) : text
  return /\S.*/.exec(unmarked.replace(separatorLine, ''))?.[0] ?? ''
}

/**
 * Rows of a text whose columns are separated by commas, semicolons, tabs or bars: RFC 4180 with any
 * line end, with or without a byte order mark. Blank rows are skipped. If commas do not separate
 * columns, decimal commas are accepted.
 * @throws TableError for an unclosed quote
 */
export function readRows({ file, text: given }: Source): TextRows {
  const unmarked = given.startsWith('\uFEFF') ? given.slice(1) : given
  const [firstLineText, namedSeparator] = separatorLine.exec(unmarked) ?? []
  const text = unmarked.slice(firstLineText?.length ?? 0)
  const separator = namedSeparator ?? detectSeparator(text)
  const firstLine = firstLineText === undefined ? 1 : 2
  const all = placeRows(parseText({ file, text }, separator, firstLine), file, firstLine)
  const rows = all.filter(({ cells }) => cells.some((cell) => cell.trim() !== ''))
  return separator === ',' ? { rows, notes: [] } : replaceDecimalCommas(rows, file)
}

/** Longer rows are no table's: a quote was not closed. */
const maxRowBytes = 2 ** 20

function parseText({ file, text }: Source, delimiter: string, firstLine: number): string[][] {
  const options = {
    delimiter,
    max_record_size: maxRowBytes,
    record_delimiter: ['\r\n', '\n', '\r'],
    relax_column_count: true,
    relax_quotes: true,
    trim: true,
  }
  // Loaded with the first table: most commands read none.
  const { CsvError: ParseError, parse } = createRequire(import.meta.url)(
    'csv-parse/sync',
  ) as typeof import('csv-parse/sync')
  try {
    return parse(text, options)
  } catch (error) {
    if (!(error instanceof ParseError)) throw error
    const { code, records } = error as CsvError & { readonly records: number }
    const before = records > 0 ? parse(text, { ...options, to: records }) : []
    const line = firstLine + before.reduce((lines, cells) => lines + countLines(cells), 0)
    throw new TableError([
      {
        where: `${file}:${line}`,
        what:
          code === 'CSV_QUOTE_NOT_CLOSED'
            ? 'a quote is opened and never closed'
            : code === 'CSV_MAX_RECORD_SIZE'
              ? 'a row of more than 1 MiB'
              : 'a quoted cell continues after its closing quote',
        hint: 'end a quoted cell with one quote, and write a quote within it twice',
      },
    ])
  }
}

const lineEnd = /\r\n|\n|\r/g
/** Number of text lines of a row. */
const countLines = (cells: readonly string[]): number =>
  cells.reduce((lines, cell) => lines + (cell.match(lineEnd)?.length ?? 0), 1)

function placeRows(records: readonly string[][], file: string, firstLine: number): TextRow[] {
  let line = firstLine
  return records.map((cells) => {
    const row = { line, where: `${file}:${line}`, cells }
    line += countLines(cells)
    return row
  })
}

const commaNumber = /^[+-]?\d+,\d+(e[+-]?\d+)?$/i
const pointNumber = /^[+-]?\d*\.\d+(e[+-]?\d+)?$/i
const thousands = /^[+-]?[1-9]\d{0,2}[.,]\d{3}$/

/**
 * Converts decimal commas, with a note; not if a number has a decimal point, or if every comma may
 * separate thousands, which readers then reject. If every point may separate thousands, the points
 * stay decimal ones, and a note says so.
 */
function replaceDecimalCommas(rows: readonly TextRow[], file: string): TextRows {
  let decimal: string | undefined
  let [points, maybeThousands] = [0, 0]
  let example = ''
  for (const { cells } of rows)
    for (const cell of cells)
      if (commaNumber.test(cell)) {
        if (!thousands.test(cell)) decimal ??= cell
      } else if (pointNumber.test(cell)) {
        points++
        if (thousands.test(cell)) {
          maybeThousands++
          example ||= cell
        }
      }
  if (points > 0 && points === maybeThousands)
    return {
      rows,
      notes: [`${file}: points are read as decimal points: ${example} means ${Number(example)}`],
    }
  if (decimal === undefined || points > 0) return { rows, notes: [] }
  const withPoint = (cell: string) => (commaNumber.test(cell) ? cell.replace(',', '.') : cell)
  return {
    rows: rows.map((row) => ({ ...row, cells: row.cells.map(withPoint) })),
    notes: [`${file}: commas are read as decimal points: ${decimal} means ${withPoint(decimal)}`],
  }
}

/**
 * Reads a table whose first row names the columns.
 * @throws TableError for an empty file, missing or duplicate names, and rows of another length than
 * the first
 */
export function readTable(source: Source): TextTable {
  const { table, ragged } = readEvenRows(source)
  if (ragged.length > 0) throw new TableError(ragged)
  return table
}

/**
 * The same, without rows of another length, which are returned as faults.
 * @throws TableError if no row remains
 */
export function readEvenRows(source: Source): { table: TextTable; ragged: readonly Problem[] } {
  const { file } = source
  const { rows: all, notes } = readRows(source)
  const [header, ...below] = all.map((row) => ({
    ...row,
    cells: row.cells.map((cell) => cell.trim()),
  }))
  if (!header)
    throw new TableError([
      { where: file, what: 'the file is empty', hint: 'the first row names the columns' },
    ])
  const width = header.cells.findLastIndex((name) => name !== '') + 1
  const columns = header.cells.slice(0, width)
  // Spreadsheets write empty trailing cells.
  const rows = below.map((row) =>
    row.cells.slice(width).every((cell) => cell === '')
      ? { ...row, cells: row.cells.slice(0, width) }
      : row,
  )
  const isEven = ({ cells }: TextRow) => cells.length === width
  const even = rows.filter(isEven)
  const under = `${width} column${width === 1 ? '' : 's'}`
  const named = `line ${header.line} is read as the column names: ${columns.join(', ').slice(0, 80)}`
  const ragged = rows
    .filter((row) => !isEven(row))
    .map(({ where, cells }, i) => ({
      where,
      what: `${cells.length} cells under ${under}`,
      ...(i === 0 && { hint: named }),
    }))
  const wrong = [
    ...nameProblems(header.where, columns, even),
    ...(rows.length === 0 ? [{ where: header.where, what: 'column names without rows' }] : []),
  ]
  if (wrong.length > 0 || even.length === 0) throw new TableError([...wrong, ...ragged])
  const kept = columns.flatMap((name, i) => (name === '' ? [] : [[name, i] as const]))
  return {
    table: {
      columns: kept.map(([name]) => name),
      rows: even.map(({ line, where, cells }) => ({
        line,
        where,
        cells: Object.fromEntries(kept.map(([name, i]) => [name, cells[i]!])),
      })),
      notes,
    },
    ragged,
  }
}

/** Duplicate names, and unnamed columns with values. */
function nameProblems(
  where: string,
  columns: readonly string[],
  rows: readonly TextRow[],
): Problem[] {
  const isBlank = (i: number) => rows.every(({ cells }) => cells[i] === '')
  // The index that pandas writes.
  const isIndex = (i: number) => i === 0 && rows.every(({ cells }, at) => cells[0] === String(at))
  return columns.flatMap((name, i): Problem[] => {
    if (name === '')
      return isBlank(i) || isIndex(i)
        ? []
        : [{ where, what: `column ${i + 1} has no name`, hint: 'name it, or delete it' }]
    return columns.indexOf(name) < i
      ? [{ where, what: `two columns are named '${name}'`, hint: 'rename or delete one' }]
      : []
  })
}

const unknownFigure = /^(|-|n\/?a|null|[+-]?(nan|inf|infinity))$/i
/** Whether a cell marks an unknown figure. */
export const isUnknown = (cell: string | undefined): boolean =>
  unknownFigure.test(cell?.trim() ?? '')

const decimalNumber = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i
/** Reads the number in a cell; NaN for one that is not known or is no finite decimal number. */
export function readNumber(cell: string | undefined): number {
  const value = decimalNumber.test(cell?.trim() ?? '') ? Number(cell) : Number.NaN
  return Number.isFinite(value) ? value : Number.NaN
}
