/** What is wrong with how a command ended, whatever was done to it. */
import type { Ended } from './chaos-box.ts'

const mostPeakMiB = 900
const mostSaid = 200_000

/**
 * Undefined if nothing is.
 * @param codes exit codes that are right
 */
export function wrongEnd(
  { code, stderr, stdout, peakMiB, outOfTime }: Ended,
  codes: readonly number[],
): string | undefined {
  if (outOfTime) return `did not end: ${lastLine(stderr)}`
  if (code === undefined || !codes.includes(code))
    return `ended with exit code ${code} and not ${codes.join(', ')}: ${lastLine(stderr)}`
  if (peakMiB > mostPeakMiB) return `took ${Math.round(peakMiB)} MiB`
  if (/^\s+at .+:\d+:\d+\)?(?: \{)?$/m.test(stderr))
    return `printed a stack trace: ${lastLine(stderr)}`
  if (/malformed JSON|^SQLITE_|Unhandled|TypeError|RangeError/m.test(stderr))
    return `spoke in the program's own words: ${lastLine(stderr)}`
  return stderr.length + stdout.length > mostSaid * 20
    ? `said ${stderr.length + stdout.length} characters`
    : undefined
}

const lastLine = (text: string): string => text.trim().split('\n').slice(-3).join(' | ').slice(-400)

interface Finished {
  readonly type: string
  readonly trial?: {
    readonly number: number
    readonly state: string
    readonly seconds: number
    readonly error?: string
    readonly detail?: string
  }
  readonly spent?: number
}

/** The events of a run with `--events`; a line that was cut by its end is none. */
export const eventsOf = ({ stdout }: Ended): Finished[] =>
  stdout.split('\n').flatMap((line) => {
    try {
      return [JSON.parse(line) as Finished]
    } catch {
      return []
    }
  })

export const finishedTrials = (ended: Ended) =>
  eventsOf(ended).flatMap(({ trial }) => (trial === undefined ? [] : [trial]))
