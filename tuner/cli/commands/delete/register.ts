import type { Command } from 'commander'
import { createStoreOption } from '../command-options.ts'
import type { DeleteFlags } from './run.ts'

/** `tune delete`: deletes experiments permanently. */
export function registerDelete(program: Command): void {
  program
    .command('delete')
    .description(
      'delete experiments and their trials permanently (tune annotate --archive hides them instead)',
    )
    .argument('<experiments...>', 'ids, as in tune list')
    .option('--yes', 'do not ask for confirmation')
    .addOption(createStoreOption())
    .option('--json', 'print JSON')
    .action(async (ids: readonly string[], flags: DeleteFlags) => {
      const { deleteNamed } = await import('./run.ts')
      process.exitCode = await deleteNamed(ids, flags)
    })
}
