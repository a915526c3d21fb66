/** Opens a store, or creates it, for one short write, while others may write too. */
import { resolve } from 'node:path'
import type { Connection } from './connection.ts'
import { openForWriting } from './open-checked.ts'

/** @throws StoreError */
export async function writeOnce(
  path: string,
  work: (connection: Connection) => Promise<void>,
): Promise<void> {
  const connection = await openForWriting(resolve(path))
  try {
    await work(connection)
  } finally {
    await connection.close()
  }
}
