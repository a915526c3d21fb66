/** `tune` for programs: an experiment from its settings to its recommendation. */
import type { Recommendation } from '../../reports/recommendation/types.ts'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { openStore } from '../../trials/store/index.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { assemble } from '../backends/assemble.ts'
import { runAssembled, warningEvent } from '../backends/assembled-run.ts'
import { checkBeforeStart } from '../backends/before-start.ts'
import { loadExperiment } from '../config/load-experiment.ts'
import type { ExperimentInput } from '../config/schema/experiment-schema.ts'
import { withSecretValues } from '../config/secret-values.ts'
import { surroundings } from '../config/surroundings.ts'
import type { StopReason, TuneEvent } from '../loop/events.ts'
import { createExperimentId, createRecord } from '../loop/experiment-record.ts'
import { tellDamage } from '../tell-damage.ts'

export interface TuneOptions {
  /**
   * What the experiment file says, as an object: `{ model: 'bert', slo: '50ms', backend:
   * 'simulated' }`. Laid over `file`, where both are given.
   */
  readonly experiment?: ExperimentInput
  /** Path of an experiment file. */
  readonly file?: string
  /**
   * Ends the running trials; what was measured is kept, and the result has the reason
   * `interrupted`.
   */
  readonly signal?: AbortSignal
  /** Told of everything as it happens: trials, load steps, warnings. */
  readonly onEvent?: (event: TuneEvent) => void
}

export interface TuneResult {
  /** Its name in the trial store, which `tune show`, `tune resume` and the dashboard know it by. */
  readonly experimentId: string
  /**
   * Why the run ended. `failed`: no predictor ever served, or every other trial would fail alike.
   */
  readonly reason: StopReason
  /** The reason in words. */
  readonly detail: string
  /** What to run, how sure that is, and what else was found; the same as recommendation.json. */
  readonly recommendation: Recommendation
  /** In the order in which they ended, confirmations among them. */
  readonly trials: readonly FinishedTrial[]
  /** Paths of the result files; none where the experiment names no folder (`out`). */
  readonly files: readonly string[]
}

/**
 * Runs an experiment, as `tune -f FILE` does, and resolves with what it found. Trials are kept in
 * the experiment's store (`db`, default .tune/tune.db below the working directory); result files
 * are written where the experiment names a folder for them (`out`). Prints nothing and reads no
 * TUNE_* variable.
 * @throws ConfigError with everything that is wrong with the experiment; UserError for what this
 * machine cannot do; StoreError; the signal's reason where it was aborted before the run began. A
 * run that began ends with a result, also when it failed.
 */
export async function tune({
  experiment: given,
  file,
  signal,
  onEvent = () => {},
}: TuneOptions): Promise<TuneResult> {
  signal?.throwIfAborted()
  const warn = (message: string) => onEvent(warningEvent(message))
  const machine = await inspectMachine()
  const experiment = loadExperiment({ file, given: given ?? {}, ...surroundings(machine) })
  const id = createExperimentId(experiment.name)
  await checkBeforeStart(experiment, experiment.outDir)
  withSecretValues(experiment)
  signal?.throwIfAborted()
  const onDamage = tellDamage(experiment.dbPath, warn)
  const store = await openStore(experiment.dbPath, { onDamage })
  try {
    await store.create(createRecord(experiment, id))
    const assembled = await assemble(experiment, id, store, machine, onDamage)
    const parts =
      experiment.outDir === undefined ? { ...assembled, write: async () => [] } : assembled
    const run = {
      experiment,
      parts,
      earlier: [],
      listener: onEvent,
      signal: signal ?? new AbortController().signal,
    }
    return { experimentId: id, ...(await runAssembled(run)) }
  } finally {
    await store.close()
  }
}
