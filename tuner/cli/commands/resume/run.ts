/** `tune resume`: continues an experiment. */
import { resolve } from 'node:path'
import { inspectMachine } from '../../../../trials/machine/machine-facts.ts'
import type { ExperimentRecord, FinishedTrial } from '../../../../trials/types.ts'
import { resolveResultsFolder } from '../../../artifacts/result-files.ts'
import { createHostContext } from '../../../config/host-context.ts'
import { loadExperimentDocument } from '../../../config/load-experiment.ts'
import { fillSecrets } from '../../../config/secret-values.ts'
import type { ExperimentDocument } from '../../../config/types.ts'
import { parseCount } from '../../../config/values/units.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { countsAsTrial } from '../../../loop/trial-status.ts'
import { runPreflightChecks } from '../../../run/preflight.ts'
import { findExperiment, openWritableStore, requireStore } from '../open-existing.ts'
import { executeRun, type OutputFlags } from '../tune/execute.ts'

export interface ResumeFlags extends OutputFlags {
  readonly db: string
  readonly maxTrials?: string
}

/**
 * Keeps finished trials and continues the search.
 * @returns the exit code
 */
export async function resume(id: string | undefined, options: ResumeFlags): Promise<number> {
  requireStore(options.db)
  const store = await openWritableStore(options.db)
  try {
    const { experiment: record, trials } = await findExperiment(store, id)
    requireMoreTrials(record, trials, options)
    const machine = await inspectMachine()
    const flags = options.maxTrials === undefined ? {} : { maxTrials: options.maxTrials }
    const experiment = {
      ...loadExperimentDocument(
        record.spec as ExperimentDocument,
        record.id,
        createHostContext(machine),
        flags,
      ),
      dbPath: resolve(options.db),
    }
    fillSecrets(experiment)
    await runPreflightChecks(experiment, resolveResultsFolder(experiment, record.id))
    // On a cluster the lease shows whether another machine still runs the experiment. Without one,
    // only this machine can be checked.
    const leased = experiment.backend === 'kubernetes'
    if (!leased) await store.claim(record.id)
    const claimLeased = () => store.claim(record.id, { fromOtherHosts: true })
    return await executeRun(
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

/**
 * A finished experiment needs a larger --max-trials.
 * @throws UserError
 */
function requireMoreTrials(
  { id, state }: ExperimentRecord,
  trials: readonly FinishedTrial[],
  { maxTrials }: ResumeFlags,
): void {
  if (state !== 'done') return
  const countedTrials = trials.filter(countsAsTrial).length
  if (maxTrials !== undefined && parseCount(maxTrials, 1) > countedTrials) return
  throw new UserError(
    `experiment ${id} is finished after ${countedTrials} trials`,
    `allow more trials with tune resume ${id} --max-trials ${countedTrials + 10}, or print it with tune show ${id}`,
    exitCodes.usage,
  )
}
