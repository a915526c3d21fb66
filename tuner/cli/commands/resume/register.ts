import type { Command } from 'commander'
import { createStoreOption } from '../command-options.ts'
import type { ResumeFlags } from './run.ts'

/**
 * `tune resume`: continues an interrupted experiment. Finished trials are kept; an interrupted one
 * runs again.
 */
export function registerResume(program: Command): void {
  program
    .command('resume')
    .description('continue an interrupted experiment, or add trials to a finished one')
    .argument('[experiment]', 'id, as in tune list (default: the newest)')
    .addOption(createStoreOption())
    .option('--max-trials <n>', 'maximum number of trials in total (default: as before)')
    .option('--json', 'print one JSON document on stdout')
    .option('--events', 'print every event as a line of JSON on stdout')
    .option('--plain', 'plain lines instead of the live screen')
    .action(async (id: string | undefined, flags: ResumeFlags) => {
      const { resume } = await import('./run.ts')
      process.exitCode = await resume(id, flags)
    })
}
