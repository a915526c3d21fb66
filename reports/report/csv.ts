/** CSV after RFC 4180, safe to open in a spreadsheet. */

export type Cell = string | number | boolean | undefined

/**
 * Lines end in CRLF; missing and not finite values are empty; texts that a spreadsheet would run as
 * a formula get a leading apostrophe.
 */
export function csv(header: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return [header, ...rows].map((row) => `${row.map(cell).join(',')}\r\n`).join('')
}

function cell(value: Cell): string {
  if (value === undefined) return ''
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : ''
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** A row of fields, and the line where it begins. */
export interface CsvRecord {
  readonly line: number
  readonly cells: readonly string[]
}

/** A quote that is opened and never closed. */
export class CsvError extends SyntaxError {
  constructor(
    readonly line: number,
    readonly what: string,
  ) {
    super(`line ${line}: ${what}`)
  }
}

/**
 * Rows of fields after RFC 4180, also with bare LF or CR line ends and a byte order mark. Empty
 * lines are skipped. Throws CsvError for a quote that is never closed.
 */
export function csvRecords(text: string, separator = ','): CsvRecord[] {
  const records: CsvRecord[] = []
  let cells: string[] = []
  let field = ''
  let quoted = false
  let line = 1
  let begun = 1
  let opened = 0
  const end = () => {
    cells.push(field)
    if (cells.length > 1 || cells[0] !== '') records.push({ line: begun, cells })
    cells = []
    field = ''
    begun = line
  }
  const source = text.startsWith('\uFEFF') ? text.slice(1) : text
  for (let i = 0; i < source.length; i++) {
    const c = source[i]!
    const ends = c === '\n' || (c === '\r' && source[i + 1] !== '\n')
    if (ends) line++
    if (quoted) {
      if (c !== '"') field += c
      else if (source[i + 1] === '"') field += source[++i]
      else quoted = false
    } else if (c === '"' && field === '') {
      quoted = true
      opened = line
    } else if (c === separator) {
      cells.push(field)
      field = ''
    } else if (ends) end()
    else if (c !== '\r') field += c
  }
  if (quoted) throw new CsvError(opened, 'a quote is opened and never closed')
  end()
  return records
}
