import { type Command, Option } from 'commander'
import { exitCodes, UserError } from '../../exit-codes.ts'

/** `tune load`: what the load Job of a trial on Kubernetes runs. Not for people: `tune profile` is. */
export function registerLoad(program: Command): void {
  program
    .command('load', { hidden: true })
    .description('measure a predictor for a tuner elsewhere: reads TUNE_LOAD, prints lines of JSON')
    .addOption(new Option('--task <json>', 'what to measure').env('TUNE_LOAD'))
    .action(async ({ task }: { task?: string }) => {
      if (task === undefined) throw new UserError('tune load: nothing to measure', 'set TUNE_LOAD, as the tuner does', exitCodes.usage)
      const { runLoadTask } = await import('../../backends/load-task.ts')
      const { interruptible } = await import('../../signals.ts')
      const { signal, dispose } = interruptible(() => {})
      try {
        process.exitCode = await runLoadTask(task, (line) => process.stdout.write(line), signal)
      } finally {
        dispose()
      }
    })
}
