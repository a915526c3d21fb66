/** Observations of `tune watch` in the store: one row for each name. */
import { resolve } from 'node:path'
import type { Transaction } from './connection.ts'
import { encode } from './infinity-json.ts'
import { readOnce } from './read-once.ts'
import { computeDigest, formatId, type OnDamage, parseDocument } from './stored-rows.ts'
import { writeOnce } from './write-once.ts'

interface WatchRow {
  readonly name: string
  readonly updated_at: string
  readonly state: string
  readonly digest: string
}

/**
 * Reads all observations. Damaged ones are reported to `onDamage` and skipped.
 * @throws StoreError
 */
export const readWatches = (
  path: string,
  onDamage: OnDamage = () => {},
): Promise<ReadonlyMap<string, unknown>> =>
  readOnce(resolve(path), onDamage, (sql) => queryWatches(sql, onDamage))

/** Reads the states that are undamaged, by name. */
export async function queryWatches(
  sql: Transaction,
  onDamage: OnDamage,
): Promise<ReadonlyMap<string, unknown>> {
  const statesByName = new Map<string, unknown>()
  for (const { name, updated_at, state, digest } of await sql.all<WatchRow>(
    'SELECT * FROM watches ORDER BY name',
  )) {
    const read = parseDocument(
      {
        where: `watch ${formatId(name)}`,
        text: state,
        digest,
        parts: [name, updated_at, state],
      },
      onDamage,
    )
    if (read) statesByName.set(name, read.document)
  }
  return statesByName
}

/**
 * Replaces the observation of the name.
 * @throws StoreError
 */
export const saveWatch = (
  path: string,
  name: string,
  state: unknown,
  updatedAt: string,
): Promise<void> =>
  writeOnce(path, (connection) =>
    connection.write((sql) => {
      const text = encode(state)
      return sql.run(
        'INSERT OR REPLACE INTO watches (name, updated_at, state, digest) VALUES (?, ?, ?, ?)',
        [...[name, updatedAt, text], computeDigest([name, updatedAt, text])],
      )
    }),
  )

/**
 * Removes the observation of the name.
 * @throws StoreError
 */
export const deleteWatch = (path: string, name: string): Promise<void> =>
  writeOnce(path, (connection) =>
    connection.write((sql) => sql.run('DELETE FROM watches WHERE name = ?', [name])),
  )
