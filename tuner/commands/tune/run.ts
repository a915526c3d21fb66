/** `tune`: a new experiment, from flags to exit code. */
import { randomBytes } from 'node:crypto'
import { inspectMachine } from '../../../trials/machine/machine-facts.ts'
import { checkBeforeStart } from '../../backends/before-start.ts'
import { resultsFolder } from '../../delivery/results-files.ts'
import { loadExperiment } from '../../experiment/load-experiment.ts'
import { withSecretValues } from '../../experiment/secret-values.ts'
import { surroundings } from '../../experiment/surroundings.ts'
import { provenanceOf } from '../../loop/notices.ts'
import { openToWrite } from '../open-existing.ts'
import { dryRun } from './dry-run.ts'
import { execute, type OutputFlags } from './execute.ts'

/** The experiment's own flags are in it too, under commander's names. */
export interface TuneFlags extends OutputFlags {
  readonly [experimentFlag: string]: unknown
  readonly file?: string
  readonly dryRun?: boolean
}

/** `tune`: a new experiment. Returns the exit code. */
export async function tune(flags: TuneFlags): Promise<number> {
  const machine = await inspectMachine()
  const experiment = loadExperiment({ file: flags.file, flags, environment: process.env, ...surroundings(machine) })
  const id = newId(experiment.name)
  await checkBeforeStart(experiment, resultsFolder(experiment, id))
  if (flags.dryRun) return dryRun(experiment, machine, flags)
  withSecretValues(experiment)
  const store = await openToWrite(experiment.dbPath)
  try {
    const created = { id, name: experiment.name, createdAt: new Date().toISOString(), spec: experiment.document, seed: experiment.seed }
    await store.create({ ...created, provenance: provenanceOf(experiment) })
    return await execute(experiment, id, store, machine, [], flags)
  } finally {
    await store.close()
  }
}

const newId = (name: string) => {
  const slug = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 24)
  return `${slug || 'experiment'}-${randomBytes(2).toString('hex')}`
}
