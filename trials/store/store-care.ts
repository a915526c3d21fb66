/**
 * Looking after a store: whether it is sound, a copy of it while it is in use, and experiments that
 * are not wanted any more.
 */
import { closeSync, existsSync, openSync, renameSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { privateFile } from '../private-files.ts'
import { annotationsOf } from './annotations.ts'
import { calibrationsOf } from './calibrations.ts'
import { ownedElsewhere } from './owned-elsewhere.ts'
import { readRows, storeOfRows } from './readable-rows.ts'
import { openReadable } from './reading.ts'
import { StoreError } from './store-error.ts'
import { type Damage, experimentsOf, holderOf, need, onceEach, trialsOf } from './stored-rows.ts'
import { watchesOf } from './watches.ts'
import { writing } from './writing.ts'

export interface StoreCheck {
  readonly experiments: number
  /** Those that can be used. */
  readonly trials: number
  readonly damage: readonly Damage[]
}

/**
 * Checks the file and reads every row of a store; names what is damaged and changes nothing. Throws
 * StoreError for what cannot be read at all.
 */
export async function checkStore(path: string): Promise<StoreCheck> {
  const damage: Damage[] = []
  const tell = onceEach((one) => damage.push(one))
  const connection = await openReadable(resolve(path), tell, 'full')
  try {
    return await connection.read(async (sql) => {
      const experiments = await experimentsOf(sql, tell)
      let trials = 0
      for (const { id } of experiments) trials += (await trialsOf(sql, id, tell)).length
      await annotationsOf(sql, tell)
      await calibrationsOf(sql, tell)
      await watchesOf(sql, tell)
      return { experiments: experiments.length, trials, damage }
    })
  } finally {
    await connection.close()
  }
}

/**
 * Copies all that can be read of a store, as of one moment, into a new file; others may use the
 * store meanwhile. The copy is read again, and what it lacks is named. Throws StoreError.
 */
export async function backupStore(path: string, to: string): Promise<StoreCheck> {
  const target = resolve(to)
  if (existsSync(target))
    throw new StoreError('cannot-open', `${target} already exists`, 'choose another file name')
  const unfinished = `${target}.${process.pid}`
  const lost: Damage[] = []
  const tell = onceEach((one) => lost.push(one))
  const source = await openReadable(resolve(path), tell, 'full')
  try {
    closeSync(openSync(unfinished, 'wx', privateFile))
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
 * Removes experiments with their trials, load curves and annotations: all of them or, where one
 * cannot go, none. What they held is overwritten in the file. Throws StoreError for one that is
 * unknown or that a process runs.
 */
export const deleteExperiments = (path: string, ids: readonly string[]): Promise<void> =>
  writing(path, async (connection) => {
    await connection.direct((sql) => sql.exec('PRAGMA secure_delete = ON'))
    await connection.write(async (sql) => {
      for (const id of ids) {
        const holder = holderOf(await need(sql, id))
        if (holder && holder.state !== 'dead') throw ownedElsewhere(id, holder)
        await sql.run('DELETE FROM experiments WHERE id = ?', [id])
      }
    })
    // The log written ahead still holds the pages as they were.
    await connection.direct((sql) => sql.exec('PRAGMA wal_checkpoint(TRUNCATE)'))
  })
