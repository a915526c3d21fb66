/** `tune` for programs: runs an experiment and returns its recommendation. */
import type { Recommendation } from '../../reports/recommendation/types.ts'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { openStore } from '../../trials/store/index.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { createHostContext } from '../config/host-context.ts'
import { loadExperiment } from '../config/load-experiment.ts'
import type { ExperimentInput } from '../config/schema/experiment-schema.ts'
import { fillSecrets } from '../config/secret-values.ts'
import { createDamageReporter } from '../damage-reporter.ts'
import type { StopReason, TuneEvent } from '../loop/events.ts'
import { createExperimentId, createRecord } from '../loop/experiment-record.ts'
import { assemble } from '../run/assemble.ts'
import { runPreflightChecks } from '../run/preflight.ts'
import { createWarning, runExperiment } from '../run/run-experiment.ts'

export interface TuneOptions {
  /**
   * Settings of the experiment file as an object: `{ model: 'bert', slo: '50ms', backend:
   * 'simulated' }`. Merged over `file`, if both are set.
   */
  readonly experiment?: ExperimentInput
  /** Path of an experiment file. */
  readonly file?: string
  /**
   * Ends the running trials. Measurements are kept, and the result has the reason `interrupted`.
   */
  readonly signal?: AbortSignal
  /** Called for every event: trials, load steps, warnings. */
  readonly onEvent?: (event: TuneEvent) => void
}

export interface TuneResult {
  /** Id in the trial store, for `tune show`, `tune resume` and the dashboard. */
  readonly experimentId: string
  /**
   * Why the run ended. `failed`: no predictor served, or every further trial would fail for the
   * same reason.
   */
  readonly reason: StopReason
  /** The reason in words. */
  readonly detail: string
  /** The recommendation, as in recommendation.json. */
  readonly recommendation: Recommendation
  /** All trials and confirmations in the order in which they ended. */
  readonly trials: readonly FinishedTrial[]
  /** Paths of the result files; none if the experiment names no folder (`out`). */
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
  const warn = (message: string) => onEvent(createWarning(message))
  const machine = await inspectMachine()
  const experiment = loadExperiment({ file, given: given ?? {}, ...createHostContext(machine) })
  const id = createExperimentId(experiment.name)
  await runPreflightChecks(experiment, experiment.outDir)
  fillSecrets(experiment)
  signal?.throwIfAborted()
  const onDamage = createDamageReporter(experiment.dbPath, warn)
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
    return { experimentId: id, ...(await runExperiment(run)) }
  } finally {
    await store.close()
  }
}
