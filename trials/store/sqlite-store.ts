/**
 * The trial store on disk: SQLite in write-ahead mode, every commit flushed before it is reported.
 */
import { resolve } from 'node:path'
import type {
  ClaimOptions,
  ExperimentRecord,
  FinishedTrial,
  RunningTrial,
  TrialStore,
} from '../types.ts'
import type { Connection, Transaction } from './connection.ts'
import { encode } from './infinity-json.ts'
import { openForWriting } from './open-checked.ts'
import { findOwnerState, getThisProcess, type Owner } from './owner.ts'
import { createOwnedElsewhereError } from './ownership-error.ts'
import { addWindow, endTrials, readProgress, startTrial } from './run-progress.ts'
import { StoreError } from './store-error.ts'
import {
  digestExperiment,
  digestResult,
  digestTrial,
  findExperimentRow,
  findOwnership,
  type OnDamage,
  parseExperiment,
  parseOwner,
  readExperiments,
  readTrials,
  reportOnce,
  requireExperiment,
  splitTrial,
} from './stored-rows.ts'

interface StoreOptions {
  /** How long a statement waits for another process's lock, ms. */
  readonly busyTimeoutMs?: number
  /** Hears of every row that is damaged and left out. */
  readonly onDamage?: OnDamage
}

/**
 * Opens the store at `path`, creating file and folder when missing.
 * @throws StoreError for damaged pages or another version (without writing), another program's
 * database, a lock, a read-only or full disk, or a folder that cannot be created
 */
export async function openStore(path: string, options: StoreOptions = {}): Promise<TrialStore> {
  const connection = await openForWriting(resolve(path), options.busyTimeoutMs)
  return openSqliteStore(connection, reportOnce(options.onDamage))
}

function openSqliteStore(connection: Connection, onDamage: OnDamage): TrialStore {
  return {
    create: (experiment) => connection.write((sql) => create(sql, experiment)),
    claim: (id, options) => connection.write((sql) => claimExperiment(sql, id, options)),
    load: (id) =>
      connection.read(async (sql) => {
        const row = await findExperimentRow(sql, id)
        const experiment = row && parseExperiment(row, onDamage)
        return experiment && { experiment, trials: await readTrials(sql, id, onDamage) }
      }),
    progress: (id) => connection.read((sql) => readProgress(sql, id, onDamage)),
    start: (id, trial) => connection.write((sql) => start(sql, id, trial)),
    addWindow: (id, number, position, window) =>
      connection.write(async (sql) => {
        await requireOwnership(sql, id)
        await addWindow(sql, id, number, position, window)
      }),
    list: () => connection.read((sql) => readExperiments(sql, onDamage)),
    append: (id, trial) => connection.write((sql) => append(sql, id, trial)),
    finish: (id, state, result) =>
      connection.write((sql) => finishExperiment(sql, id, state, result)),
    close: () => connection.close(),
  }
}

async function create(
  sql: Transaction,
  experiment: Parameters<TrialStore['create']>[0],
): Promise<void> {
  const { id, name, createdAt, provenance, seed } = experiment
  const spec = encode(experiment.spec)
  if (await findExperimentRow(sql, id))
    throw new StoreError(
      'duplicate',
      `experiment ${id} is already in the store`,
      'resume it, or choose another id',
    )
  await sql.run(
    `INSERT INTO experiments (id, name, created_at, provenance, seed, state, spec, owner, digest) VALUES (?, ?, ?, ?, ?, 'running', ?, ?, ?)`,
    [
      id,
      name,
      createdAt,
      provenance,
      seed,
      spec,
      encode(getThisProcess()),
      digestExperiment({ ...experiment, created_at: createdAt, spec }),
    ],
  )
}

async function claimExperiment(
  sql: Transaction,
  id: string,
  { fromOtherHosts = false }: ClaimOptions = {},
): Promise<void> {
  const row = await requireExperiment(sql, id)
  const ownership = findOwnership(row)
  if (ownership?.state === 'alive' || (ownership?.state === 'unknown' && !fromOtherHosts))
    throw createOwnedElsewhereError(id, ownership)
  await sql.run(
    `UPDATE experiments SET state = 'running', result = NULL, result_digest = NULL, owner = ? WHERE id = ?`,
    [encode(getThisProcess()), id],
  )
}

async function requireOwnership(sql: Transaction, id: string): Promise<void> {
  const row = await requireExperiment(sql, id)
  const owner = parseOwner(row)
  if (row.state !== 'running' || !owner || findOwnerState(owner) !== 'this-process')
    throw createOwnershipError(id, row.state, owner)
}

async function start(sql: Transaction, id: string, trial: RunningTrial): Promise<void> {
  await requireOwnership(sql, id)
  await startTrial(sql, id, trial)
}

async function append(sql: Transaction, id: string, trial: FinishedTrial): Promise<void> {
  const { number } = trial
  await requireOwnership(sql, id)
  const [present] = await sql.all('SELECT 1 FROM trials WHERE experiment_id = ? AND number = ?', [
    id,
    number,
  ])
  if (present)
    throw new StoreError(
      'duplicate',
      `trial ${number} of experiment ${id} is already in the store`,
      'tune never rewrites a finished trial',
    )
  await endTrials(sql, id, number)
  const { document, points } = splitTrial(trial)
  const digest = digestTrial({ experiment_id: id, number, trial: document }, points)
  await sql.run('INSERT INTO trials (experiment_id, number, trial, digest) VALUES (?, ?, ?, ?)', [
    id,
    number,
    document,
    digest,
  ])
  const insertPoint =
    'INSERT INTO load_points (experiment_id, trial_number, position, point) VALUES (?, ?, ?, ?)'
  for (const [position, point] of points.entries())
    await sql.run(insertPoint, [id, number, position, point])
}

async function finishExperiment(
  sql: Transaction,
  id: string,
  state: Parameters<TrialStore['finish']>[1],
  result: unknown,
): Promise<void> {
  const row = await requireExperiment(sql, id)
  const owner = parseOwner(row)
  if (owner && findOwnerState(owner) !== 'this-process')
    throw createOwnershipError(id, row.state, owner)
  const text = result === undefined ? null : encode(result)
  await sql.run(
    'UPDATE experiments SET state = ?, result = ?, result_digest = ?, owner = NULL WHERE id = ?',
    [state, text, text && digestResult(id, text), id],
  )
  if (state === 'interrupted') return
  await endTrials(sql, id)
  await sql.run(
    'UPDATE experiments SET ended_after = (SELECT coalesce(max(number), 0) FROM trials WHERE experiment_id = ?) WHERE id = ?',
    [id, id],
  )
}

function createOwnershipError(
  id: string,
  state: ExperimentRecord['state'],
  owner: Owner | undefined,
): StoreError {
  const reason = owner ? `process ${owner.pid} on ${owner.host} runs it` : `it is ${state}`
  return new StoreError(
    'owned-elsewhere',
    `this process cannot write experiment ${id}: ${reason}`,
    'resume it first',
  )
}
