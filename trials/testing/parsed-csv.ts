import { readRows } from '../table-text.ts'

/** Rows of a CSV without their lines. */
export const parseCsv = (text: string): string[][] =>
  readRows({ file: 'test.csv', text }).rows.map(({ cells }) => [...cells])
