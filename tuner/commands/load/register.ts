import { type Command, Option } from 'commander'
import type { LoadFlags } from './run.ts'

/**
 * `tune load`: what the load Job of a trial on Kubernetes runs. Not for people: `tune profile` is.
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
