import {
  BoundError,
  type ByteOrderMark,
  type FileKind,
  readText,
} from '../profiler/bounded-reader.ts'
import { exitCodes, UserError } from './exit-codes.ts'

/**
 * Reads a file that a flag names.
 * @param what the file is, for the error, e.g. 'the trace'
 * @throws UserError
 */
export function readGivenFile(
  path: string,
  what: string,
  flag: string,
  kind: FileKind,
  mark: ByteOrderMark = 'dropped',
): string {
  try {
    return readText(path, kind, mark)
  } catch (error) {
    if (error instanceof BoundError)
      throw new UserError(`cannot read ${what}: ${error.message}`, error.hint, exitCodes.usage)
    const { code, message } = error as NodeJS.ErrnoException
    throw new UserError(
      `cannot read ${what} ${path}: ${code ?? message}`,
      `check the path given with ${flag}`,
      exitCodes.usage,
    )
  }
}
