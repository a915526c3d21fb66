/** `tune list`: lists the experiments of a store with their outcomes. */
import { sloText } from '../../../../reports/format.ts'
import { hasAllWords } from '../../../../reports/word-search.ts'
import type { Annotation } from '../../../../trials/annotation.ts'
import type { ListedExperiment } from '../../../../trials/store/index.ts'
import { exitCodes } from '../../../exit-codes.ts'
import {
  formatOutcome,
  formatOutcomeSlo,
  type Outcome,
  resolveOutcome,
} from '../../../loop/outcome.ts'
import { formatAnnotation } from '../../render/annotation-lines.ts'
import {
  countColumns,
  formatAge,
  formatCount,
  formatTable,
  wrapText,
} from '../../render/columns.ts'
import { openExistingStore } from '../open-existing.ts'

export interface ListFlags {
  readonly db: string
  readonly tag?: readonly string[]
  readonly all?: boolean
  readonly json?: boolean
}

/** @param words experiments must contain all of them in any listed text */
export async function list(words: readonly string[], flags: ListFlags): Promise<number> {
  const store = await openExistingStore(flags.db)
  try {
    const stored = await store.list()
    const selected = stored.filter(
      ({ annotation }) => (flags.all || !annotation?.archivedAt) && hasTags(annotation, flags.tag),
    )
    const matchingRows: Row[] = []
    for (const record of [...selected].reverse()) {
      const row = { record, outcome: await resolveOutcome(store, record) }
      if (hasWords(row, words)) matchingRows.push(row)
    }
    if (flags.json) process.stdout.write(`${JSON.stringify(matchingRows.map(toJson), null, 2)}\n`)
    else process.stdout.write(`${formatList(matchingRows, stored.length).join('\n')}\n`)
    return exitCodes.ok
  } finally {
    await store.close()
  }
}

interface Row {
  readonly record: ListedExperiment
  readonly outcome: Outcome
}

const hasTags = (annotation: Annotation | undefined, tags: readonly string[] = []): boolean =>
  tags.every((tag) => annotation?.tags.includes(tag) === true)

function hasWords({ record, outcome }: Row, words: readonly string[]): boolean {
  const { id, name, state, provenance, annotation } = record
  const searchableTexts = [
    id,
    name,
    state,
    provenance,
    formatOutcomeSlo(outcome),
    formatOutcome(outcome),
    annotation?.note,
    ...(annotation?.tags ?? []),
  ]
  return hasAllWords(words, searchableTexts)
}

function formatList(rows: readonly Row[], stored: number): string[] {
  if (stored === 0) return ['no experiments yet: tune --model bert --slo 50ms']
  if (rows.length === 0)
    return [
      `none of ${formatCount(stored, 'experiment')} matches (tune list --all includes archived ones)`,
    ]
  return formatRows(rows, Date.now(), countColumns(process.stdout))
}

function toJson({
  record: { id, name, createdAt, state, trials, provenance, seed, annotation },
  outcome,
}: Row): object {
  const row = { id, name, createdAt, state, trials, provenance, seed, ...annotation }
  if ('unreadable' in outcome) return { ...row, problem: outcome.unreadable }
  const { slo, conclusion, verdict, best } = outcome.recommendation
  return { ...row, slo: sloText(slo), conclusion, status: best?.status, verdict }
}

/** Formats a line of columns for each experiment, followed by its outcome and annotation. */
function formatRows(rows: readonly Row[], now: number, columns: number): string[] {
  const heads = formatTable(
    rows.map(({ record, outcome }) => [
      record.id,
      record.state,
      formatAge((now - Date.parse(record.createdAt)) / 1000),
      formatCount(record.trials, 'trial'),
      record.provenance,
      formatOutcomeSlo(outcome),
    ]),
  )
  return rows.flatMap(({ record, outcome }, i) => [
    ...wrapText(heads[i]!, columns, '    '),
    ...[formatOutcome(outcome), ...formatAnnotation(record.annotation, '')].flatMap((text) =>
      wrapText(text, columns - 2).map((line) => `  ${line}`),
    ),
  ])
}
