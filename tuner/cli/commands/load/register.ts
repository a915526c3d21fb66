import { type Command, Option } from 'commander'
import type { LoadFlags } from './run.ts'

/**
 * `tune load`: runs in the load Job of a trial on Kubernetes. Internal; `tune profile` is for
 * users.
 */
export function registerLoad(program: Command): void {
  program
    .command('load', { hidden: true })
    .description('measure a predictor for a remote tuner: reads TUNE_LOAD, prints JSON Lines')
    .addOption(new Option('--task <json>', 'what to measure').env('TUNE_LOAD'))
    .action(async (flags: LoadFlags) => {
      const { load } = await import('./run.ts')
      process.exitCode = await load(flags)
    })
}
