/** Maintains a store: checks it, backs it up while it is in use, and deletes experiments. */
import { closeSync, existsSync, openSync, renameSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { privateFileMode } from '../private-files.ts'
import { readAnnotations } from './annotations.ts'
import { queryCalibrations } from './calibrations.ts'
import { createOwnedElsewhereError } from './ownership-error.ts'
import { openReadable } from './read-once.ts'
import { readRows, storeOfRows } from './readable-rows.ts'
import { StoreError } from './store-error.ts'
import {
  type Damage,
  findOwnership,
  readExperiments,
  readTrials,
  reportOnce,
  requireExperiment,
} from './stored-rows.ts'
import { queryWatches } from './watches.ts'
import { writeOnce } from './write-once.ts'

export interface StoreCheck {
  readonly experiments: number
  /** Number of readable trials. */
  readonly trials: number
  readonly damage: readonly Damage[]
}

/**
 * Checks the file and every row of a store, and reports damage without changes.
 * @throws StoreError for an unreadable file
 */
export async function checkStore(path: string): Promise<StoreCheck> {
  const damage: Damage[] = []
  const tell = reportOnce((one) => damage.push(one))
  const connection = await openReadable(resolve(path), tell, 'full')
  try {
    return await connection.read(async (sql) => {
      const experiments = await readExperiments(sql, tell)
      let trials = 0
      for (const { id } of experiments) trials += (await readTrials(sql, id, tell)).length
      await readAnnotations(sql, tell)
      await queryCalibrations(sql, tell)
      await queryWatches(sql, tell)
      return { experiments: experiments.length, trials, damage }
    })
  } finally {
    await connection.close()
  }
}

/**
 * Copies a consistent snapshot of all readable rows into a new file while others may use the store.
 * The copy is verified, and losses are reported.
 * @throws StoreError
 */
export async function backUpStore(path: string, to: string): Promise<StoreCheck> {
  const target = resolve(to)
  if (existsSync(target))
    throw new StoreError('cannot-open', `${target} already exists`, 'choose another file name')
  const unfinished = `${target}.${process.pid}`
  const lost: Damage[] = []
  const tell = reportOnce((one) => lost.push(one))
  const source = await openReadable(resolve(path), tell, 'full')
  try {
    closeSync(openSync(unfinished, 'wx', privateFileMode))
    const rows = await source.read((sql) => readRows(sql, tell))
    await (await storeOfRows(rows, unfinished)).close()
    const { damage, ...counts } = await checkStore(unfinished)
    renameSync(unfinished, target)
    return { ...counts, damage: [...lost, ...damage] }
  } catch (error) {
    if (error instanceof StoreError) throw error
    throw new StoreError(
      'cannot-open',
      `cannot write the copy ${target}: ${(error as Error).message}`,
      'choose another file',
      { cause: error },
    )
  } finally {
    await source.close()
    for (const suffix of ['', '-wal', '-shm', '-journal'])
      rmSync(`${unfinished}${suffix}`, { force: true })
  }
}

/**
 * Removes experiments with their trials, load curves and annotations: all, or none if one cannot be
 * removed. Their data is overwritten in the file.
 * @throws StoreError for an unknown or running experiment
 */
export const deleteExperiments = (path: string, ids: readonly string[]): Promise<void> =>
  writeOnce(path, async (connection) => {
    await connection.runOutsideTransaction((sql) => sql.exec('PRAGMA secure_delete = ON'))
    await connection.write(async (sql) => {
      for (const id of ids) {
        const ownership = findOwnership(await requireExperiment(sql, id))
        if (ownership && ownership.state !== 'dead') throw createOwnedElsewhereError(id, ownership)
        await sql.run('DELETE FROM experiments WHERE id = ?', [id])
      }
    })
    // The write-ahead log still contains the old pages.
    await connection.runOutsideTransaction((sql) => sql.exec('PRAGMA wal_checkpoint(TRUNCATE)'))
  })
