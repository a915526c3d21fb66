import type { Command } from 'commander'
import { storeOption } from '../store-option.ts'
import type { DeleteFlags } from './run.ts'

/** `tune delete`: experiments that are not wanted any more. */
export function registerDelete(program: Command): void {
  program
    .command('delete')
    .description(
      'remove experiments with all their trials from the store, for good; tune annotate --archive only puts them away',
    )
    .argument('<experiments...>', 'ids, as in tune list')
    .option('--yes', 'do not ask')
    .addOption(storeOption())
    .option('--json', 'print JSON')
    .action(async (ids: readonly string[], flags: DeleteFlags) => {
      const { deleteAll } = await import('./run.ts')
      process.exitCode = await deleteAll(ids, flags)
    })
}
