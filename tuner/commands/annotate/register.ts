import type { Command } from 'commander'
import { severalTimes } from '../several-times.ts'
import { storeOption } from '../store-option.ts'
import type { AnnotateFlags } from './run.ts'

/**
 * `tune annotate`: a note and tags beside an experiment or one of its trials, and experiments put
 * away.
 */
export function registerAnnotate(program: Command): void {
  program
    .command('annotate')
    .description('add a note or tags to an experiment or a trial, or archive an experiment')
    .argument('[experiment]', 'id, as in tune list (default: the newest)')
    .option('--trial <n>', 'annotate this trial instead of the experiment')
    .option('--note <text>', 'set the note; an empty one removes it')
    .option('--tag <tag>', 'add a tag; repeatable', severalTimes)
    .option('--untag <tag>', 'remove a tag; repeatable', severalTimes)
    .option('--archive', 'archive the experiment: hide it from tune list and the dashboard')
    .option('--restore', 'restore an archived experiment')
    .addOption(storeOption())
    .option('--json', 'print JSON')
    .action(async (id: string | undefined, flags: AnnotateFlags) => {
      const { annotateOne } = await import('./run.ts')
      process.exitCode = await annotateOne(id, flags)
    })
}
