/** `tune list`: the experiments of a store. */
import { exitCodes } from '../../exit-codes.ts'
import { table } from '../../render/columns.ts'
import { openExisting } from '../open-existing.ts'

export interface ListFlags {
  readonly db: string
  readonly json?: boolean
}

export async function list(flags: ListFlags): Promise<number> {
  const store = await openExisting(flags.db)
  try {
    const experiments = [...(await store.list())].sort((a, b) => b.createdAt.localeCompare(a.createdAt))
    if (flags.json) {
      const rows = experiments.map(({ id, name, createdAt, state, trials, provenance, seed }) => ({
        id,
        name,
        createdAt,
        state,
        trials,
        provenance,
        seed,
      }))
      process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`)
      return exitCodes.ok
    }
    const rows = experiments.map((e) => [
      e.id,
      e.state,
      `${e.trials} trials`,
      e.provenance,
      e.createdAt.slice(0, 16).replace('T', ' '),
      e.name,
    ])
    process.stdout.write(rows.length > 0 ? `${table(rows).join('\n')}\n` : 'no experiments yet: tune --model bert --slo 50ms\n')
    return exitCodes.ok
  } finally {
    await store.close()
  }
}
