/**
 * A store seen from outside, while another process may be writing to it: opened read-only, so that
 * nothing can be changed through it.
 */
import { resolve } from 'node:path'
import { type Annotation, type Annotations, experimentItself } from '../annotation.ts'
import type { ExperimentRecord, FinishedTrial } from '../types.ts'
import { annotationsOf } from './annotations.ts'
import type { Transaction } from './connection.ts'
import { isDamage } from './integrity-check.ts'
import { openReadable, readIntoMemory } from './reading.ts'
import {
  experimentOf,
  experimentsOf,
  find,
  type OnDamage,
  onceEach,
  trialsOf,
} from './stored-rows.ts'

/** An experiment of a list. */
export type ListedExperiment = ExperimentRecord & {
  readonly trials: number
  readonly annotation?: Annotation
}

/**
 * Every call may throw StoreError. What is damaged is left out and told to the `onDamage` that the
 * reader was opened with.
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
  /**
   * What people wrote beside experiments and trials, by experiment: of all that have any, or of the
   * one named.
   */
  annotations(id?: string): Promise<ReadonlyMap<string, Annotations>>
  /** Changes whenever another process has committed something: cheap to ask often. */
  version(): Promise<number>
  close(): Promise<void>
}

/**
 * Opens a store that is there, also on a disk or in a folder that cannot be written. Of a file
 * whose pages are damaged, what can be read is read into memory. Throws StoreError: no such file,
 * no store of ours, nothing in it whole.
 */
export async function openReader(path: string, given?: OnDamage): Promise<StoreReader> {
  const file = resolve(path)
  const onDamage = onceEach(given)
  let connection = await openReadable(file, onDamage)
  /** Damage in a large file shows only when it is read. */
  const read = async <T>(work: (sql: Transaction) => Promise<T>): Promise<T> => {
    const used = connection
    try {
      return await used.read(work)
    } catch (error) {
      if (!isDamage(error) || used.path !== file) throw error
      if (connection === used) {
        connection = await readIntoMemory(file, error, onDamage)
        await used.close()
      }
      return connection.read(work)
    }
  }
  return {
    list: () =>
      read(async (sql) => {
        const written = await annotationsOf(sql, onDamage)
        const experiments = await experimentsOf(sql, onDamage)
        return experiments.map((one) => {
          const annotation = written.get(one.id)?.get(experimentItself)
          return annotation ? { ...one, annotation } : one
        })
      }),
    load: (id) =>
      read(async (sql) => {
        const row = await find(sql, id)
        const experiment = row && experimentOf(row, onDamage)
        return experiment && { experiment, trials: await trialsOf(sql, id, onDamage) }
      }),
    experiment: (id) =>
      read(async (sql) => {
        const row = await find(sql, id)
        return row && experimentOf(row, onDamage)
      }),
    numbers: (id, after) =>
      read(async (sql) => {
        const rows = await sql.all<{ number: number }>(
          'SELECT number FROM trials WHERE experiment_id = ? AND number > ? ORDER BY number',
          [id, after],
        )
        return rows.map((row) => row.number)
      }),
    trials: (id, from, to) => read((sql) => trialsOf(sql, id, onDamage, from, to)),
    annotations: (id) => read((sql) => annotationsOf(sql, onDamage, id)),
    version: () =>
      connection.direct(async (sql) => {
        const [row] = await sql.all<{ data_version: number }>('PRAGMA data_version')
        return row?.data_version ?? 0
      }),
    close: () => connection.close(),
  }
}
