/** `tune report`: renders a stored experiment as one file. */
import { readFileSync } from 'node:fs'
import { arch, cpus, platform, release } from 'node:os'
import { extname, join } from 'node:path'
import { stringify } from 'yaml'
import { toHtml } from '../../../../reports/document/html.ts'
import { toMarkdown } from '../../../../reports/document/markdown.ts'
import { renderSvg } from '../../../../reports/document/svg.ts'
import { createRecommendationJson } from '../../../../reports/report/recommendation-json.ts'
import { type ReportInput, renderReport } from '../../../../reports/report/report-blocks.ts'
import { renderTrialsCsv } from '../../../../reports/report/trials-csv.ts'
import { writeAtomically } from '../../../../reports/report/write-atomically.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { createRankingCriteria } from '../../../problem/problem.ts'
import { requireWritableFiles } from '../../../writable-paths.ts'
import {
  type ReopenedExperiment,
  type ReopenFlags,
  reopenExperiment,
} from '../reopen-experiment.ts'

export interface ReportFlags extends ReopenFlags {
  readonly out?: string
}

export async function report(id: string | undefined, flags: ReportFlags): Promise<number> {
  const form = extname(flags.out ?? 'report.html').toLowerCase()
  const render = formats[form]
  if (!render)
    throw new UserError(
      `--out ${flags.out}: a report cannot be written as '${form}'`,
      `use one of ${Object.keys(formats).join(', ')}`,
      exitCodes.usage,
    )
  requireWritableFiles({ '--out': flags.out })
  const reopened = await reopenExperiment(id, flags)
  const path = flags.out ?? join('tune-results', reopened.record.id, 'report.html')
  requireWritableFiles({ '--out': path })
  await writeAtomically(path, await render(reopened))
  process.stdout.write(`${path}\n`)
  return exitCodes.ok
}

const formats: Readonly<Record<string, (reopened: ReopenedExperiment) => Promise<string>>> = {
  '.html': async (reopened) =>
    toHtml(
      `tune: ${reopened.record.name}`,
      await renderReport(buildReportInput(reopened), renderSvg),
    ),
  '.md': async (reopened) => toMarkdown(await renderReport(buildReportInput(reopened))),
  '.csv': async ({ trials, experiment, pricePerHour, label }) =>
    renderTrialsCsv(trials, createRankingCriteria(experiment, { pricePerHour, label })),
  '.hlog': async ({ trials }) =>
    (await import('../../../../reports/report/latency-log.ts')).renderLatencyLog(trials),
  '.json': async ({ recommendation }) => createRecommendationJson(recommendation),
}

function buildReportInput({
  record,
  trials,
  experiment,
  pricePerHour,
  label,
  recommendation,
  book,
}: ReopenedExperiment): ReportInput {
  return {
    name: record.name,
    recommendation,
    trials,
    ...createRankingCriteria(experiment, { pricePerHour, label }),
    specification: stringify(record.spec, { lineWidth: 0 }),
    environment: [
      `tune ${readPackageVersion()}; Node ${process.versions.node}; reported on ${platform()} ${release()} ${arch()}, ${cpus()[0]?.model ?? 'unknown CPU'}`,
      ...(record.provenance === 'imported'
        ? [`imported ${record.createdAt}; prices: ${book.name} (${book.currency})`]
        : [
            `started ${record.createdAt}; seed ${record.seed}; prices: ${book.name} (${book.currency})`,
            `to repeat the experiment, save the following as experiment.yaml and run tune -f experiment.yaml --seed ${record.seed}`,
          ]),
    ],
  }
}

function readPackageVersion(): string {
  const up = import.meta.url.endsWith('.ts') ? '../../../..' : '../../../../..'
  const text = readFileSync(new URL(`${up}/package.json`, import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
