/** Runs a new or resumed experiment with the chosen renderer. */
import { setFlagsFromString } from 'node:v8'
import { getSteadyNowMs } from '../../../../trials/clock.ts'
import type { MachineFacts } from '../../../../trials/machine/machine-facts.ts'
import type { FinishedTrial, TrialStore } from '../../../../trials/types.ts'
import type { Experiment } from '../../../config/types.ts'
import { exitCodes, resolveExitCode } from '../../../exit-codes.ts'
import type { TuneEvent } from '../../../loop/events.ts'
import { assemble } from '../../../run/assemble.ts'
import { createWarning, runExperiment } from '../../../run/run-experiment.ts'
import { detectStyle } from '../../render/glyphs.ts'
import { chooseRenderer, createRenderer } from '../../render/renderer.ts'
import { listenForInterrupts } from '../../signals.ts'

export interface OutputFlags {
  readonly json?: boolean
  readonly events?: boolean
  readonly plain?: boolean
}

/**
 * Returns the exit code.
 * @param earlier trials of the resumed run
 * @param onSwept called after the remains of a crashed run are removed
 */
export async function executeRun(
  experiment: Experiment,
  id: string,
  store: TrialStore,
  machine: MachineFacts,
  earlier: readonly FinishedTrial[],
  flags: OutputFlags,
  onSwept?: () => Promise<void>,
): Promise<number> {
  if (
    experiment.backend === 'kubernetes' &&
    (experiment.kubernetes?.loadFrom ?? 'cluster') === 'cluster'
  )
    limitMemory()
  const parts = await assemble(experiment, id, store, machine)
  const renderer = await createRenderer(chooseRenderer(flags, process.stderr, process.env), {
    stdout: process.stdout,
    stderr: process.stderr,
    outStyle: detectStyle(process.stdout, process.env),
    errStyle: detectStyle(process.stderr, process.env),
    now: getSteadyNowMs,
  })
  const interrupt = listenForInterrupts((name) =>
    renderer.handle(
      createWarning(`${name}: ${describeStopping(experiment)}. To continue: tune resume ${id}`),
    ),
  )
  try {
    const listener = (event: TuneEvent) => renderer.handle(event)
    const { reason, recommendation } = await runExperiment({
      experiment,
      parts,
      earlier,
      listener,
      signal: interrupt.signal,
      onSwept,
    })
    if (reason === 'interrupted') return exitCodes.interrupted
    if (reason === 'failed') return exitCodes.failure
    return resolveExitCode(recommendation)
  } finally {
    await renderer.close()
    interrupt.dispose()
  }
}

/** Describes what happens after a first and a second interrupt. */
const describeStopping = ({ backend }: Experiment): string =>
  backend === 'kubernetes'
    ? 'stopping the running trial and waiting until the cluster has removed its objects; press again to exit now, and the cluster removes them within a minute'
    : 'stopping the running trial, press again to kill'

/**
 * Collects garbage more often and disables the optimising tier of WebAssembly: a third less memory
 * with a hundred concurrent trials. Only for processes that do not generate load themselves. V8
 * reads both flags at run time.
 */
function limitMemory(): void {
  setFlagsFromString('--optimize-for-size')
  setFlagsFromString('--wasm-tiering-budget=2000000000')
}
