/** Runs an experiment, new or resumed, on the screen that was asked for. */
import { setFlagsFromString } from 'node:v8'
import { steadyNowMs } from '../../../trials/clock.ts'
import type { MachineFacts } from '../../../trials/machine/machine-facts.ts'
import type { FinishedTrial, TrialStore } from '../../../trials/types.ts'
import { assemble } from '../../backends/assemble.ts'
import { runAssembled, warningEvent } from '../../backends/assembled-run.ts'
import type { Experiment } from '../../config/types.ts'
import { exitCodeOf, exitCodes } from '../../exit-codes.ts'
import type { TuneEvent } from '../../loop/events.ts'
import { styleOf } from '../../render/glyphs.ts'
import { chooseRenderer, createRenderer } from '../../render/renderer.ts'
import { interruptible } from '../../signals.ts'

export interface OutputFlags {
  readonly json?: boolean
  readonly events?: boolean
  readonly plain?: boolean
}

/**
 * Returns the exit code. `earlier`: the trials of the run that this one takes up. `whenSwept`: done
 * once its lease, where it has one, is held.
 */
export async function execute(
  experiment: Experiment,
  id: string,
  store: TrialStore,
  machine: MachineFacts,
  earlier: readonly FinishedTrial[],
  flags: OutputFlags,
  whenSwept?: () => Promise<void>,
): Promise<number> {
  if (
    experiment.backend === 'kubernetes' &&
    (experiment.kubernetes?.loadFrom ?? 'cluster') === 'cluster'
  )
    staySmall()
  const parts = await assemble(experiment, id, store, machine)
  const renderer = await createRenderer(chooseRenderer(flags, process.stderr, process.env), {
    stdout: process.stdout,
    stderr: process.stderr,
    outStyle: styleOf(process.stdout, process.env),
    errStyle: styleOf(process.stderr, process.env),
    now: steadyNowMs,
  })
  const interrupt = interruptible((name) =>
    renderer.handle(
      warningEvent(`${name}: ${endingWords(experiment)}. To continue: tune resume ${id}`),
    ),
  )
  try {
    const listener = (event: TuneEvent) => renderer.handle(event)
    const { reason, recommendation } = await runAssembled({
      experiment,
      parts,
      earlier,
      listener,
      signal: interrupt.signal,
      whenSwept,
    })
    if (reason === 'interrupted') return exitCodes.interrupted
    if (reason === 'failed') return exitCodes.failure
    return exitCodeOf(recommendation)
  } finally {
    await renderer.close()
    interrupt.dispose()
  }
}

/** What is waited for after an interrupt, and what a second one does. */
const endingWords = ({ backend }: Experiment): string =>
  backend === 'kubernetes'
    ? 'stopping the running trial and waiting until the cluster has removed its objects; press again to exit now, and the cluster removes them within a minute'
    : 'stopping the running trial, press again to kill'

/**
 * Memory that is free goes back early, for collecting garbage oftener, and WebAssembly stays as it
 * was first compiled: a third less memory with a hundred trials at once. Only for a process that
 * measures nothing itself. V8 reads both when it collects and compiles.
 */
function staySmall(): void {
  setFlagsFromString('--optimize-for-size')
  setFlagsFromString('--wasm-tiering-budget=2000000000')
}
