/** Whether the pages of a store hang together, and its tables are those that were made. */
import { statSync } from 'node:fs'
import type { Connection } from './connection.ts'
import { expectedSchema, schemaOf, versionOf } from './database-schema.ts'
import { corruptHint, StoreError } from './store-error.ts'
import { logIsDamaged } from './write-ahead-log.ts'

/**
 * Up to this size a store is read whole when it is opened; damage in a larger one is found when it
 * is read. 32 MB take about a second.
 */
const checkedBytes = 32e6

/**
 * Throws StoreError: 'corrupt' for a store whose pages do not hang together, and what `versionOf`
 * throws.
 */
export async function checkPages(connection: Connection): Promise<void> {
  const { path } = connection
  await connection.direct(async (sql) => {
    const version = await versionOf(sql, path)
    const [present, expected] = [await schemaOf(sql), await expectedSchema(version)]
    if (Object.keys(present).length < Object.keys(expected).length || version === 0)
      throw new StoreError(
        'not-a-store',
        `${path} is no trial store`,
        'check the path, or use another file with --db',
      )
    const changed = Object.keys(expected).find((table) => present[table] !== expected[table])
    if (changed !== undefined)
      throw new StoreError(
        'corrupt',
        `the trial store ${path} is damaged (the definition of table ${changed} is not as it was made)`,
        corruptHint,
      )
    if (statSync(path).size >= checkedBytes) return
    const problem = await quickCheck(sql.all<{ quick_check: string }>('PRAGMA quick_check(1)'))
    if (problem !== undefined)
      throw new StoreError(
        'corrupt',
        `the trial store ${path} is damaged (${problem})`,
        corruptHint,
      )
  })
}

/**
 * In stores of version 1 a document that is no JSON ends the check with an error of its own; its
 * row is named when it is read.
 */
async function quickCheck(answer: Promise<{ quick_check: string }[]>): Promise<string | undefined> {
  try {
    const [check] = await answer
    return check?.quick_check === 'ok' ? undefined : (check?.quick_check ?? 'no answer')
  } catch (error) {
    if ((error as { code?: string }).code === 'SQLITE_ERROR') return undefined
    throw error
  }
}

/** The file itself is damaged, or is no database to SQLite, as with a damaged header. */
export const pagesAreDamaged = (error: unknown): error is StoreError =>
  error instanceof StoreError && (error.fault === 'corrupt' || error.fault === 'not-a-store')

/**
 * Throws StoreError ('corrupt') where a damaged log would make SQLite drop what was committed: to
 * be asked before it opens the file.
 */
export function checkLog(path: string): void {
  if (logIsDamaged(path))
    throw new StoreError(
      'corrupt',
      `the log beside the trial store ${path} is damaged`,
      corruptHint,
    )
}
