import { getHint, readText } from '../../profiler/bounded-reader.ts'
import { readRows, TableError, type TextRow } from '../../trials/table-text.ts'
import { UnitError } from './values/units.ts'

/**
 * Rows of a file of recorded requests.
 * @param shown name in errors
 * @param what kind of content, for errors
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
        `${shown} is JSON, but not a list of ${what}`,
        'rename a file of JSON Lines (Mooncake) to .jsonl; use conversations (ShareGPT) as the payload itself, `file: ShareGPT.json`',
      )
    return readRows({ file: shown, text }).rows
  } catch (error) {
    if (error instanceof UnitError) throw error
    if (error instanceof TableError) throw new UnitError(error.message, hint)
    throw new UnitError(
      `cannot read the ${what}: ${(error as Error).message}`,
      getHint(error) ?? hint,
    )
  }
}
