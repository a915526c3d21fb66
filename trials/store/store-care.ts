/** Looking after a store: whether it is sound, and a copy of it while it is in use. */
import { closeSync, existsSync, openSync, renameSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { privateFile } from '../private-files.ts'
import { readCalibrations } from './calibrations.ts'
import { openSound } from './open-sound.ts'
import { openReader } from './reader.ts'
import { StoreError } from './store-error.ts'
import type { Damage } from './stored-rows.ts'
import { readWatches } from './watches.ts'

export interface StoreCheck {
  readonly experiments: number
  /** Those that can be used. */
  readonly trials: number
  readonly damage: readonly Damage[]
}

/**
 * Reads every row of a store and names what is damaged; changes nothing. Throws StoreError for what
 * cannot be read at all.
 */
export async function checkStore(path: string): Promise<StoreCheck> {
  const damage: Damage[] = []
  const reader = await openReader(path, (one) => damage.push(one))
  try {
    const experiments = await reader.list()
    let trials = 0
    for (const { id } of experiments) trials += (await reader.load(id))?.trials.length ?? 0
    await reader.annotations()
    await readCalibrations(path, (one) => damage.push(one))
    await readWatches(path, (one) => damage.push(one))
    return { experiments: experiments.length, trials, damage }
  } finally {
    await reader.close()
  }
}

/**
 * Copies a store, as of one moment, to a new file, and checks the copy; others may use the store
 * meanwhile. Throws StoreError.
 */
export async function backupStore(path: string, to: string): Promise<StoreCheck> {
  const target = resolve(to)
  if (existsSync(target))
    throw new StoreError('cannot-open', `${target} is there already`, 'name a file that is not')
  const unfinished = `${target}.${process.pid}`
  const source = await openSound(resolve(path))
  try {
    closeSync(openSync(unfinished, 'wx', privateFile))
    await source.backup(unfinished)
    const check = await checkStore(unfinished)
    renameSync(unfinished, target)
    return check
  } catch (error) {
    if (error instanceof StoreError) throw error
    throw new StoreError(
      'cannot-open',
      `cannot write the copy ${target}: ${(error as Error).message}`,
      'name another file',
      {
        cause: error,
      },
    )
  } finally {
    await source.close()
    for (const suffix of ['', '-wal', '-shm', '-journal'])
      rmSync(`${unfinished}${suffix}`, { force: true })
  }
}
