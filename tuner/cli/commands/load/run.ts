/** `tune load`: one measurement for a remote tuner. */
import { runLoadTask } from '../../../backends/load-task.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { listenForInterrupts } from '../../signals.ts'

export interface LoadFlags {
  readonly task?: string
}

export async function load({ task }: LoadFlags): Promise<number> {
  if (task === undefined)
    throw new UserError(
      'tune load: nothing to measure',
      'the tuner sets TUNE_LOAD: do not run this command by hand',
      exitCodes.usage,
    )
  const { signal, dispose } = listenForInterrupts(() => {})
  try {
    return await runLoadTask(task, (line) => process.stdout.write(line), signal)
  } finally {
    dispose()
  }
}
