import type { Command } from 'commander'
import { storeOption } from '../store-option.ts'
import type { ResumeFlags } from './run.ts'

/**
 * `tune resume`: continues an interrupted experiment where it stood; finished trials are kept, an
 * interrupted one runs again.
 */
export function registerResume(program: Command): void {
  program
    .command('resume')
    .description('continue an interrupted experiment, or add trials to a finished one')
    .argument('[experiment]', 'id, as in tune list (default: the newest)')
    .addOption(storeOption())
    .option('--max-trials <n>', 'maximum number of trials in total, instead of the original one')
    .option('--json', 'print one JSON document')
    .option('--events', 'print every event as a line of JSON')
    .option('--plain', 'plain lines instead of the live screen')
    .action(async (id: string | undefined, flags: ResumeFlags) => {
      const { resume } = await import('./run.ts')
      process.exitCode = await resume(id, flags)
    })
}
