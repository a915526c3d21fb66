/** `tune`: a new experiment, from flags to exit code. */
import { inspectMachine } from '../../../../trials/machine/machine-facts.ts'
import { resolveResultsFolder } from '../../../artifacts/result-files.ts'
import { createHostContext } from '../../../config/host-context.ts'
import { loadExperiment } from '../../../config/load-experiment.ts'
import { fillSecrets } from '../../../config/secret-values.ts'
import { createExperimentId, createRecord } from '../../../loop/experiment-record.ts'
import { runPreflightChecks } from '../../../run/preflight.ts'
import { openWritableStore } from '../open-existing.ts'
import { resume } from '../resume/run.ts'
import { show } from '../show/run.ts'
import { runDry } from './dry-run.ts'
import { executeRun, type OutputFlags } from './execute.ts'

/** The experiment's own flags are in it too, under commander's names. */
export interface TuneFlags extends OutputFlags {
  readonly [experimentFlag: string]: unknown
  readonly file?: string
  readonly dryRun?: boolean
  readonly once?: string
}

/**
 * `tune`: a new experiment.
 * @returns the exit code
 */
export async function tune(flags: TuneFlags): Promise<number> {
  const machine = await inspectMachine()
  const experiment = loadExperiment({
    file: flags.file,
    flags,
    environment: process.env,
    ...createHostContext(machine),
  })
  const id = createExperimentId(experiment.name, flags.once)
  await runPreflightChecks(experiment, resolveResultsFolder(experiment, id))
  if (flags.dryRun) return runDry(experiment, machine, flags)
  fillSecrets(experiment)
  const store = await openWritableStore(experiment.dbPath)
  const begun = flags.once === undefined ? undefined : await store.load(id)
  if (begun !== undefined) {
    await store.close()
    const stored = {
      db: experiment.dbPath,
      json: flags.json,
      events: flags.events,
      plain: flags.plain,
    }
    return begun.experiment.state === 'done' ? show(id, stored) : resume(id, stored)
  }
  try {
    await store.create(createRecord(experiment, id))
    return await executeRun(experiment, id, store, machine, [], flags)
  } finally {
    await store.close()
  }
}
