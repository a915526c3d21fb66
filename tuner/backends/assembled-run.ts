/** What `assemble` put together, run to its end: the same for the command line and for programs. */
import { steadyNowMs } from '../../trials/clock.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { withSecretValues } from '../config/secret-values.ts'
import type { Experiment } from '../config/types.ts'
import type { TuneEvent } from '../loop/events.ts'
import { type LoopResult, runLoop } from '../loop/loop.ts'
import type { LoopParts } from '../loop/parts.ts'
import { openOutputs } from '../outputs/outputs.ts'

interface AssembledRun {
  readonly experiment: Experiment
  readonly parts: LoopParts
  /** Trials of the run that this one takes up. */
  readonly earlier: readonly FinishedTrial[]
  readonly listener: (event: TuneEvent) => void
  readonly signal: AbortSignal
  /** Done once its lease, where it has one, is held. */
  readonly whenSwept?: () => Promise<void>
}

/** A warning as the stream of events has it. */
export const warningEvent = (message: string): TuneEvent => ({
  at: new Date(steadyNowMs()).toISOString(),
  type: 'warning',
  message,
})

/**
 * Ends what a crashed run left behind, then runs the experiment; closes its backend however it
 * ends. @throws what `runLoop` does
 */
export async function runAssembled({
  experiment,
  parts,
  earlier,
  listener,
  signal,
  whenSwept,
}: AssembledRun): Promise<LoopResult> {
  const { backend, store, experimentId } = parts
  try {
    const outputs = await openOutputs(withSecretValues(experiment).outputs, (message) =>
      listener(warningEvent(message)),
    )
    const tell = (event: TuneEvent) => {
      listener(event)
      outputs.handle(event)
    }
    try {
      await backend.launcher.sweep(signal, (what) => tell(warningEvent(what)))
      await whenSwept?.()
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
