/** Rows of a CSV without their lines. */
import { csvRecords } from '../csv.ts'

export const parseCsv = (text: string): string[][] =>
  csvRecords(text).map(({ cells }) => [...cells])
