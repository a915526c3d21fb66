import type { Command } from 'commander'
import { defaults } from '../../experiment/names.ts'
import type { ListFlags } from './run.ts'

/** `tune list`: the experiments of a store, newest first. */
export function registerList(program: Command): void {
  program
    .command('list')
    .description('list the experiments in the store')
    .option('--db <file>', 'trial store (SQLite)', defaults.db)
    .option('--json', 'print JSON')
    .action(async (flags: ListFlags) => {
      const { list } = await import('./run.ts')
      process.exitCode = await list(flags)
    })
}
