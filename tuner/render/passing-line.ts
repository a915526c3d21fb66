import { columnsOf } from './columns.ts'

/**
 * Says on stderr, where somebody watches it, what goes on, in place of what it said before; an
 * empty text takes that away.
 */
export const sayInPassing = (what: string): void => {
  if (process.stderr.isTTY)
    process.stderr.write(`\r${what.slice(0, columnsOf(process.stderr) - 1)}\u001b[K`)
}
