/** Failures of a pipeline say which stage is at fault. */
import { InfeasibleError, LaunchError } from '../types.ts'

/** Adds the stage to the message of a failure; returns any other error unchanged. */
export function addStageToError(error: unknown, stage: string): unknown {
  if (error instanceof InfeasibleError)
    return new InfeasibleError(error.reason, `stage ${stage}: ${error.message}`, error.logPath)
  if (error instanceof LaunchError)
    return new LaunchError(
      `stage ${stage}: ${error.message}`,
      error.hint,
      error.logPath,
      error.final,
      error.unplaced,
    )
  return error
}
