/** Runs an experiment, new or resumed, from flags to exit code. */
import { randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import { inspectMachine, type MachineFacts } from '../../../trials/machine/machine-facts.ts'
import { openStore } from '../../../trials/store/index.ts'
import type { FinishedTrial, TrialStore } from '../../../trials/types.ts'
import { assemble } from '../../backends/assemble.ts'
import { exitCodes } from '../../exit-codes.ts'
import { experimentFromDocument, loadExperiment } from '../../experiment/load-experiment.ts'
import { surroundings } from '../../experiment/surroundings.ts'
import type { Experiment, ExperimentDocument } from '../../experiment/types.ts'
import { runLoop } from '../../loop/loop.ts'
import { provenanceOf } from '../../loop/notices.ts'
import { styleOf } from '../../render/glyphs.ts'
import { chooseRenderer, createRenderer } from '../../render/renderer.ts'
import { interruptible } from '../../signals.ts'
import { loadExperiment as findExperiment, openExisting } from '../open-existing.ts'
import { dryRun } from './dry-run.ts'
import type { TuneFlags } from './register.ts'

interface OutputFlags {
  readonly json?: boolean
  readonly events?: boolean
  readonly plain?: boolean
}

/** `tune`: a new experiment. Returns the exit code. */
export async function tune(flags: TuneFlags): Promise<number> {
  const machine = await inspectMachine()
  const experiment = loadExperiment({ file: flags.file, flags, environment: process.env, ...surroundings(machine) })
  if (flags.dryRun) return dryRun(experiment, machine, flags)
  const store = await openStore(experiment.dbPath)
  try {
    const id = newId(experiment.name)
    const created = { id, name: experiment.name, createdAt: new Date().toISOString(), spec: experiment.document, seed: experiment.seed }
    await store.create({ ...created, provenance: provenanceOf(experiment) })
    return await execute(experiment, id, store, machine, [], flags)
  } finally {
    await store.close()
  }
}

/** `tune resume`: what was measured is kept; the search goes on with the next trial. */
export async function resume(id: string | undefined, options: OutputFlags & { db: string; maxTrials?: string }): Promise<number> {
  const store = await openExisting(options.db)
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

/** Lines to a pipe are not cut where a terminal's would be. */
const pipedColumns = 400

const newId = (name: string) => {
  const slug = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 24)
  return `${slug || 'experiment'}-${randomBytes(2).toString('hex')}`
}

async function execute(
  experiment: Experiment,
  id: string,
  store: TrialStore,
  machine: MachineFacts,
  earlier: readonly FinishedTrial[],
  flags: OutputFlags,
): Promise<number> {
  const { parts, close } = await assemble(experiment, id, store, machine)
  const renderer = await createRenderer(chooseRenderer(flags, process.stderr, process.env), {
    stdout: process.stdout,
    stderr: process.stderr,
    outStyle: styleOf(process.stdout, process.env),
    errStyle: styleOf(process.stderr, process.env),
    columns: process.stdout.columns ?? pipedColumns,
    now: Date.now,
  })
  const interrupt = interruptible((name) =>
    renderer.handle({
      at: new Date().toISOString(),
      type: 'warning',
      message: `${name}: stopping the running trial, press again to kill. To go on later: tune resume ${id}`,
    }),
  )
  try {
    await parts.launcher.sweep()
    const { reason, recommendation } = await runLoop(experiment, parts, earlier, (event) => renderer.handle(event), interrupt.signal)
    if (reason === 'interrupted') return exitCodes.interrupted
    if (reason === 'failed') return exitCodes.failure
    return recommendation.best ? exitCodes.ok : exitCodes.sloUnmet
  } finally {
    await renderer.close()
    await close()
    interrupt.dispose()
  }
}
