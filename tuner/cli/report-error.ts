/** Prints an error and maps it to an exit code. */
import { stripControls } from '../../profiler/plain-text.ts'
import { redactSecrets } from '../../trials/secrets.ts'
import { exitCodes } from '../exit-codes.ts'

/**
 * Errors with a hint, an exit code or a list of problems. They are matched by shape, so that no
 * module must be loaded to report them.
 */
interface ReportableError {
  readonly hint?: unknown
  readonly exitCode?: unknown
  readonly problems?: readonly (
    | string
    | { readonly where: string; readonly what: string; readonly hint?: string }
  )[]
}

const maxWordLength = 200
const maxTextLength = 4_000

/** Redacts secrets, and truncates long words and long texts. */
export const truncateText = (text: string): string => {
  const words = stripControls(redactSecrets(text)).replace(
    new RegExp(`\\S{${maxWordLength},}`, 'g'),
    (word) => `${word.slice(0, maxWordLength / 2)}… (${word.length} characters)`,
  )
  return words.length > maxTextLength
    ? `${words.slice(0, maxTextLength)}… (${words.length} characters)`
    : words
}

/** Prints message and hint; returns the exit code. TUNE_DEBUG adds the stack. */
export function reportError(error: unknown, stderr: NodeJS.WritableStream): number {
  if (!(error instanceof Error)) {
    stderr.write(`tune: ${truncateText(String(error))}\n`)
    return exitCodes.failure
  }
  const reportable = error as Error & ReportableError
  if (Array.isArray(reportable.problems)) {
    for (const problem of reportable.problems) {
      if (typeof problem === 'string') stderr.write(`${truncateText(problem)}\n`)
      else stderr.write(`${truncateText(`${problem.where}: ${problem.what}`)}\n`)
      if (typeof problem !== 'string' && problem.hint)
        stderr.write(`  hint: ${truncateText(problem.hint)}\n`)
    }
    return exitCodes.usage
  }
  stderr.write(`tune: ${truncateText(reportable.message)}\n`)
  if (typeof reportable.hint === 'string' && !reportable.message.includes(reportable.hint))
    stderr.write(`  hint: ${truncateText(reportable.hint)}\n`)
  if (process.env.TUNE_DEBUG) stderr.write(`${redactSecrets(String(reportable.stack))}\n`)
  return typeof reportable.exitCode === 'number' ? reportable.exitCode : exitCodes.failure
}
