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
 * Checks a store, then opens it for reading only:
 * - in use by another process: the connection that is returned also runs the check;
 * - unused, with a write-ahead log: `read-only`;
 * - unused, without one: `read-write` with `query_only`, so that SQLite removes its -wal and -shm
 *   files on closing;
 * - without permission to write: `immutable`, which creates no files.
 * @throws StoreError
 */
export async function openForReading(file: string, depth?: CheckDepth): Promise<Connection> {
  const check = async (connection: Connection) => {
    const schemaVersion = await checkIntegrity(connection, depth)
    if (schemaVersion === 0)
      throw new StoreError(
        'not-a-store',
        `${file} is not a trial store`,
        'check the path, or use another file with --db',
      )
  }
  if (!(await checkIfUnused(file, check)))
    return openChecked(file, 'read-only', defaultBusyTimeoutMs, check).catch((error: unknown) => {
      // SQLite has to create -wal and -shm files, which a read-only folder does not allow.
      // Without a write-ahead log the file is complete, so `immutable` is safe.
      if (!isPermissionError(error) || hasWriteAheadLog(file)) throw error
      return openChecked(file, 'immutable', defaultBusyTimeoutMs, check)
    })
  if (hasWriteAheadLog(file))
    return openChecked(file, 'read-only', defaultBusyTimeoutMs, readSchema)
  // Only a connection with write access removes the -wal and -shm files when it closes.
  return openChecked(file, 'read-write', defaultBusyTimeoutMs, async (connection) => {
    await connection.runOutsideTransaction((sql) => sql.exec('PRAGMA query_only = ON'))
    await readSchema(connection)
  }).catch((error: unknown) => {
    if (!isPermissionError(error)) throw error
    return openChecked(file, 'immutable', defaultBusyTimeoutMs, readSchema)
  })
}

/** Runs a trivial query, because SQLite reads the file only at the first one. */
const readSchema = (connection: Connection) =>
  connection.runOutsideTransaction((sql) => sql.exec('SELECT count(*) FROM sqlite_schema'))

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
    if (!(await checkIfUnused(file, check)))
      await (await openChecked(file, 'read-only', busyTimeoutMs, check)).close()
    return await openChecked(file, 'read-write', busyTimeoutMs, async (connection) => {
      await connection.enableWriteAheadLog()
      await connection.runOutsideTransaction((sql) => sql.exec('PRAGMA foreign_keys = ON'))
      await createTables(connection)
    })
  } catch (error) {
    throw explainWriteError(error, file)
  }
}

/**
 * Checks an unused store without locks and auxiliary files, which SQLite would leave behind.
 * @returns false if another process uses the store, which was then not checked
 */
async function checkIfUnused(
  file: string,
  check: (connection: Connection) => Promise<void>,
): Promise<boolean> {
  requireRegularFile(file)
  requireRegularFile(`${file}-wal`)
  if (isInUse(file)) return false
  const stampBefore = readFileStamp(file)
  const checkAt = async (path: string, access: 'read-only' | 'immutable') =>
    (await openChecked(path, access, 0, check, file)).close()
  try {
    if (hasWriteAheadLog(file)) await withStoreCopy(file, (copy) => checkAt(copy, 'read-only'))
    else await checkAt(file, 'immutable')
    return true
  } catch (error) {
    // The failure may be transient: another process may have written during the check.
    if (isInUse(file) || readFileStamp(file) !== stampBefore) return false
    throw error
  }
}

/** Reads a stamp that changes with every write; undefined without a file. */
function readFileStamp(file: string): string | undefined {
  const stat = statSync(file, { bigint: true, throwIfNoEntry: false })
  return stat && `${stat.mtimeNs} ${stat.size}`
}

/** @param onOpen checks or prepares the connection, which is closed if this throws */
async function openChecked(
  path: string,
  access: 'read-only' | 'read-write' | 'immutable',
  busyTimeoutMs: number,
  onOpen: (connection: Connection) => Promise<void>,
  shownPath = path,
): Promise<Connection> {
  const connection = await Connection.open(path, busyTimeoutMs, access, shownPath)
  try {
    await onOpen(connection)
    return connection
  } catch (error) {
    await connection.close()
    throw createStoreError(error, shownPath)
  }
}

/** Whether SQLite failed because it may not open or write the file. */
export const isPermissionError = (error: unknown): boolean =>
  error instanceof StoreError && (error.fault === 'cannot-open' || error.fault === 'read-only')

/** SQLite reports 'cannot open' also for a read-only disk or folder; check the file system. */
function explainWriteError(error: unknown, file: string): unknown {
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
