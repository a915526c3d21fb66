/** A store seen from outside, while another process may be writing to it: opened read-only, so that nothing can be changed through it. */
import { resolve } from 'node:path'
import type { ExperimentRecord, FinishedTrial } from '../types.ts'
import { Connection } from './connection.ts'
import { type ExperimentRow, experimentOf, find, trialsOf } from './sqlite-store.ts'
import { StoreError } from './store-error.ts'

/** Every call may throw StoreError. */
export interface StoreReader {
  list(): Promise<readonly (ExperimentRecord & { readonly trials: number })[]>
  experiment(id: string): Promise<ExperimentRecord | undefined>
  /** Numbers of the finished trials above `after`, ascending. Trials run side by side may finish out of order. */
  numbers(id: string, after: number): Promise<readonly number[]>
  /** Finished trials numbered `from` to `to`, both included. */
  trials(id: string, from: number, to: number): Promise<readonly FinishedTrial[]>
  /** Changes whenever another process has committed something: cheap to ask often. */
  version(): Promise<number>
  close(): Promise<void>
}

/** Opens a store that is there. Throws StoreError: no such file, no store of ours, damaged. */
export async function openReader(path: string): Promise<StoreReader> {
  const connection = await Connection.open(resolve(path), 5_000, 'read-only')
  try {
    const [table] = await connection.direct((sql) =>
      sql.all("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name IN ('experiments', 'trials', 'load_points') LIMIT 1 OFFSET 2"),
    )
    if (!table) {
      throw new StoreError('not-a-store', `${connection.path} is no trial store`, 'check the path, or use another file with --db')
    }
  } catch (error) {
    await connection.close()
    throw error
  }
  return {
    list: () =>
      connection.read(async (sql) => {
        const rows = await sql.all<ExperimentRow & { trials: number }>(
          `SELECT *, (SELECT count(*) FROM trials WHERE experiment_id = id) AS trials FROM experiments ORDER BY created_at, id`,
        )
        return rows.map((row) => ({ ...experimentOf(row), trials: row.trials }))
      }),
    experiment: (id) =>
      connection.direct(async (sql) => {
        const row = await find(sql, id)
        return row && experimentOf(row)
      }),
    numbers: (id, after) =>
      connection.direct(async (sql) => {
        const rows = await sql.all<{ number: number }>('SELECT number FROM trials WHERE experiment_id = ? AND number > ? ORDER BY number', [
          id,
          after,
        ])
        return rows.map((row) => row.number)
      }),
    trials: (id, from, to) => connection.read((sql) => trialsOf(sql, id, from, to)),
    version: () =>
      connection.direct(async (sql) => {
        const [row] = await sql.all<{ data_version: number }>('PRAGMA data_version')
        return row?.data_version ?? 0
      }),
    close: () => connection.close(),
  }
}
