import { CsvError, type CsvRecord, csvRecords } from '../report/csv.ts'
import { type Problem, TableError } from './table-error.ts'

/** A file as text, under the name the user gave it. */
export interface Source {
  readonly file: string
  readonly text: string
}

interface TextTable {
  readonly columns: readonly string[]
  /** By column, and where each stands: 'runs.csv:12'. */
  readonly rows: readonly {
    readonly where: string
    readonly cells: Readonly<Record<string, string>>
  }[]
}

const separators = [',', ';', '\t', '|']

/** What Excel is told by a first line 'sep=;'. */
const told = /^\uFEFF?"?sep=([,;\t|])"?[ ]*\r?$/im

/**
 * What the columns of a CSV file stand apart by: comma, semicolon, tab or bar, whichever its first
 * line has most of, or what a line before says.
 */
function separatorOf(text: string): string {
  const first = /^.*$/m.exec(text.replace(/^[\uFEFF\s]+/, ''))?.[0] ?? ''
  const named = told.exec(first)?.[1]
  if (named) return named
  const count = (separator: string) => first.replace(/"[^"]*"/g, '').split(separator).length
  return separators.reduce((best, one) => (count(one) > count(best) ? one : best))
}

/** Records of a CSV file. Throws TableError. */
export function recordsOf({ file, text }: Source): CsvRecord[] {
  const separator = separatorOf(text)
  try {
    const records = csvRecords(text, separator)
    return records[0] && told.test(records[0].cells.join(separator)) ? records.slice(1) : records
  } catch (error) {
    if (!(error instanceof CsvError)) throw error
    throw new TableError([{ where: `${file}:${error.line}`, what: error.what }])
  }
}

/**
 * A CSV file with a row of column names. Throws TableError for an empty file, names given twice,
 * and rows that are shorter or longer than the first.
 */
export function tableOf(source: Source): TextTable {
  const { table, ragged } = evenTable(source)
  if (ragged.length > 0) throw new TableError(ragged)
  return table
}

/**
 * The same without the rows that are shorter or longer than the first, and what is wrong with
 * those. Throws TableError for a file that has no others.
 */
export function evenTable(source: Source): { table: TextTable; ragged: readonly Problem[] } {
  const { file } = source
  const [header, ...below] = recordsOf(source)
  if (!header)
    throw new TableError([
      { where: file, what: 'the file is empty', hint: 'the first row names the columns' },
    ])
  const columns = header.cells.map((name, i) => name.trim() || `column ${i + 1}`)
  // What spreadsheets leave of emptied cells.
  const records = below
    .filter(({ cells }) => cells.some((cell) => cell.trim() !== ''))
    .map(({ line, cells }) => ({
      line,
      cells: cells.slice(columns.length).every((cell) => cell.trim() === '')
        ? cells.slice(0, columns.length)
        : cells,
    }))
  const under = `${columns.length} column${columns.length === 1 ? '' : 's'}`
  const named = `line ${header.line} is taken for the names of the columns: ${header.cells.join(', ').slice(0, 80)}`
  const twice = columns.filter((name, i) => columns.indexOf(name) < i)
  const place = (line: number) => `${file}:${line}`
  const isEven = ({ cells }: CsvRecord) => cells.length === columns.length
  const ragged = records
    .filter((record) => !isEven(record))
    .map(({ line, cells }) => ({
      where: place(line),
      what: `${cells.length} cells under ${under}`,
    }))
    .map((problem, i) => (i === 0 ? { ...problem, hint: named } : problem))
  const even = records.filter(isEven)
  const wrong = [
    ...twice.map((name) => ({
      where: place(header.line),
      what: `two columns are named '${name}'`,
    })),
    ...(records.length === 0
      ? [{ where: place(header.line), what: 'column names, and no rows under them' }]
      : []),
  ]
  if (wrong.length > 0 || even.length === 0) throw new TableError([...wrong, ...ragged])
  const rows = even.map(({ line, cells }) => ({
    where: place(line),
    cells: Object.fromEntries(columns.map((name, i) => [name, cells[i]!.trim()])),
  }))
  return { table: { columns, rows }, ragged }
}

const commaNumber = /^[+-]?\d+,\d+(e[+-]?\d+)?$/i
const pointNumber = /^[+-]?\d*\.\d+(e[+-]?\d+)?$/i
const thousands = /^[+-]?[1-9]\d{0,2},\d{3}$/

/**
 * Decimal commas as points, and a note that says so: where no comma parts the columns, no number of
 * the table has a point, and not every comma may be one of thousands.
 */
export function withDecimalPoints(
  { file, text }: Source,
  table: TextTable,
): { table: TextTable; note?: string } {
  const cells = table.rows.flatMap((row) => Object.values(row.cells))
  const withComma = cells.filter((cell) => commaNumber.test(cell))
  const plain = withComma.find((cell) => !thousands.test(cell))
  if (
    separatorOf(text) === ',' ||
    plain === undefined ||
    cells.some((cell) => pointNumber.test(cell))
  )
    return { table }
  const read = (cell: string) => (commaNumber.test(cell) ? cell.replace(',', '.') : cell)
  const rows = table.rows.map(({ where, cells: row }) => ({
    where,
    cells: Object.fromEntries(Object.entries(row).map(([name, cell]) => [name, read(cell)])),
  }))
  return {
    table: { columns: table.columns, rows },
    note: `${file}: decimal commas are read as points: ${plain} as ${read(plain)}`,
  }
}
