import type { Command } from 'commander'
import { exitCodes } from '../../exit-codes.ts'
import { defaults } from '../../experiment/names.ts'

/** `tune list`: the experiments of a store, newest first. */
export function registerList(program: Command): void {
  program
    .command('list')
    .description('list the experiments in the store')
    .option('--db <file>', 'trial store (SQLite)', defaults.db)
    .option('--json', 'print JSON')
    .action(async (options: { db: string; json?: boolean }) => {
      const { openExisting } = await import('../open-existing.ts')
      const { table } = await import('../../render/columns.ts')
      const store = await openExisting(options.db)
      try {
        const experiments = [...(await store.list())].sort((a, b) => b.createdAt.localeCompare(a.createdAt))
        if (options.json) {
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
        } else {
          const rows = experiments.map((e) => [
            e.id,
            e.state,
            `${e.trials} trials`,
            e.provenance,
            e.createdAt.slice(0, 16).replace('T', ' '),
            e.name,
          ])
          process.stdout.write(rows.length > 0 ? `${table(rows).join('\n')}\n` : 'no experiments yet: tune --model bert --slo 50ms\n')
        }
        process.exitCode = exitCodes.ok
      } finally {
        await store.close()
      }
    })
}
