import type { Command } from 'commander'
import { addExperimentOptions } from '../../../config/flags/flags.ts'
import type { TuneFlags } from './run.ts'

/** `tune` itself: runs an experiment and recommends. */
export function registerTune(program: Command): void {
  addExperimentOptions(program)
  program
    .optionsGroup('Files:')
    .option(
      '--once <key>',
      'idempotency key, for Jobs that may restart: resumes an interrupted run; prints a finished one again',
    )
  program.optionsGroup('Output:')
  program
    .option('--json', 'print one JSON document')
    .option('--events', 'print every event as a line of JSON')
    .option('--plain', 'plain lines instead of the live screen')
    .action(async (flags: TuneFlags) => {
      const { tune } = await import('./run.ts')
      process.exitCode = await tune(flags)
    })
}
