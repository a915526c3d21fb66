/**
 * A connection to a store whose pages hang together, to read: on a disk or in a folder that cannot
 * be written too.
 */
import { statSync } from 'node:fs'
import { Connection } from './connection.ts'
import { checkLog, checkPages } from './page-check.ts'
import { StoreError } from './store-error.ts'
import { mustBeFile } from './store-files.ts'

const busyTimeoutMs = 5_000

/** A connection to a sound store that only reads. Throws StoreError. */
export async function openSound(file: string): Promise<Connection> {
  mustBeFile(file)
  checkLog(file)
  return checked(file, 'read-only').catch((error: unknown) => {
    // A write-ahead store wants files beside it, which a read-only folder cannot give; without a
    // log the file is all there is.
    if (
      !(
        error instanceof StoreError &&
        (error.fault === 'cannot-open' || error.fault === 'read-only')
      ) ||
      hasLog(file)
    )
      throw error
    return checked(file, 'immutable')
  })
}

const hasLog = (file: string): boolean =>
  (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0

async function checked(file: string, access: 'read-only' | 'immutable'): Promise<Connection> {
  const connection = await Connection.open(file, busyTimeoutMs, access)
  try {
    await checkPages(connection)
    return connection
  } catch (error) {
    await connection.close()
    throw error
  }
}
