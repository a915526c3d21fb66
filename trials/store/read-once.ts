/** Opens a store for reading. Readable rows of a damaged file are loaded into memory. */
import { existsSync, statSync } from 'node:fs'
import type { Connection, Transaction } from './connection.ts'
import { type CheckDepth, isDamage } from './integrity-check.ts'
import { isPermissionError, openForReading } from './open-checked.ts'
import { countRows, readReadableRows, storeOfRows } from './readable-rows.ts'
import { createUnreadableError } from './store-error.ts'
import { requireRegularFile } from './store-files.ts'
import type { OnDamage } from './stored-rows.ts'

/**
 * Opens an existing store, also on a read-only disk or folder.
 * @param onDamage called for a damaged file, and for every lost row
 * @throws StoreError for another program's file, or if no row is readable
 */
export async function openReadable(
  file: string,
  onDamage: OnDamage,
  depth?: CheckDepth,
): Promise<Connection> {
  for (const part of [file, `${file}-wal`]) requireRegularFile(part)
  return openForReading(file, depth).catch((error: unknown) =>
    // After a crash, SQLite cannot read a store with a log in a read-only folder.
    isDamage(error) || isPermissionError(error)
      ? readIntoMemory(file, error, onDamage)
      : rejectWith(error),
  )
}

const rejectWith = (error: unknown): Promise<never> => Promise.reject(error)

/** @throws `error`, or a StoreError that says so, if no row is readable */
export async function readIntoMemory(
  file: string,
  error: unknown,
  onDamage: OnDamage,
): Promise<Connection> {
  if (!existsSync(file) || !statSync(file).isFile()) throw error
  const { rows, damage } = await readReadableRows(file)
  if (countRows(rows) === 0)
    throw isDamage(error) && error.fault === 'corrupt' ? createUnreadableError(file) : error
  if (isDamage(error))
    onDamage({ where: file, what: `${error.message}; tune uses what it can read` })
  for (const one of damage) onDamage(one)
  return storeOfRows(rows)
}

/**
 * Opens a store, reads once, and closes it; other processes may write at the same time.
 * @throws StoreError
 */
export async function readOnce<T>(
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
