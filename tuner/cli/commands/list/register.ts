import type { Command } from 'commander'
import { collectValues, createStoreOption } from '../command-options.ts'
import type { ListFlags } from './run.ts'

/** `tune list`: lists the experiments of a store, newest first. */
export function registerList(program: Command): void {
  program
    .command('list')
    .description('list the experiments in the store, newest first')
    .argument(
      '[words...]',
      'show only experiments with all these words in their name, verdict, note or tags',
    )
    .option('--tag <tag>', 'show only experiments with this tag; repeatable', collectValues)
    .option('--all', 'include archived experiments')
    .addOption(createStoreOption())
    .option('--json', 'print JSON')
    .action(async (words: readonly string[], flags: ListFlags) => {
      const { list } = await import('./run.ts')
      process.exitCode = await list(words, flags)
    })
}
