/** `tune list`: the experiments of a store, with what they came to. */
import { rate, sloText, writing } from '../../../reports/format.ts'
import type { Recommendation } from '../../../reports/recommendation/types.ts'
import { costText } from '../../../search/objective.ts'
import type { StoreReader } from '../../../trials/store/index.ts'
import type { ExperimentRecord } from '../../../trials/types.ts'
import { exitCodes } from '../../exit-codes.ts'
import { ago, columnsOf, counted, table, wrap } from '../../render/columns.ts'
import { openExisting } from '../open-existing.ts'
import { seenAgain } from '../reopened.ts'

export interface ListFlags {
  readonly db: string
  readonly json?: boolean
}

/** What an experiment came to; one that this version cannot read is listed with why. */
type Outcome = { readonly recommendation: Recommendation } | { readonly unreadable: string }

export async function list(flags: ListFlags): Promise<number> {
  const store = await openExisting(flags.db)
  try {
    const experiments = [...(await store.list())].sort((a, b) => b.createdAt.localeCompare(a.createdAt))
    const outcomes: Outcome[] = []
    for (const { id } of experiments) outcomes.push(await outcomeOf(store, id))
    if (flags.json) {
      const rows = experiments.map((record, i) => jsonOf(record, outcomes[i]!))
      process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`)
      return exitCodes.ok
    }
    const lines = linesOf(experiments, outcomes, Date.now(), columnsOf(process.stdout))
    process.stdout.write(experiments.length > 0 ? `${lines.join('\n')}\n` : 'no experiments yet: tune --model bert --slo 50ms\n')
    return exitCodes.ok
  } finally {
    await store.close()
  }
}

async function outcomeOf(store: StoreReader, id: string): Promise<Outcome> {
  try {
    const found = await store.load(id)
    return found ? { recommendation: (await seenAgain(found)).recommendation } : { unreadable: 'it is gone' }
  } catch (error) {
    return { unreadable: (error as Error).message }
  }
}

type Listed = ExperimentRecord & { readonly trials: number }

function jsonOf({ id, name, createdAt, state, trials, provenance, seed }: Listed, outcome: Outcome): object {
  const row = { id, name, createdAt, state, trials, provenance, seed }
  if ('unreadable' in outcome) return { ...row, problem: outcome.unreadable }
  const { slo, conclusion, verdict, best } = outcome.recommendation
  return { ...row, slo: sloText(slo), conclusion, status: best?.status, verdict }
}

/** For each experiment a line of columns, and under it what it came to, within so many columns. */
function linesOf(experiments: readonly Listed[], outcomes: readonly Outcome[], now: number, columns: number): string[] {
  const heads = table(
    experiments.map((e, i) => [
      e.id,
      e.state,
      ago((now - Date.parse(e.createdAt)) / 1000),
      counted(e.trials, 'trial'),
      e.provenance,
      sloOf(outcomes[i]!),
    ]),
  )
  return heads.flatMap((head, i) => [...wrap(head, columns, '    '), ...wrap(whatOf(outcomes[i]!), columns - 2).map((line) => `  ${line}`)])
}

const sloOf = (outcome: Outcome): string => ('unreadable' in outcome ? '' : sloText(outcome.recommendation.slo))

/** 'confirmed: 1 core, A100-40GB, batch 64, 7,635 req/s, $0.066 per million requests'. */
function whatOf(outcome: Outcome): string {
  if ('unreadable' in outcome) return `cannot be read: ${outcome.unreadable}`
  const { best, objective, verdict } = outcome.recommendation
  if (!best) return verdict
  return `${best.status}: ${best.label}, ${rate(best.capacityRps)}, ${costText(objective, best, writing)}`
}
