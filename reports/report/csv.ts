/** CSV after RFC 4180, safe to open in a spreadsheet. */

export type Cell = string | number | boolean | undefined

/** Lines end in CRLF; missing and not finite values are empty; texts that a spreadsheet would run as a formula get a leading apostrophe. */
export function csv(header: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return [header, ...rows].map((row) => `${row.map(cell).join(',')}\r\n`).join('')
}

function cell(value: Cell): string {
  if (value === undefined) return ''
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : ''
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/**
 * Rows of fields after RFC 4180, also with bare LF line ends and a byte order mark. Empty lines are skipped.
 * Throws SyntaxError, with the line, for a quote that is never closed.
 */
export function parseCsv(text: string): string[][] {
  const rows: string[][] = []
  let row: string[] = []
  let field = ''
  let quoted = false
  let line = 1
  let opened = 0
  const end = () => {
    row.push(field)
    if (row.length > 1 || row[0] !== '') rows.push(row)
    row = []
    field = ''
  }
  const source = text.startsWith('\uFEFF') ? text.slice(1) : text
  for (let i = 0; i < source.length; i++) {
    const c = source[i]!
    if (c === '\n') line++
    if (quoted) {
      if (c !== '"') field += c
      else if (source[i + 1] === '"') field += source[++i]
      else quoted = false
    } else if (c === '"' && field === '') {
      quoted = true
      opened = line
    } else if (c === ',') {
      row.push(field)
      field = ''
    } else if (c === '\n') end()
    else if (c !== '\r') field += c
  }
  if (quoted) throw new SyntaxError(`line ${opened}: a quote is opened and never closed`)
  end()
  return rows
}
