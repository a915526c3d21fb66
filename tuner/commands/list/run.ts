/** `tune list`: the experiments of a store, with what they came to. */
import { sloText } from '../../../reports/format.ts'
import { wordsFound } from '../../../reports/words-found.ts'
import type { Annotation } from '../../../trials/annotation.ts'
import type { ListedExperiment } from '../../../trials/store/index.ts'
import { exitCodes } from '../../exit-codes.ts'
import {
  formatOutcome,
  formatOutcomeSlo,
  type Outcome,
  resolveOutcome,
} from '../../loop/outcome.ts'
import { annotationLines } from '../../render/annotation-lines.ts'
import { ago, columnsOf, counted, table, wrap } from '../../render/columns.ts'
import { openExisting } from '../open-existing.ts'

export interface ListFlags {
  readonly db: string
  readonly tag?: readonly string[]
  readonly all?: boolean
  readonly json?: boolean
}

/** @param words those that have all of them, in whatever is listed, are listed */
export async function list(words: readonly string[], flags: ListFlags): Promise<number> {
  const store = await openExisting(flags.db)
  try {
    const stored = await store.list()
    const wanted = stored.filter(
      ({ annotation }) => (flags.all || !annotation?.archivedAt) && hasTags(annotation, flags.tag),
    )
    const found: Row[] = []
    for (const record of [...wanted].reverse()) {
      const row = { record, outcome: await resolveOutcome(store, record) }
      if (hasWords(row, words)) found.push(row)
    }
    if (flags.json) process.stdout.write(`${JSON.stringify(found.map(jsonOf), null, 2)}\n`)
    else process.stdout.write(`${textOf(found, stored.length).join('\n')}\n`)
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
  const said = [
    id,
    name,
    state,
    provenance,
    formatOutcomeSlo(outcome),
    formatOutcome(outcome),
    annotation?.note,
    ...(annotation?.tags ?? []),
  ]
  return wordsFound(words, said)
}

function textOf(found: readonly Row[], stored: number): string[] {
  if (stored === 0) return ['no experiments yet: tune --model bert --slo 50ms']
  if (found.length === 0)
    return [
      `none of ${counted(stored, 'experiment')} matches (tune list --all includes archived ones)`,
    ]
  return linesOf(found, Date.now(), columnsOf(process.stdout))
}

function jsonOf({
  record: { id, name, createdAt, state, trials, provenance, seed, annotation },
  outcome,
}: Row): object {
  const row = { id, name, createdAt, state, trials, provenance, seed, ...annotation }
  if ('unreadable' in outcome) return { ...row, problem: outcome.unreadable }
  const { slo, conclusion, verdict, best } = outcome.recommendation
  return { ...row, slo: sloText(slo), conclusion, status: best?.status, verdict }
}

/**
 * For each experiment a line of columns, and under it what it came to and what was written beside
 * it, within so many columns.
 */
function linesOf(rows: readonly Row[], now: number, columns: number): string[] {
  const heads = table(
    rows.map(({ record, outcome }) => [
      record.id,
      record.state,
      ago((now - Date.parse(record.createdAt)) / 1000),
      counted(record.trials, 'trial'),
      record.provenance,
      formatOutcomeSlo(outcome),
    ]),
  )
  return rows.flatMap(({ record, outcome }, i) => [
    ...wrap(heads[i]!, columns, '    '),
    ...[formatOutcome(outcome), ...annotationLines(record.annotation, '')].flatMap((text) =>
      wrap(text, columns - 2).map((line) => `  ${line}`),
    ),
  ])
}
