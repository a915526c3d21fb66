import { Command } from 'commander'
import { addExperimentOptions, type FlagValues } from '../../../config/flags/flags.ts'
import { exitCodes } from '../../../exit-codes.ts'

/** `tune config`: prints every effective value and its origin. */
export function registerConfig(program: Command): void {
  const command = new Command('config')
    .description('print every effective setting of an experiment and its origin')
    .option('--json', 'print JSON')
    .option('--schema', 'print the JSON Schema of the experiment file instead')
  addExperimentOptions(command)
  command.action(async (flags: FlagValues & { json?: boolean; schema?: boolean }) => {
    const { showConfig } = await import('./run.ts')
    await showConfig(flags)
    process.exitCode = exitCodes.ok
  })
  program.addCommand(command)
}
