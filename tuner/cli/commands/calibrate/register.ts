import { Command } from 'commander'
import { addExperimentOptions } from '../../../config/flags/flags.ts'
import type { CalibrateFlags } from './run.ts'

/** `tune calibrate`: measures a server at a few batch sizes to fit the device model to it. */
export function registerCalibrate(program: Command): void {
  const command = new Command('calibrate')
    .description(
      'measure a server at a few batch sizes, as the prior of estimates, simulations and the search',
    )
    .option('--gpu <name>', 'GPU that the server runs on (default: the first of the search space)')
    .option('--batches <sizes>', 'items per request: three to five sizes', '1,4,16,64')
    .option('--list', 'list the calibrations in the store')
    .option('--clear [name]', 'remove one calibration, or all')
    .option('--json', 'print JSON')
  addExperimentOptions(command)
  command.action(async (flags: CalibrateFlags) => {
    const { calibrate } = await import('./run.ts')
    process.exitCode = await calibrate(flags)
  })
  program.addCommand(command)
}
