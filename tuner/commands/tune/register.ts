import type { Command } from 'commander'
import { addExperimentOptions } from '../../experiment/flags/flags.ts'
import type { TuneFlags } from './run.ts'

/** `tune` itself: runs an experiment and recommends. */
export function registerTune(program: Command): void {
  addExperimentOptions(program)
  program
    .optionsGroup('Files:')
    .option(
      '--once <key>',
      'begin once under this key, for what may be started again (a Job): an experiment of it that was interrupted is gone on with, one that ended is told again',
    )
  program.optionsGroup('Output:')
  program
    .option('--json', 'print one JSON document on stdout')
    .option('--events', 'print every event as a line of JSON on stdout')
    .option('--plain', 'plain lines instead of the live screen')
    .action(async (flags: TuneFlags) => {
      const { tune } = await import('./run.ts')
      process.exitCode = await tune(flags)
    })
}
