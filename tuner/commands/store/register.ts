import type { Command } from 'commander'
import { storeOption } from '../store-option.ts'
import type { StoreFlags } from './run.ts'

/** `tune store`: whether a store is sound, and a sound copy of it. */
export function registerStore(program: Command): void {
  const store = program.command('store').description('check or back up the trial store')
  const add = (name: string, description: string) =>
    store
      .command(name)
      .description(description)
      .addOption(storeOption())
      .option('--json', 'print JSON')
  add(
    'check',
    'read every row and name what is damaged; nothing is changed (exit code 1 when something is)',
  ).action(async (flags: StoreFlags) => {
    const { check } = await import('./run.ts')
    process.exitCode = await check(flags)
  })
  add(
    'backup',
    'copy all that can be read of the store, as of one moment, also while an experiment runs (exit code 1 when something is lost)',
  )
    .argument('<file>', 'where to; it must not be there yet')
    .action(async (to: string, flags: StoreFlags) => {
      const { backup } = await import('./run.ts')
      process.exitCode = await backup(to, flags)
    })
}
