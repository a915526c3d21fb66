/** Opens a store after checking its file. A damaged file is never changed. */
import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { Connection } from './connection.ts'
import { createTables } from './database-schema.ts'
import { type CheckDepth, checkIntegrity } from './integrity-check.ts'
import { createStoreError, readOnlyHint, StoreError } from './store-error.ts'
import {
  createStoreFile,
  hasWriteAheadLog,
  isInUse,
  requireRegularFile,
  withStoreCopy,
} from './store-files.ts'

const defaultBusyTimeoutMs = 5_000

/**
 * Opens a connection to a sound store that only reads.
 * @throws StoreError
 */
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
    return openChecked(file, 'read-only', defaultBusyTimeoutMs, check).catch((error: unknown) => {
      // A write-ahead store needs auxiliary files, which a read-only folder does not permit;
      // without a log the file is complete.
      if (!isRefused(error) || hasWriteAheadLog(file)) throw error
      return openChecked(file, 'immutable', defaultBusyTimeoutMs, check)
    })
  if (hasWriteAheadLog(file))
    return openChecked(file, 'read-only', defaultBusyTimeoutMs, readSchema)
  // Only connections with write access remove SQLite's auxiliary files at their end.
  return openChecked(file, 'read-write', defaultBusyTimeoutMs, async (connection) => {
    await connection.direct((sql) => sql.exec('PRAGMA query_only = ON'))
    await readSchema(connection)
  }).catch((error: unknown) => {
    if (!isRefused(error)) throw error
    return openChecked(file, 'immutable', defaultBusyTimeoutMs, readSchema)
  })
}

/** Reads something: whether SQLite can read a store shows only then. */
const readSchema = (connection: Connection) =>
  connection.direct((sql) => sql.exec('SELECT count(*) FROM sqlite_schema'))

/**
 * Opens a checked store, or creates it. Never writes to a damaged file.
 * @throws StoreError
 */
export async function openForWriting(
  file: string,
  busyTimeoutMs = defaultBusyTimeoutMs,
): Promise<Connection> {
  createStoreFile(file)
  const check = async (connection: Connection) => {
    await checkIntegrity(connection)
  }
  try {
    if (!(await checkUnused(file, check)))
      await (await openChecked(file, 'read-only', busyTimeoutMs, check)).close()
    return await openChecked(file, 'read-write', busyTimeoutMs, async (connection) => {
      await connection.writeAhead()
      await connection.direct((sql) => sql.exec('PRAGMA foreign_keys = ON'))
      await createTables(connection)
    })
  } catch (error) {
    throw explainRefusal(error, file)
  }
}

/**
 * Checks an unused store without locks and auxiliary files, which SQLite would leave behind. False
 * if the store is in use, and was not checked.
 */
async function checkUnused(
  file: string,
  check: (connection: Connection) => Promise<void>,
): Promise<boolean> {
  requireRegularFile(file)
  requireRegularFile(`${file}-wal`)
  if (isInUse(file)) return false
  const before = readFileStamp(file)
  const checkAt = async (path: string, access: 'read-only' | 'immutable') =>
    (await openChecked(path, access, 0, check, file)).close()
  try {
    if (hasWriteAheadLog(file)) await withStoreCopy(file, (copy) => checkAt(copy, 'read-only'))
    else await checkAt(file, 'immutable')
    return true
  } catch (error) {
    // Somebody may have begun to write it meanwhile, and be done with it already.
    if (isInUse(file) || readFileStamp(file) !== before) return false
    throw error
  }
}

/** Reads a stamp that changes with every write; undefined without a file. */
function readFileStamp(file: string): string | undefined {
  const stat = statSync(file, { bigint: true, throwIfNoEntry: false })
  return stat && `${stat.mtimeNs} ${stat.size}`
}

async function openChecked(
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
    throw createStoreError(error, shownPath)
  }
}

/** Whether SQLite could not open a file for want of a right to write. */
export const isRefused = (error: unknown): boolean =>
  error instanceof StoreError && (error.fault === 'cannot-open' || error.fault === 'read-only')

/** SQLite reports 'cannot open' also for a read-only disk or folder; check the file system. */
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
