/** Opening a store whose file is sound. A damaged one is left exactly as it is. */
import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { Connection } from './connection.ts'
import { createTables } from './database-schema.ts'
import { type CheckDepth, checkIntegrity } from './integrity-check.ts'
import { readOnlyHint, StoreError, storeErrorOf } from './store-error.ts'
import { hasLog, isInUse, makeStoreFile, mustBeFile, withCopy } from './store-files.ts'

const defaultBusyTimeoutMs = 5_000

/** A connection to a sound store that only reads. Throws StoreError. */
export async function openSound(file: string, depth?: CheckDepth): Promise<Connection> {
  const check = async (connection: Connection) => {
    if ((await checkIntegrity(connection, depth)) === 0)
      throw new StoreError(
        'not-a-store',
        `${file} is not a trial store`,
        'check the path, or use another file with --db',
      )
  }
  if (!(await checkUnused(file, check)))
    return opened(file, 'read-only', defaultBusyTimeoutMs, check).catch((error: unknown) => {
      // A write-ahead store wants files beside it, which a read-only folder cannot give; without a
      // log the file is all there is.
      if (!isRefused(error) || hasLog(file)) throw error
      return opened(file, 'immutable', defaultBusyTimeoutMs, check)
    })
  if (hasLog(file)) return opened(file, 'read-only', defaultBusyTimeoutMs, touch)
  // Only who may write takes away again, at its end, the files that SQLite puts beside the store.
  return opened(file, 'read-write', defaultBusyTimeoutMs, async (connection) => {
    await connection.direct((sql) => sql.exec('PRAGMA query_only = ON'))
    await touch(connection)
  }).catch((error: unknown) => {
    if (!isRefused(error)) throw error
    return opened(file, 'immutable', defaultBusyTimeoutMs, touch)
  })
}

/** Reads something: whether SQLite can read a store shows only then. */
const touch = (connection: Connection) =>
  connection.direct((sql) => sql.exec('SELECT count(*) FROM sqlite_schema'))

/**
 * A connection to a store that is sound, or made here. Nothing is written into a
 * damaged file. Throws StoreError.
 */
export async function openForWriting(
  file: string,
  busyTimeoutMs = defaultBusyTimeoutMs,
): Promise<Connection> {
  makeStoreFile(file)
  const check = async (connection: Connection) => {
    await checkIntegrity(connection)
  }
  try {
    if (!(await checkUnused(file, check)))
      await (await opened(file, 'read-only', busyTimeoutMs, check)).close()
    return await opened(file, 'read-write', busyTimeoutMs, async (connection) => {
      await connection.writeAhead()
      await connection.direct((sql) => sql.exec('PRAGMA foreign_keys = ON'))
      await createTables(connection)
    })
  } catch (error) {
    throw explainRefusal(error, file)
  }
}

/**
 * Checks a store that nobody has open without a lock and without a file beside it, which SQLite
 * would leave there. False: somebody has it open, so that it was not checked.
 */
async function checkUnused(
  file: string,
  check: (connection: Connection) => Promise<void>,
): Promise<boolean> {
  mustBeFile(file)
  mustBeFile(`${file}-wal`)
  if (isInUse(file)) return false
  const before = stampOf(file)
  const checkAt = async (path: string, access: 'read-only' | 'immutable') =>
    (await opened(path, access, 0, check, file)).close()
  try {
    if (hasLog(file)) await withCopy(file, (copy) => checkAt(copy, 'read-only'))
    else await checkAt(file, 'immutable')
    return true
  } catch (error) {
    // Somebody may have begun to write it meanwhile, and be done with it already.
    if (isInUse(file) || stampOf(file) !== before) return false
    throw error
  }
}

/** Changes when somebody writes the file; undefined where there is none. */
function stampOf(file: string): string | undefined {
  const stat = statSync(file, { bigint: true, throwIfNoEntry: false })
  return stat && `${stat.mtimeNs} ${stat.size}`
}

async function opened(
  path: string,
  access: 'read-only' | 'read-write' | 'immutable',
  busyTimeoutMs: number,
  prepare: (connection: Connection) => Promise<void>,
  shownPath = path,
): Promise<Connection> {
  const connection = await Connection.open(path, busyTimeoutMs, access, shownPath)
  try {
    await prepare(connection)
    return connection
  } catch (error) {
    await connection.close()
    throw storeErrorOf(error, shownPath)
  }
}

/** Whether SQLite could not open a file for want of a right to write. */
export const isRefused = (error: unknown): boolean =>
  error instanceof StoreError && (error.fault === 'cannot-open' || error.fault === 'read-only')

/** SQLite says 'cannot open' also of a read-only disk or folder; the file system knows better. */
function explainRefusal(error: unknown, file: string): unknown {
  if (!(error instanceof StoreError) || error.fault !== 'cannot-open') return error
  try {
    accessSync(existsSync(file) ? file : dirname(file), constants.W_OK)
    accessSync(dirname(file), constants.W_OK)
    return error
  } catch (cause) {
    return new StoreError(
      'read-only',
      `the trial store ${file} cannot be written (${(cause as Error).message})`,
      readOnlyHint,
      { cause },
    )
  }
}
