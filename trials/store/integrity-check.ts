/** Checks a store for damage, by SQLite's integrity check and by the definitions of its tables. */
import { statSync } from 'node:fs'
import type { Connection, Transaction } from './connection.ts'
import { readVersion } from './database-schema.ts'
import { corruptHint, StoreError } from './store-error.ts'

/**
 * `quick` runs first in every command. It skips files of 32 MB and more, which take about a second:
 * their damage is detected on reading.
 */
export type CheckDepth = 'quick' | 'full'
const maxQuickBytes = 32e6
const maxProblems = 5

/**
 * @returns the version; 0 for an empty file
 * @throws StoreError: 'corrupt' for inconsistent pages, and errors of `readVersion`
 */
export async function checkIntegrity(
  connection: Connection,
  depth: CheckDepth = 'quick',
): Promise<number> {
  const { path } = connection
  // One snapshot: another process may be making the tables and their version number.
  return connection.read(async (sql) => {
    const damaged = (problem: string) =>
      new StoreError('corrupt', `the trial store ${path} is damaged (${problem})`, corruptHint)
    let version: number
    try {
      version = await readVersion(sql, path)
    } catch (error) {
      if (!(error instanceof StoreError) || error.fault !== 'other-version') throw error
      // A damaged file may have any version.
      const problem = await findProblem(sql, 'full')
      throw problem === undefined ? error : damaged(problem)
    }
    if (version === 0 || (depth === 'quick' && statSync(path).size >= maxQuickBytes)) return version
    const problem = await findProblem(sql, depth)
    if (problem !== undefined) throw damaged(problem)
    return version
  })
}

async function findProblem(sql: Transaction, depth: CheckDepth): Promise<string | undefined> {
  const pragma = depth === 'full' ? `integrity_check(${maxProblems})` : 'quick_check(1)'
  try {
    const rows = await sql.all<Readonly<Record<string, string>>>(`PRAGMA ${pragma}`)
    const problems = rows.flatMap((row) => Object.values(row)).filter((text) => text !== 'ok')
    return problems.length === 0 ? undefined : problems.join('; ')
  } catch (error) {
    // Generated columns of version 1 fail on invalid JSON, and the pragma with them: no damaged page.
    if ((error as { code?: string }).code === 'SQLITE_ERROR') return undefined
    throw error
  }
}

/** Whether the file is damaged, or is no database to SQLite, e.g. after damage of its header. */
export const isDamage = (error: unknown): error is StoreError =>
  error instanceof StoreError && (error.fault === 'corrupt' || error.fault === 'no-database')
