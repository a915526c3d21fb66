import { type CsvRecord, csvRecords } from '../report/csv.ts'
import { TableError } from './table-error.ts'

/** A file as text, under the name the user gave it. */
export interface Source {
  readonly file: string
  readonly text: string
}

interface TextTable {
  readonly columns: readonly string[]
  /** By column, and where each stands: 'runs.csv:12'. */
  readonly rows: readonly { readonly where: string; readonly cells: Readonly<Record<string, string>> }[]
}

const separators = [',', ';', '\t']

/** Records of a CSV file whose columns stand apart by comma, semicolon or tab, whichever its first line has most of. Throws TableError. */
export function recordsOf({ file, text }: Source): CsvRecord[] {
  const first = /^.*$/m.exec(text.replace(/^[\uFEFF\s]+/, ''))?.[0].replace(/"[^"]*"/g, '') ?? ''
  const count = (separator: string) => first.split(separator).length
  const separator = separators.reduce((best, one) => (count(one) > count(best) ? one : best))
  try {
    return csvRecords(text, separator)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    const [, line, what] = /^line (\d+): (.*)$/.exec(error.message) ?? [undefined, 1, error.message]
    throw new TableError([{ where: `${file}:${line}`, what: String(what) }])
  }
}

/** A CSV file with a row of column names. Throws TableError for an empty file, names given twice, and rows that are shorter or longer than the first. */
export function tableOf(source: Source): TextTable {
  const { file } = source
  const [header, ...below] = recordsOf(source)
  if (!header) throw new TableError([{ where: file, what: 'the file is empty', hint: 'the first row names the columns' }])
  const columns = header.cells.map((name, i) => name.trim() || `column ${i + 1}`)
  // What spreadsheets leave of emptied cells.
  const records = below
    .filter(({ cells }) => cells.some((cell) => cell.trim() !== ''))
    .map(({ line, cells }) => ({
      line,
      cells: cells.slice(columns.length).every((cell) => cell.trim() === '') ? cells.slice(0, columns.length) : cells,
    }))
  const twice = columns.filter((name, i) => columns.indexOf(name) < i)
  const place = (line: number) => `${file}:${line}`
  const wrong = [
    ...twice.map((name) => ({ where: place(header.line), what: `two columns are named '${name}'` })),
    ...records
      .filter(({ cells }) => cells.length !== columns.length)
      .map(({ line, cells }) => ({ where: place(line), what: `${cells.length} cells under ${columns.length} columns` })),
    ...(records.length === 0 ? [{ where: place(header.line), what: 'column names, and no rows under them' }] : []),
  ]
  if (wrong.length > 0) throw new TableError(wrong)
  return {
    columns,
    rows: records.map(({ line, cells }) => ({
      where: place(line),
      cells: Object.fromEntries(columns.map((name, i) => [name, cells[i]!.trim()])),
    })),
  }
}
