/**
 * A store, made where there is none, opened for one short piece of writing beside whoever else
 * writes.
 */
import { resolve } from 'node:path'
import type { Connection } from './connection.ts'
import { openForWriting } from './open-sound.ts'

/** Throws StoreError. */
export async function writing(
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
