import type { Command } from 'commander'
import { collectValues, createStoreOption } from '../command-options.ts'
import type { AnnotateFlags } from './run.ts'

/** `tune annotate`: sets note and tags of an experiment or a trial, and archives experiments. */
export function registerAnnotate(program: Command): void {
  program
    .command('annotate')
    .description('add a note or tags to an experiment or a trial, or archive an experiment')
    .argument('[experiment]', 'id, as in tune list (default: the newest)')
    .option('--trial <n>', 'annotate this trial instead of the experiment')
    .option('--note <text>', 'set the note, replacing an earlier one; an empty note removes it')
    .option('--tag <tag>', 'add a tag; repeatable', collectValues)
    .option('--untag <tag>', 'remove a tag; repeatable', collectValues)
    .option('--archive', 'archive the experiment: tune list and the dashboard hide it')
    .option('--restore', 'restore an archived experiment')
    .addOption(createStoreOption())
    .option('--json', 'print JSON')
    .action(async (id: string | undefined, flags: AnnotateFlags) => {
      const { annotateExperiment } = await import('./run.ts')
      process.exitCode = await annotateExperiment(id, flags)
    })
}
