import type { Command } from 'commander'
import { storeOption } from '../store-option.ts'
import type { StoreFlags } from './run.ts'

/** `tune store`: whether a store is sound, a sound one from a damaged one, and a copy. */
export function registerStore(program: Command): void {
  const store = program
    .command('store')
    .description('look after the trial store: check it, repair it, copy it')
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
    'repair',
    'replace a damaged store by a new one of all that can be read; the damaged file is kept beside it',
  ).action(async (flags: StoreFlags) => {
    const { repair } = await import('./run.ts')
    process.exitCode = await repair(flags)
  })
  add('backup', 'copy the store, as of one moment, also while an experiment runs')
    .argument('<file>', 'where to; it must not be there yet')
    .action(async (to: string, flags: StoreFlags) => {
      const { backup } = await import('./run.ts')
      process.exitCode = await backup(to, flags)
    })
}
