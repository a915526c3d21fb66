import { stringify } from 'csv-stringify/sync'

export type Cell = string | number | boolean | undefined

/**
 * CSV after RFC 4180, safe to open in a spreadsheet: lines end in CRLF, missing and non-finite values
 * are empty, and a text that a spreadsheet would run as a formula gets a leading apostrophe.
 */
export const formatCsv = (header: readonly string[], rows: readonly (readonly Cell[])[]): string =>
  stringify([header, ...rows] as Cell[][], {
    record_delimiter: 'windows',
    escape_formulas: true,
    // Readers trim cells that are not quoted.
    quoted_match: /^\s|[\r\n]|\s$/,
    cast: {
      number: (value) => ({
        value: Number.isFinite(value) ? String(value) : '',
        escape_formulas: false,
      }),
      boolean: String,
    },
  })
