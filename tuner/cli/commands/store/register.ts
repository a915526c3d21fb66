import type { Command } from 'commander'
import { createStoreOption } from '../command-options.ts'
import type { StoreFlags } from './run.ts'

/** `tune store`: checks and backs up a trial store. */
export function registerStore(program: Command): void {
  const store = program.command('store').description('check or back up the trial store')
  const add = (name: string, description: string) =>
    store
      .command(name)
      .description(description)
      .addOption(createStoreOption())
      .option('--json', 'print JSON')
  add(
    'check',
    'read every row and list damage without changing anything (exit code 1 if there is any)',
  ).action(async (flags: StoreFlags) => {
    const { checkTrialStore } = await import('./run.ts')
    process.exitCode = await checkTrialStore(flags)
  })
  add(
    'backup',
    'copy everything readable in the store, consistently, even while an experiment runs (exit code 1 if something is lost)',
  )
    .argument('<file>', 'target file; it must not exist yet')
    .action(async (to: string, flags: StoreFlags) => {
      const { backupTrialStore } = await import('./run.ts')
      process.exitCode = await backupTrialStore(to, flags)
    })
}
