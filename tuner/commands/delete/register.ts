import type { Command } from 'commander'
import { storeOption } from '../store-option.ts'
import type { DeleteFlags } from './run.ts'

/** `tune delete`: experiments that are not wanted any more. */
export function registerDelete(program: Command): void {
  program
    .command('delete')
    .description(
      'delete experiments and their trials permanently (tune annotate --archive hides them instead)',
    )
    .argument('<experiments...>', 'ids, as in tune list')
    .option('--yes', 'do not ask for confirmation')
    .addOption(storeOption())
    .option('--json', 'print JSON')
    .action(async (ids: readonly string[], flags: DeleteFlags) => {
      const { deleteAll } = await import('./run.ts')
      process.exitCode = await deleteAll(ids, flags)
    })
}
