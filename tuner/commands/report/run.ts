/** `tune report`: a stored experiment as one file. */
import { readFileSync } from 'node:fs'
import { arch, cpus, platform, release } from 'node:os'
import { extname, join } from 'node:path'
import { stringify } from 'yaml'
import { renderSvg } from '../../../reports/report/charts/svg.ts'
import { toHtml } from '../../../reports/report/document/html.ts'
import { toMarkdown } from '../../../reports/report/document/markdown.ts'
import { recommendationJson } from '../../../reports/report/recommendation-json.ts'
import { type ReportInput, reportBlocks } from '../../../reports/report/report-blocks.ts'
import { trialsCsv } from '../../../reports/report/trials-csv.ts'
import { writeAtomically } from '../../../reports/report/write-atomically.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { createView } from '../../loop/problem.ts'
import { mustBeWritable } from '../../writable-places.ts'
import { type Reopened, type ReopenFlags, reopen } from '../reopened.ts'

export interface ReportFlags extends ReopenFlags {
  readonly out?: string
}

export async function report(id: string | undefined, flags: ReportFlags): Promise<number> {
  const form = extname(flags.out ?? 'report.html').toLowerCase()
  const render = forms[form]
  if (!render)
    throw new UserError(
      `--out ${flags.out}: a report cannot be written as '${form}'`,
      `use one of ${Object.keys(forms).join(', ')}`,
      exitCodes.usage,
    )
  mustBeWritable({ '--out': flags.out })
  const reopened = await reopen(id, flags)
  const path = flags.out ?? join('tune-results', reopened.record.id, 'report.html')
  mustBeWritable({ '--out': path })
  await writeAtomically(path, await render(reopened))
  process.stdout.write(`${path}\n`)
  return exitCodes.ok
}

const forms: Readonly<Record<string, (reopened: Reopened) => Promise<string>>> = {
  '.html': async (reopened) =>
    toHtml(`tune: ${reopened.record.name}`, await reportBlocks(inputOf(reopened), renderSvg)),
  '.md': async (reopened) => toMarkdown(await reportBlocks(inputOf(reopened))),
  '.csv': async ({ trials, experiment, pricePerHour, label }) =>
    trialsCsv(trials, createView(experiment, { pricePerHour, label })),
  '.hlog': async ({ trials }) =>
    (await import('../../../reports/report/latency-log.ts')).latencyLog(trials),
  '.json': async ({ recommendation }) => recommendationJson(recommendation),
}

function inputOf({
  record,
  trials,
  experiment,
  pricePerHour,
  label,
  recommendation,
  book,
}: Reopened): ReportInput {
  return {
    name: record.name,
    recommendation,
    trials,
    ...createView(experiment, { pricePerHour, label }),
    specification: stringify(record.spec, { lineWidth: 0 }),
    environment: [
      `tune ${packageVersion()}; Node ${process.versions.node}; reported on ${platform()} ${release()} ${arch()}, ${cpus()[0]?.model ?? 'unknown CPU'}`,
      ...(record.provenance === 'imported'
        ? [`imported ${record.createdAt}; prices: ${book.name} (${book.currency})`]
        : [
            `started ${record.createdAt}; seed ${record.seed}; prices: ${book.name} (${book.currency})`,
            `to repeat the experiment, save the following as experiment.yaml and run tune -f experiment.yaml --seed ${record.seed}`,
          ]),
    ],
  }
}

function packageVersion(): string {
  const up = import.meta.url.endsWith('.ts') ? '../../..' : '../../../..'
  const text = readFileSync(new URL(`${up}/package.json`, import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
