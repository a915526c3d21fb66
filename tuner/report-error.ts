/** The one place where an error becomes words and an exit code. */
import { stripControls } from '../profiler/plain-text.ts'
import { redactSecrets } from '../trials/secrets.ts'
import { exitCodes } from './exit-codes.ts'

/**
 * Errors that carry a hint, an exit code, or a list of configuration problems; matched by shape, so
 * that nothing need be loaded to report.
 */
interface Told {
  readonly hint?: unknown
  readonly exitCode?: unknown
  readonly problems?: readonly (
    | string
    | { readonly where: string; readonly what: string; readonly hint?: string }
  )[]
}

const mostWord = 200
const mostLetters = 4_000

/** What users gave may be secret, and of any length: a long word is cut, and so is the whole. */
export const cut = (text: string): string => {
  const words = stripControls(redactSecrets(text)).replace(
    new RegExp(`\\S{${mostWord},}`, 'g'),
    (word) => `${word.slice(0, mostWord / 2)}… (${word.length} characters)`,
  )
  return words.length > mostLetters
    ? `${words.slice(0, mostLetters)}… (${words.length} characters)`
    : words
}

/**
 * Writes what went wrong and what to do; returns the exit code. Unknown errors show their stack
 * when TUNE_DEBUG is set.
 */
export function reportError(error: unknown, stderr: NodeJS.WritableStream): number {
  if (!(error instanceof Error)) {
    stderr.write(`tune: ${cut(String(error))}\n`)
    return exitCodes.failure
  }
  const told = error as Error & Told
  if (Array.isArray(told.problems)) {
    for (const problem of told.problems) {
      if (typeof problem === 'string') stderr.write(`${cut(problem)}\n`)
      else stderr.write(`${cut(`${problem.where}: ${problem.what}`)}\n`)
      if (typeof problem !== 'string' && problem.hint)
        stderr.write(`  hint: ${cut(problem.hint)}\n`)
    }
    return exitCodes.usage
  }
  stderr.write(`tune: ${cut(told.message)}\n`)
  if (typeof told.hint === 'string' && !told.message.includes(told.hint))
    stderr.write(`  hint: ${cut(told.hint)}\n`)
  if (process.env.TUNE_DEBUG) stderr.write(`${redactSecrets(String(told.stack))}\n`)
  return typeof told.exitCode === 'number' ? told.exitCode : exitCodes.failure
}
