import type { Command } from 'commander'
import { storeOption } from '../store-option.ts'
import type { ListFlags } from './run.ts'

/** `tune list`: the experiments of a store, newest first. */
export function registerList(program: Command): void {
  program
    .command('list')
    .description('list the experiments in the store')
    .addOption(storeOption())
    .option('--json', 'print JSON')
    .action(async (flags: ListFlags) => {
      const { list } = await import('./run.ts')
      process.exitCode = await list(flags)
    })
}
