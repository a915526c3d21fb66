import { writeAtomically } from '../../../../reports/report/write-atomically.ts'
import { describeTrace } from '../../../config/trace.ts'
import { exitCodes } from '../../../exit-codes.ts'
import { profileAndRedact } from '../../../library/profile-server.ts'
import { describeNotReady } from '../../../waiting-text.ts'
import { requireWritableFiles } from '../../../writable-paths.ts'
import { countColumns } from '../../render/columns.ts'
import { detectStyle } from '../../render/glyphs.ts'
import { formatStep } from '../../render/trial-line.ts'
import { listenForInterrupts } from '../../signals.ts'
import { type ProfileFlags, readFlags } from './profile-flags.ts'
import { renderCsv, renderHtml, renderJson } from './profile-json.ts'
import { formatProfile } from './profile-text.ts'

/** Runs `tune profile`; returns its exit code. Progress goes to stderr, the result to stdout. */
export async function profile(flags: ProfileFlags): Promise<number> {
  const options = readFlags(flags)
  requireWritableFiles({ '--html': flags.html, '--csv': flags.csv })
  const { arrivals, durationS } = options
  if (arrivals?.kind === 'trace' && arrivals.readAs !== undefined && durationS !== undefined)
    for (const line of describeTrace(arrivals, arrivals.readAs, durationS))
      process.stderr.write(`${line}\n`)
  const { signal, dispose } = listenForInterrupts(() => process.stderr.write('stopping\n'))
  const live = process.stderr.isTTY === true && !process.env.CI && process.env.TERM !== 'dumb'
  try {
    const result = await profileAndRedact({
      ...options,
      signal,
      onReason: (reason) => process.stderr.write(`${describeNotReady(reason)}\n`),
      onStep: (point, phase) =>
        process.stderr.write(
          live
            ? `\r\u001b[2K${formatStep(point, options.slo, phase)}`
            : `${formatStep(point, options.slo, phase)}\n`,
        ),
    })
    if (live) process.stderr.write('\r\u001b[2K')
    const style = detectStyle(process.stdout, process.env)
    process.stdout.write(
      flags.json
        ? renderJson(result)
        : `${formatProfile(result, style, countColumns(process.stdout)).join('\n')}\n`,
    )
    if (flags.html !== undefined)
      await writeAtomically(flags.html, await renderHtml(result, new Date()))
    if (flags.csv !== undefined) await writeAtomically(flags.csv, renderCsv(result))
    return result.verdict === 'met'
      ? exitCodes.ok
      : result.verdict === 'violated'
        ? exitCodes.sloUnmet
        : exitCodes.failure
  } catch (error) {
    if (signal.aborted) return exitCodes.interrupted
    throw error
  } finally {
    dispose()
  }
}
