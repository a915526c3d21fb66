/** `tune resume`: an experiment taken up where it stood. */
import { resolve } from 'node:path'
import { inspectMachine } from '../../../trials/machine/machine-facts.ts'
import { experimentFromDocument } from '../../experiment/load-experiment.ts'
import { surroundings } from '../../experiment/surroundings.ts'
import type { ExperimentDocument } from '../../experiment/types.ts'
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
    const machine = await inspectMachine()
    const flags = options.maxTrials === undefined ? {} : { maxTrials: options.maxTrials }
    const experiment = {
      ...experimentFromDocument(record.spec as ExperimentDocument, record.id, surroundings(machine), flags),
      dbPath: resolve(options.db),
    }
    await store.claim(record.id)
    return await execute(experiment, record.id, store, machine, trials, options)
  } finally {
    await store.close()
  }
}
