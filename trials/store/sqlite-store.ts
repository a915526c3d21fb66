/** The trial store on disk: SQLite in write-ahead mode, every commit flushed before it is reported. */
import { accessSync, constants, existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { LoadPoint } from '../../profiler/types.ts'
import type { ExperimentRecord, FinishedTrial, TrialStore } from '../types.ts'
import { Connection, type Transaction } from './connection.ts'
import { migrate } from './database-schema.ts'
import { decode, encode } from './infinity-json.ts'
import { type Owner, ownerState, thisProcess } from './owner.ts'
import { readOnlyHint, StoreError, storeErrorOf } from './store-error.ts'

export interface StoreOptions {
  /** How long a statement waits for another process's lock, ms. */
  readonly busyTimeoutMs?: number
}

export interface ExperimentRow {
  id: string
  name: string
  created_at: string
  provenance: ExperimentRecord['provenance']
  seed: number
  state: ExperimentRecord['state']
  spec: string
  result: string | null
  owner: string | null
}

/**
 * Opens the store at `path`, creating file and folder when missing and bringing older versions up to date.
 * Throws StoreError: newer version, another program's database, damaged, locked, read-only, full disk, no such folder.
 */
export async function openStore(path: string, options: StoreOptions = {}): Promise<TrialStore> {
  const file = resolve(path)
  try {
    mkdirSync(dirname(file), { recursive: true })
  } catch (error) {
    throw new StoreError(
      'cannot-open',
      `cannot make the folder of the trial store ${file}: ${(error as Error).message}`,
      'use another file with --db',
      {
        cause: error,
      },
    )
  }
  const connection = await Connection.open(file, options.busyTimeoutMs ?? 5_000).catch((error: unknown) =>
    Promise.reject(refusal(error, file)),
  )
  try {
    await connection.direct((sql) => sql.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON'))
    await migrate(connection)
    if (statSync(file).size < checkedBytes) await checkWhole(connection)
  } catch (error) {
    await connection.close()
    throw refusal(storeErrorOf(error, file), file)
  }
  return sqliteStore(connection)
}

/** Up to this size a store is read whole when it is opened; damage in a larger one is found when it is read. 32 MB take about a second. */
const checkedBytes = 32e6

async function checkWhole(connection: Connection): Promise<void> {
  await connection.direct(async (sql) => {
    const [check] = await sql.all<{ quick_check: string }>('PRAGMA quick_check(1)')
    if (check?.quick_check !== 'ok') throw Object.assign(new Error(check?.quick_check ?? 'no answer'), { code: 'SQLITE_CORRUPT' })
  })
}

/** SQLite says 'cannot open' also of a read-only disk or folder; the file system knows better. */
function refusal(error: unknown, file: string): unknown {
  if (!(error instanceof StoreError) || error.fault !== 'cannot-open') return error
  try {
    accessSync(existsSync(file) ? file : dirname(file), constants.W_OK)
    accessSync(dirname(file), constants.W_OK)
    return error
  } catch (cause) {
    return new StoreError('read-only', `the trial store ${file} cannot be written (${(cause as Error).message})`, readOnlyHint, { cause })
  }
}

function sqliteStore(connection: Connection): TrialStore {
  return {
    create: (experiment) =>
      connection.write(async (sql) => {
        if (await find(sql, experiment.id)) {
          throw new StoreError('duplicate', `experiment ${experiment.id} is in the store already`, 'resume it, or choose another id')
        }
        await sql.run(
          `INSERT INTO experiments (id, name, created_at, provenance, seed, state, spec, owner) VALUES (?, ?, ?, ?, ?, 'running', ?, ?)`,
          [
            experiment.id,
            experiment.name,
            experiment.createdAt,
            experiment.provenance,
            experiment.seed,
            encode(experiment.spec),
            encode(thisProcess()),
          ],
        )
      }),

    claim: (id) =>
      connection.write(async (sql) => {
        const row = await need(sql, id)
        const owner = row.state === 'running' ? ownerOf(row) : undefined
        const state = owner && ownerState(owner)
        if (owner && (state === 'alive' || state === 'unknown')) throw ownedElsewhere(id, owner, state)
        await sql.run(`UPDATE experiments SET state = 'running', result = NULL, owner = ? WHERE id = ?`, [encode(thisProcess()), id])
      }),

    load: (id) =>
      connection.read(async (sql) => {
        const row = await find(sql, id)
        return row && { experiment: experimentOf(row), trials: await trialsOf(sql, id) }
      }),

    list: () =>
      connection.read(async (sql) => {
        const rows = await sql.all<ExperimentRow & { trials: number }>(
          `SELECT *, (SELECT count(*) FROM trials WHERE experiment_id = id) AS trials FROM experiments ORDER BY created_at, id`,
        )
        return rows.map((row) => ({ ...experimentOf(row), trials: row.trials }))
      }),

    append: (id, trial) =>
      connection.write(async (sql) => {
        const row = await need(sql, id)
        const owner = ownerOf(row)
        if (row.state !== 'running' || !owner || ownerState(owner) !== 'this-process') throw notOurs(id, row.state, owner)
        const [present] = await sql.all('SELECT 1 FROM trials WHERE experiment_id = ? AND number = ?', [id, trial.number])
        if (present) {
          throw new StoreError(
            'duplicate',
            `trial ${trial.number} of experiment ${id} is in the store already`,
            'a finished trial is never rewritten',
          )
        }
        const { document, points } = split(trial)
        await sql.run('INSERT INTO trials (experiment_id, number, trial) VALUES (?, ?, ?)', [id, trial.number, encode(document)])
        for (const [position, point] of points.entries()) {
          await sql.run('INSERT INTO load_points (experiment_id, trial_number, position, point) VALUES (?, ?, ?, ?)', [
            id,
            trial.number,
            position,
            encode(point),
          ])
        }
      }),

    finish: (id, state, result) =>
      connection.write(async (sql) => {
        const row = await need(sql, id)
        const owner = ownerOf(row)
        if (owner && ownerState(owner) !== 'this-process') throw notOurs(id, row.state, owner)
        await sql.run('UPDATE experiments SET state = ?, result = ?, owner = NULL WHERE id = ?', [
          state,
          result === undefined ? null : encode(result),
          id,
        ])
      }),

    close: () => connection.close(),
  }
}

export async function find(sql: Transaction, id: string): Promise<ExperimentRow | undefined> {
  const [row] = await sql.all<ExperimentRow>('SELECT * FROM experiments WHERE id = ?', [id])
  return row
}

async function need(sql: Transaction, id: string): Promise<ExperimentRow> {
  const row = await find(sql, id)
  if (!row) throw new StoreError('unknown-experiment', `there is no experiment ${id} in the store`, 'see `tune list` for those there are')
  return row
}

const ownerOf = (row: ExperimentRow): Owner | undefined => (row.owner === null ? undefined : (decode(row.owner) as Owner))

/** An experiment whose process has died is interrupted, whatever that process last wrote. */
export function experimentOf(row: ExperimentRow): ExperimentRecord {
  const owner = ownerOf(row)
  return {
    id: row.id,
    name: row.name,
    createdAt: row.created_at,
    spec: decode(row.spec),
    provenance: row.provenance,
    seed: row.seed,
    state: row.state === 'running' && (!owner || ownerState(owner) === 'dead') ? 'interrupted' : row.state,
    ...(row.result === null ? {} : { result: decode(row.result) }),
  }
}

/** Finished trials numbered `from` to `to`, both included, by number. */
export async function trialsOf(sql: Transaction, id: string, from = 0, to = Number.MAX_SAFE_INTEGER): Promise<FinishedTrial[]> {
  const rows = await sql.all<{ number: number; trial: string }>(
    'SELECT number, trial FROM trials WHERE experiment_id = ? AND number BETWEEN ? AND ? ORDER BY number',
    [id, from, to],
  )
  const pointRows = await sql.all<{ trial_number: number; point: string }>(
    'SELECT trial_number, point FROM load_points WHERE experiment_id = ? AND trial_number BETWEEN ? AND ? ORDER BY trial_number, position',
    [id, from, to],
  )
  const points = new Map<number, LoadPoint[]>()
  for (const { trial_number, point } of pointRows) {
    const curve = points.get(trial_number) ?? []
    if (curve.length === 0) points.set(trial_number, curve)
    curve.push(decode(point) as LoadPoint)
  }
  return rows.map((row) => {
    const trial = decode(row.trial) as FinishedTrial
    if (trial.state !== 'complete') return trial
    return { ...trial, measurement: { ...trial.measurement, points: points.get(row.number) ?? [] } }
  })
}

/** The load curve apart from the rest of a trial. */
function split(trial: FinishedTrial) {
  if (trial.state !== 'complete') return { document: trial, points: [] }
  const { points, ...measurement } = trial.measurement
  return { document: { ...trial, measurement }, points }
}

function ownedElsewhere(id: string, owner: Owner, state: 'alive' | 'unknown'): StoreError {
  return state === 'alive'
    ? new StoreError(
        'owned-elsewhere',
        `experiment ${id} is being run by process ${owner.pid}`,
        `wait for it, or stop it (kill ${owner.pid}) and try again`,
      )
    : new StoreError(
        'owned-elsewhere',
        `experiment ${id} was started on ${owner.host} (process ${owner.pid}), and whether it still runs cannot be seen from here`,
        `finish or interrupt it on ${owner.host}`,
      )
}

function notOurs(id: string, state: ExperimentRecord['state'], owner: Owner | undefined): StoreError {
  const holder = owner ? `process ${owner.pid} on ${owner.host} runs it` : `it is ${state}`
  return new StoreError('owned-elsewhere', `experiment ${id} cannot be written by this process: ${holder}`, 'resume it first')
}
