import { hintOf, readText } from '../../profiler/bounded-reader.ts'
import { UnitError } from './units.ts'

/**
 * Lines of a file as cells: columns apart by comma, semicolon or tab, quotes and spaces around them
 * cut off. Line i is at i - 1, empty ones are kept.
 * @param what the file is of, for the error
 * @throws UnitError when it cannot be read
 */
export function readRows(path: string, what: string, hint: string): string[][] {
  let text: string
  try {
    text = readText(path, 'data')
  } catch (error) {
    throw new UnitError(
      `the ${what} cannot be read: ${(error as Error).message}`,
      hintOf(error) ?? hint,
    )
  }
  return text.split(/\r?\n/).map((line) => cellsOf(line).map((cell) => cell.trim()))
}

/** Within quotes a comma is none. */
function cellsOf(line: string): string[] {
  if (!line.includes('"')) return line.split(/[,;\t]/)
  const cells = ['']
  let quoted = false
  for (const letter of line) {
    if (letter === '"') quoted = !quoted
    else if (!quoted && /[,;\t]/.test(letter)) cells.push('')
    else cells[cells.length - 1] += letter
  }
  return cells
}
