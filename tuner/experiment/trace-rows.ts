import { hintOf, readText } from '../../profiler/bounded-reader.ts'
import { readRows, TableError, type TextRow } from '../../trials/table-text.ts'
import { UnitError } from './units.ts'

/**
 * Rows of a file of recorded requests.
 * @param shown how errors call the file
 * @param what the file is of, for errors
 * @throws UnitError when it cannot be read, or is JSON
 */
export function readTraceRows(
  path: string,
  shown: string,
  what: string,
  hint: string,
): readonly TextRow[] {
  try {
    const text = readText(path, 'table')
    if (/^\s*[[{]/.test(text))
      throw new UnitError(
        `${shown} is JSON, and no list of ${what}`,
        'a file of JSON Lines (Mooncake) ends in .jsonl; conversations (ShareGPT) are given as the payload itself, `file: ShareGPT.json`',
      )
    return readRows({ file: shown, text }).rows
  } catch (error) {
    if (error instanceof UnitError) throw error
    if (error instanceof TableError) throw new UnitError(error.message, hint)
    throw new UnitError(
      `the ${what} cannot be read: ${(error as Error).message}`,
      hintOf(error) ?? hint,
    )
  }
}
