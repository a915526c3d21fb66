import { writeAtomically } from '../../../reports/report/write-atomically.ts'
import { describeTrace } from '../../config/trace.ts'
import { exitCodes } from '../../exit-codes.ts'
import { profileWithoutSecrets } from '../../library/profile-server.ts'
import { notReadyYet } from '../../not-ready-yet.ts'
import { columnsOf } from '../../render/columns.ts'
import { styleOf } from '../../render/glyphs.ts'
import { stepLine } from '../../render/trial-line.ts'
import { interruptible } from '../../signals.ts'
import { mustBeWritable } from '../../writable-places.ts'
import { type ProfileFlags, readFlags } from './profile-flags.ts'
import { profileCsv, profileHtml, profileJson } from './profile-json.ts'
import { profileLines } from './profile-text.ts'

/** Runs `tune profile`; returns its exit code. Progress goes to stderr, the result to stdout. */
export async function profile(flags: ProfileFlags): Promise<number> {
  const options = readFlags(flags)
  mustBeWritable({ '--html': flags.html, '--csv': flags.csv })
  const { arrivals, durationS } = options
  if (arrivals?.kind === 'trace' && arrivals.readAs !== undefined && durationS !== undefined)
    for (const line of describeTrace(arrivals, arrivals.readAs, durationS))
      process.stderr.write(`${line}\n`)
  const { signal, dispose } = interruptible(() => process.stderr.write('stopping\n'))
  const live = process.stderr.isTTY === true && !process.env.CI && process.env.TERM !== 'dumb'
  try {
    const found = await profileWithoutSecrets({
      ...options,
      signal,
      onReason: (reason) => process.stderr.write(`${notReadyYet(reason)}\n`),
      onStep: (point, phase) =>
        process.stderr.write(
          live
            ? `\r\u001b[2K${stepLine(point, options.slo, phase)}`
            : `${stepLine(point, options.slo, phase)}\n`,
        ),
    })
    if (live) process.stderr.write('\r\u001b[2K')
    const style = styleOf(process.stdout, process.env)
    process.stdout.write(
      flags.json
        ? profileJson(found)
        : `${profileLines(found, style, columnsOf(process.stdout)).join('\n')}\n`,
    )
    if (flags.html !== undefined)
      await writeAtomically(flags.html, await profileHtml(found, new Date()))
    if (flags.csv !== undefined) await writeAtomically(flags.csv, profileCsv(found))
    return found.verdict === 'met'
      ? exitCodes.ok
      : found.verdict === 'violated'
        ? exitCodes.sloUnmet
        : exitCodes.failure
  } catch (error) {
    if (signal.aborted) return exitCodes.interrupted
    throw error
  } finally {
    dispose()
  }
}
