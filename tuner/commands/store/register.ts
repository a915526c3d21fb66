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
    'read every row and report damage, without changing anything (exit code 1 if there is any)',
  ).action(async (flags: StoreFlags) => {
    const { check } = await import('./run.ts')
    process.exitCode = await check(flags)
  })
  add(
    'backup',
    'copy all readable rows of the store, also while an experiment runs (exit code 1 if rows are lost)',
  )
    .argument('<file>', 'file to create; it must not exist')
    .action(async (to: string, flags: StoreFlags) => {
      const { backup } = await import('./run.ts')
      process.exitCode = await backup(to, flags)
    })
}
