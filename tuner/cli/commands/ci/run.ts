/** `tune ci`: compares an experiment with a baseline. Runs no trials. */
import { appendFileSync } from 'node:fs'
import { type Check, runChecks } from '../../../../reports/comparison/build-checks.ts'
import {
  formatAnnotations,
  formatJunitXml,
  formatSummary,
} from '../../../../reports/comparison/build-output.ts'
import { listDifferentQuestions } from '../../../../reports/comparison/comparison.ts'
import {
  createRecommendationJson,
  type RecommendationDocument,
  toDocument,
} from '../../../../reports/report/recommendation-json.ts'
import { writeAtomically } from '../../../../reports/report/write-atomically.ts'
import { parseShare } from '../../../config/values/units.ts'
import { createUsageError, exitCodes } from '../../../exit-codes.ts'
import { requireWritableFiles } from '../../../writable-paths.ts'
import { detectStyle, glyph, paint, type Style } from '../../render/glyphs.ts'
import { loadRecommendation } from '../load-recommendation.ts'
import { reopenExperiment } from '../reopen-experiment.ts'

export interface CiFlags {
  readonly db: string
  readonly maxRegression: string
  readonly baseline?: string
  readonly saveBaseline?: string
  readonly junit?: string
  readonly prices?: string
  readonly json?: boolean
}

/**
 * Returns the exit code.
 * @throws UserError
 */
export async function ci(id: string | undefined, flags: CiFlags): Promise<number> {
  if (flags.baseline === undefined && flags.saveBaseline === undefined)
    throw createUsageError(
      'tune ci needs a baseline',
      'set one with --baseline, or save the first one: --save-baseline baseline.json',
    )
  const maxRegression = parseMaxRegression(flags.maxRegression)
  requireWritableFiles({ '--junit': flags.junit, '--save-baseline': flags.saveBaseline })
  const { record, recommendation } = await reopenExperiment(id, flags)
  const now = toDocument(recommendation)
  const checks =
    flags.baseline === undefined
      ? []
      : checkAgainst(
          await loadRecommendation(flags.baseline, flags, '--baseline'),
          now,
          maxRegression,
        )
  await reportChecks(record.name, checks, flags)
  if (flags.saveBaseline !== undefined) {
    await writeAtomically(flags.saveBaseline, createRecommendationJson(recommendation))
    if (!flags.json) process.stdout.write(`${flags.saveBaseline}\n`)
  }
  return resolveExitCode(checks)
}

function parseMaxRegression(text: string): number {
  try {
    return parseShare(text)
  } catch (error) {
    throw createUsageError(
      `--max-regression ${text}: ${(error as Error).message}`,
      'e.g. --max-regression 5%',
    )
  }
}

function checkAgainst(
  baseline: RecommendationDocument,
  now: RecommendationDocument,
  maxRegression: number,
): Check[] {
  const other = listDifferentQuestions(baseline, now)
  if (other.length === 0) return runChecks(baseline, now, maxRegression)
  throw createUsageError(
    `the baseline answers another question: ${other.join('; ')}`,
    'save a new baseline: --save-baseline FILE',
  )
}

async function reportChecks(
  name: string,
  checks: readonly Check[],
  { json, junit }: CiFlags,
): Promise<void> {
  const { GITHUB_ACTIONS, GITHUB_STEP_SUMMARY } = process.env
  if (junit !== undefined) await writeAtomically(junit, formatJunitXml(name, checks))
  if (json) process.stdout.write(`${JSON.stringify({ experiment: name, checks }, null, 2)}\n`)
  else {
    const style = detectStyle(process.stdout, process.env)
    for (const check of checks) process.stdout.write(`${formatCheck(check, style)}\n`)
  }
  if (!GITHUB_ACTIONS || checks.length === 0) return
  // GitHub reads both streams.
  process.stderr.write(`${formatAnnotations(name, checks).join('\n')}\n`)
  if (GITHUB_STEP_SUMMARY) appendFileSync(GITHUB_STEP_SUMMARY, formatSummary(name, checks))
}

function formatCheck({ name, state, message }: Check, style: Style): string {
  const mark = {
    passed: paint(glyph('done', style), 'green', style),
    failed: paint(glyph('failed', style), 'red', style),
    undecided: '?',
  }[state]
  return `${mark} ${name}: ${message}${state === 'undecided' ? ' (no pass)' : ''}`
}

function resolveExitCode(checks: readonly Check[]): number {
  const failed = checks.filter(({ state }) => state === 'failed').map(({ name }) => name)
  if (failed.includes('slo')) return exitCodes.sloUnmet
  if (failed.includes('regression')) return exitCodes.regressed
  return failed.includes('confirmed') ? exitCodes.unconfirmed : exitCodes.ok
}
