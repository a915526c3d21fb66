/** A store opened to read. Of a damaged file, what can be read of it is read into memory. */
import { existsSync, statSync } from 'node:fs'
import type { Connection, Transaction } from './connection.ts'
import { type CheckDepth, isDamage } from './integrity-check.ts'
import { isRefused, openSound } from './open-sound.ts'
import { countRows, readableRowsOf, storeOfRows } from './readable-rows.ts'
import { nothingReadable } from './store-error.ts'
import { mustBeFile } from './store-files.ts'
import type { OnDamage } from './stored-rows.ts'

/**
 * Opens a store that is there, also on a disk or in a folder that cannot be written. Throws
 * StoreError: no store of ours, nothing in it whole.
 * @param onDamage told that the file is damaged, and of every row that was lost with it
 */
export async function openReadable(
  file: string,
  onDamage: OnDamage,
  depth?: CheckDepth,
): Promise<Connection> {
  for (const part of [file, `${file}-wal`]) mustBeFile(part)
  return openSound(file, depth).catch((error: unknown) =>
    // Where a crash left a log and nothing can be written beside it, SQLite reads neither.
    isDamage(error) || isRefused(error) ? readIntoMemory(file, error, onDamage) : rejected(error),
  )
}

const rejected = (error: unknown): Promise<never> => Promise.reject(error)

/** @throws the error that was met where nothing can be read */
export async function readIntoMemory(
  file: string,
  error: unknown,
  onDamage: OnDamage,
): Promise<Connection> {
  if (!existsSync(file) || !statSync(file).isFile()) throw error
  const { rows, damage } = await readableRowsOf(file)
  if (countRows(rows) === 0)
    throw isDamage(error) && error.fault === 'corrupt' ? nothingReadable(file) : error
  if (isDamage(error))
    onDamage({ where: file, what: `${error.message}; tune uses what it can read` })
  for (const one of damage) onDamage(one)
  return storeOfRows(rows)
}

/** One short look beside whoever writes. Throws StoreError. */
export async function reading<T>(
  file: string,
  onDamage: OnDamage,
  look: (sql: Transaction) => Promise<T>,
): Promise<T> {
  const connection = await openReadable(file, onDamage)
  try {
    return await connection.read(look)
  } finally {
    await connection.close()
  }
}
