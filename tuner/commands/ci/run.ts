/** `tune ci`: an experiment beside a baseline, as a build server wants it. Runs nothing. */
import { appendFileSync } from 'node:fs'
import { type Check, runChecks } from '../../../reports/comparison/build-checks.ts'
import {
  formatAnnotations,
  formatJunitXml,
  formatSummary,
} from '../../../reports/comparison/build-output.ts'
import { listDifferentQuestions } from '../../../reports/comparison/comparison.ts'
import {
  documentOf,
  type RecommendationDocument,
  recommendationJson,
} from '../../../reports/report/recommendation-json.ts'
import { writeAtomically } from '../../../reports/report/write-atomically.ts'
import { parseShare } from '../../config/units.ts'
import { exitCodes, usageError } from '../../exit-codes.ts'
import { glyph, paint, type Style, styleOf } from '../../render/glyphs.ts'
import { mustBeWritable } from '../../writable-places.ts'
import { recommended } from '../recommended.ts'
import { reopen } from '../reopened.ts'

export interface CiFlags {
  readonly db: string
  readonly maxRegression: string
  readonly baseline?: string
  readonly saveBaseline?: string
  readonly junit?: string
  readonly prices?: string
  readonly json?: boolean
}

/** Returns the exit code. @throws UserError */
export async function ci(id: string | undefined, flags: CiFlags): Promise<number> {
  if (flags.baseline === undefined && flags.saveBaseline === undefined)
    throw usageError(
      'tune ci needs a baseline',
      'set one with --baseline, or save the first one: --save-baseline baseline.json',
    )
  const mostWorse = share(flags.maxRegression)
  mustBeWritable({ '--junit': flags.junit, '--save-baseline': flags.saveBaseline })
  const { record, recommendation } = await reopen(id, flags)
  const now = documentOf(recommendation)
  const checks =
    flags.baseline === undefined
      ? []
      : checksAgainst(await recommended(flags.baseline, flags, '--baseline'), now, mostWorse)
  await tell(record.name, checks, flags)
  if (flags.saveBaseline !== undefined) {
    await writeAtomically(flags.saveBaseline, recommendationJson(recommendation))
    if (!flags.json) process.stdout.write(`${flags.saveBaseline}\n`)
  }
  return exitCodeFor(checks)
}

function share(text: string): number {
  try {
    return parseShare(text)
  } catch (error) {
    throw usageError(
      `--max-regression ${text}: ${(error as Error).message}`,
      'e.g. --max-regression 5%',
    )
  }
}

function checksAgainst(
  baseline: RecommendationDocument,
  now: RecommendationDocument,
  mostWorse: number,
): Check[] {
  const other = listDifferentQuestions(baseline, now)
  if (other.length === 0) return runChecks(baseline, now, mostWorse)
  throw usageError(
    `the baseline answers another question: ${other.join('; ')}`,
    'save a new baseline: --save-baseline FILE',
  )
}

async function tell(
  name: string,
  checks: readonly Check[],
  { json, junit }: CiFlags,
): Promise<void> {
  const { GITHUB_ACTIONS, GITHUB_STEP_SUMMARY } = process.env
  if (junit !== undefined) await writeAtomically(junit, formatJunitXml(name, checks))
  if (json) process.stdout.write(`${JSON.stringify({ experiment: name, checks }, null, 2)}\n`)
  else {
    const style = styleOf(process.stdout, process.env)
    for (const check of checks) process.stdout.write(`${line(check, style)}\n`)
  }
  if (!GITHUB_ACTIONS || checks.length === 0) return
  // GitHub reads both streams.
  process.stderr.write(`${formatAnnotations(name, checks).join('\n')}\n`)
  if (GITHUB_STEP_SUMMARY) appendFileSync(GITHUB_STEP_SUMMARY, formatSummary(name, checks))
}

function line({ name, state, message }: Check, style: Style): string {
  const mark = {
    passed: paint(glyph('done', style), 'green', style),
    failed: paint(glyph('failed', style), 'red', style),
    undecided: '?',
  }[state]
  return `${mark} ${name}: ${message}${state === 'undecided' ? ' (no pass)' : ''}`
}

function exitCodeFor(checks: readonly Check[]): number {
  const failed = checks.filter(({ state }) => state === 'failed').map(({ name }) => name)
  if (failed.includes('slo')) return exitCodes.sloUnmet
  if (failed.includes('regression')) return exitCodes.regressed
  return failed.includes('confirmed') ? exitCodes.unconfirmed : exitCodes.ok
}
