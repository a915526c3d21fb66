/** `tune`: a new experiment, from flags to exit code. */
import { createHash, randomBytes } from 'node:crypto'
import { inspectMachine } from '../../../trials/machine/machine-facts.ts'
import { checkBeforeStart } from '../../backends/before-start.ts'
import { resultsFolder } from '../../delivery/results-files.ts'
import { loadExperiment } from '../../experiment/load-experiment.ts'
import { withSecretValues } from '../../experiment/secret-values.ts'
import { surroundings } from '../../experiment/surroundings.ts'
import { provenanceOf } from '../../loop/notices.ts'
import { openToWrite } from '../open-existing.ts'
import { resume } from '../resume/run.ts'
import { show } from '../show/run.ts'
import { dryRun } from './dry-run.ts'
import { execute, type OutputFlags } from './execute.ts'

/** The experiment's own flags are in it too, under commander's names. */
export interface TuneFlags extends OutputFlags {
  readonly [experimentFlag: string]: unknown
  readonly file?: string
  readonly dryRun?: boolean
  readonly once?: string
}

/** `tune`: a new experiment. Returns the exit code. */
export async function tune(flags: TuneFlags): Promise<number> {
  const machine = await inspectMachine()
  const experiment = loadExperiment({ file: flags.file, flags, environment: process.env, ...surroundings(machine) })
  const id = idOf(experiment.name, flags.once)
  await checkBeforeStart(experiment, resultsFolder(experiment, id))
  if (flags.dryRun) return dryRun(experiment, machine, flags)
  withSecretValues(experiment)
  const store = await openToWrite(experiment.dbPath)
  const begun = flags.once === undefined ? undefined : await store.load(id)
  if (begun !== undefined) {
    await store.close()
    const stored = { db: experiment.dbPath, json: flags.json, events: flags.events, plain: flags.plain }
    return begun.experiment.state === 'done' ? show(id, stored) : resume(id, stored)
  }
  try {
    const created = { id, name: experiment.name, createdAt: new Date().toISOString(), spec: experiment.document, seed: experiment.seed }
    await store.create({ ...created, provenance: provenanceOf(experiment) })
    return await execute(experiment, id, store, machine, [], flags)
  } finally {
    await store.close()
  }
}

/** @param key what tells this start from others; absent: it is one of its own */
const idOf = (name: string, key: string | undefined) => {
  const slug = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 24)
  return `${slug || 'experiment'}-${key === undefined ? randomBytes(2).toString('hex') : createHash('sha256').update(key).digest('hex').slice(0, 8)}`
}
