/** `tune resume`: an experiment taken up where it stood. */
import { resolve } from 'node:path'
import { inspectMachine } from '../../../trials/machine/machine-facts.ts'
import type { ExperimentRecord, FinishedTrial } from '../../../trials/types.ts'
import { checkBeforeStart } from '../../backends/before-start.ts'
import { experimentFromDocument } from '../../config/load-experiment.ts'
import { withSecretValues } from '../../config/secret-values.ts'
import { surroundings } from '../../config/surroundings.ts'
import type { ExperimentDocument } from '../../config/types.ts'
import { parseCount } from '../../config/units.ts'
import { resultsFolder } from '../../delivery/results-files.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { countsAsTrial } from '../../loop/trial-status.ts'
import { existingStore, loadExperiment as findExperiment, openToWrite } from '../open-existing.ts'
import { execute, type OutputFlags } from '../tune/execute.ts'

export interface ResumeFlags extends OutputFlags {
  readonly db: string
  readonly maxTrials?: string
}

/** `tune resume`: what was measured is kept; the search goes on with the next trial. */
export async function resume(id: string | undefined, options: ResumeFlags): Promise<number> {
  existingStore(options.db)
  const store = await openToWrite(options.db)
  try {
    const { experiment: record, trials } = await findExperiment(store, id)
    refuseFinished(record, trials, options)
    const machine = await inspectMachine()
    const flags = options.maxTrials === undefined ? {} : { maxTrials: options.maxTrials }
    const experiment = {
      ...experimentFromDocument(
        record.spec as ExperimentDocument,
        record.id,
        surroundings(machine),
        flags,
      ),
      dbPath: resolve(options.db),
    }
    withSecretValues(experiment)
    await checkBeforeStart(experiment, resultsFolder(experiment, record.id))
    // On a cluster its lease tells whether a tuner of another machine still runs it; elsewhere
    // nobody can.
    const leased = experiment.backend === 'kubernetes'
    if (!leased) await store.claim(record.id)
    const claimLeased = () => store.claim(record.id, { fromOtherHosts: true })
    return await execute(
      experiment,
      record.id,
      store,
      machine,
      trials,
      options,
      leased ? claimLeased : undefined,
    )
  } finally {
    await store.close()
  }
}

/** A finished experiment says what it says until more is asked for. @throws UserError */
function refuseFinished(
  { id, state }: ExperimentRecord,
  trials: readonly FinishedTrial[],
  { maxTrials }: ResumeFlags,
): void {
  if (state !== 'done') return
  const counted = trials.filter(countsAsTrial).length
  if (maxTrials !== undefined && parseCount(maxTrials, 1) > counted) return
  throw new UserError(
    `experiment ${id} is finished after ${counted} trials`,
    `allow more trials with tune resume ${id} --max-trials ${counted + 10}, or print it with tune show ${id}`,
    exitCodes.usage,
  )
}
