/** Reads a store while another process may write to it; opened read-only. */
import { resolve } from 'node:path'
import { type Annotation, type Annotations, experimentItself } from '../annotation.ts'
import type { ExperimentRecord, FinishedTrial } from '../types.ts'
import { readAnnotations } from './annotations.ts'
import type { Transaction } from './connection.ts'
import { isDamage } from './integrity-check.ts'
import { openReadable, readIntoMemory } from './read-once.ts'
import {
  findExperimentRow,
  type OnDamage,
  parseExperiment,
  readExperiments,
  readTrials,
  reportOnce,
} from './stored-rows.ts'

/** An experiment of a list. */
export type ListedExperiment = ExperimentRecord & {
  readonly trials: number
  readonly annotation?: Annotation
}

/**
 * Every call may throw StoreError. Damaged rows are skipped and reported to the reader's
 * `onDamage`.
 */
export interface StoreReader {
  /** Oldest first. */
  list(): Promise<readonly ListedExperiment[]>
  load(
    id: string,
  ): Promise<{ experiment: ExperimentRecord; trials: readonly FinishedTrial[] } | undefined>
  experiment(id: string): Promise<ExperimentRecord | undefined>
  /**
   * Numbers of the finished trials above `after`, ascending. Trials run side by side may finish out
   * of order.
   */
  numbers(id: string, after: number): Promise<readonly number[]>
  /** Finished trials numbered `from` to `to`, both included. */
  trials(id: string, from: number, to: number): Promise<readonly FinishedTrial[]>
  /** Annotations by experiment: of all experiments, or of the named one. */
  annotations(id?: string): Promise<ReadonlyMap<string, Annotations>>
  /** Changes with every commit of another process; cheap to poll. */
  version(): Promise<number>
  close(): Promise<void>
}

/**
 * Opens an existing store, also on a read-only disk or folder. Readable rows of a damaged file are
 * loaded into memory.
 * @throws StoreError for a missing file, another program's file, or if no row is readable
 */
export async function openReader(path: string, listener?: OnDamage): Promise<StoreReader> {
  const file = resolve(path)
  const onDamage = reportOnce(listener)
  let connection = await openReadable(file, onDamage)
  /** Damage in a large file shows only when it is read. */
  const read = async <T>(work: (sql: Transaction) => Promise<T>): Promise<T> => {
    const currentConnection = connection
    try {
      return await currentConnection.read(work)
    } catch (error) {
      if (!isDamage(error) || currentConnection.path !== file) throw error
      if (connection === currentConnection) {
        connection = await readIntoMemory(file, error, onDamage)
        await currentConnection.close()
      }
      return connection.read(work)
    }
  }
  return {
    list: () =>
      read(async (sql) => {
        const annotations = await readAnnotations(sql, onDamage)
        const experiments = await readExperiments(sql, onDamage)
        return experiments.map((one) => {
          const annotation = annotations.get(one.id)?.get(experimentItself)
          return annotation ? { ...one, annotation } : one
        })
      }),
    load: (id) =>
      read(async (sql) => {
        const row = await findExperimentRow(sql, id)
        const experiment = row && parseExperiment(row, onDamage)
        return experiment && { experiment, trials: await readTrials(sql, id, onDamage) }
      }),
    experiment: (id) =>
      read(async (sql) => {
        const row = await findExperimentRow(sql, id)
        return row && parseExperiment(row, onDamage)
      }),
    numbers: (id, after) =>
      read(async (sql) => {
        const rows = await sql.all<{ number: number }>(
          'SELECT number FROM trials WHERE experiment_id = ? AND number > ? ORDER BY number',
          [id, after],
        )
        return rows.map((row) => row.number)
      }),
    trials: (id, from, to) => read((sql) => readTrials(sql, id, onDamage, from, to)),
    annotations: (id) => read((sql) => readAnnotations(sql, onDamage, id)),
    version: () =>
      connection.runOutsideTransaction(async (sql) => {
        const [row] = await sql.all<{ data_version: number }>('PRAGMA data_version')
        return row?.data_version ?? 0
      }),
    close: () => connection.close(),
  }
}
