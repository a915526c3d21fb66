/** The one place where an error becomes words and an exit code. */
import { exitCodes } from './exit-codes.ts'

/** Errors that carry a hint, an exit code, or a list of configuration problems; matched by shape, so that nothing need be loaded to report. */
interface Told {
  readonly hint?: unknown
  readonly exitCode?: unknown
  readonly problems?: readonly (string | { readonly where: string; readonly what: string; readonly hint?: string })[]
}

/** Writes what went wrong and what to do; returns the exit code. Unknown errors show their stack when TUNE_DEBUG is set. */
export function reportError(error: unknown, stderr: NodeJS.WritableStream): number {
  if (!(error instanceof Error)) {
    stderr.write(`tune: ${String(error)}\n`)
    return exitCodes.failure
  }
  const told = error as Error & Told
  if (Array.isArray(told.problems)) {
    for (const problem of told.problems) {
      if (typeof problem === 'string') stderr.write(`${problem}\n`)
      else stderr.write(`${problem.where}: ${problem.what}\n`)
      if (typeof problem !== 'string' && problem.hint) stderr.write(`  hint: ${problem.hint}\n`)
    }
    return exitCodes.usage
  }
  stderr.write(`tune: ${told.message}\n`)
  if (typeof told.hint === 'string' && !told.message.includes(told.hint)) stderr.write(`  hint: ${told.hint}\n`)
  if (process.env.TUNE_DEBUG) stderr.write(`${told.stack}\n`)
  return typeof told.exitCode === 'number' ? told.exitCode : exitCodes.failure
}
