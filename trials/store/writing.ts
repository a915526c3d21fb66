/**
 * A store, made where there is none, opened for one short piece of writing beside whoever else
 * writes.
 */
import { resolve } from 'node:path'
import { Connection } from './connection.ts'
import { migrate } from './database-schema.ts'
import { makeStoreFile } from './store-files.ts'

const busyTimeoutMs = 5_000

/** Throws StoreError. */
export async function writing(
  path: string,
  work: (connection: Connection) => Promise<void>,
): Promise<void> {
  const file = resolve(path)
  makeStoreFile(file)
  const connection = await Connection.open(file, busyTimeoutMs)
  try {
    await connection.writeAhead()
    await migrate(connection)
    await work(connection)
  } finally {
    await connection.close()
  }
}
