import type { Command } from 'commander'
import { severalTimes } from '../several-times.ts'
import { storeOption } from '../store-option.ts'
import type { ListFlags } from './run.ts'

/** `tune list`: the experiments of a store, newest first. */
export function registerList(program: Command): void {
  program
    .command('list')
    .description('list the experiments in the store, newest first')
    .argument(
      '[words...]',
      'only experiments with all these words in their name, verdict, note or tags',
    )
    .option('--tag <tag>', 'only experiments with this tag; repeatable', severalTimes)
    .option('--all', 'include archived experiments')
    .addOption(storeOption())
    .option('--json', 'print JSON')
    .action(async (words: readonly string[], flags: ListFlags) => {
      const { list } = await import('./run.ts')
      process.exitCode = await list(words, flags)
    })
}
