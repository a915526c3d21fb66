import { Command } from 'commander'
import { addExperimentOptions, type FlagValues } from '../../../config/flags/flags.ts'

/** `tune estimate`: predicts capacities with errors. Runs no trials. */
export function registerEstimate(program: Command): void {
  const command = new Command('estimate')
    .description(
      'predict the capacity of every configuration by the device model, without running anything',
    )
    .option('--json', 'print every configuration as JSON')
  addExperimentOptions(command)
  command.action(async (flags: FlagValues & { json?: boolean }) => {
    const { estimate } = await import('./run.ts')
    process.exitCode = await estimate(flags)
  })
  program.addCommand(command)
}
