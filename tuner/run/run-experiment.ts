/** Runs an assembled experiment to its end, for the command line and for programs. */
import { getSteadyNowMs } from '../../trials/clock.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { fillSecrets } from '../config/secret-values.ts'
import type { Experiment } from '../config/types.ts'
import type { TuneEvent } from '../loop/events.ts'
import { type LoopResult, runLoop } from '../loop/loop.ts'
import type { LoopParts } from '../loop/parts.ts'
import { openOutputs } from '../outputs/outputs.ts'

interface ExperimentRun {
  readonly experiment: Experiment
  readonly parts: LoopParts
  /** Trials of the run that this one resumes. */
  readonly earlier: readonly FinishedTrial[]
  readonly listener: (event: TuneEvent) => void
  readonly signal: AbortSignal
  /** Called after the remains of a crashed run are removed. */
  readonly onSwept?: () => Promise<void>
}

/** Creates a warning as an event. */
export const createWarning = (message: string): TuneEvent => ({
  at: new Date(getSteadyNowMs()).toISOString(),
  type: 'warning',
  message,
})

/**
 * Removes what a crashed run left behind, then runs the experiment. Always closes the backend.
 * @throws what `runLoop` throws
 */
export async function runExperiment({
  experiment,
  parts,
  earlier,
  listener,
  signal,
  onSwept,
}: ExperimentRun): Promise<LoopResult> {
  const { backend, store, experimentId } = parts
  try {
    const outputs = await openOutputs(fillSecrets(experiment).outputs, (message) =>
      listener(createWarning(message)),
    )
    const tell = (event: TuneEvent) => {
      listener(event)
      outputs.handle(event)
    }
    try {
      await backend.launcher.sweep(signal, (what) => tell(createWarning(what)))
      await onSwept?.()
      return await runLoop(
        experiment,
        { ...parts, progress: await store.progress(experimentId) },
        earlier,
        tell,
        signal,
      )
    } finally {
      await outputs.close()
    }
  } finally {
    await backend.close()
  }
}
