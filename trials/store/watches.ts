/**
 * What `tune watch` has seen of a production, in the store beside the experiments: one row for each
 * name.
 */
import { resolve } from 'node:path'
import type { Transaction } from './connection.ts'
import { encode } from './infinity-json.ts'
import { reading } from './reading.ts'
import { digestOf, documentOf, type OnDamage, shown } from './stored-rows.ts'
import { writing } from './writing.ts'

interface WatchRow {
  readonly name: string
  readonly updated_at: string
  readonly state: string
  readonly digest: string
}

/**
 * All of them, as they were kept. One that is damaged is told to `onDamage` and left out. Throws
 * StoreError.
 */
export const readWatches = (
  path: string,
  onDamage: OnDamage = () => {},
): Promise<ReadonlyMap<string, unknown>> =>
  reading(resolve(path), onDamage, (sql) => watchesOf(sql, onDamage))

/** Those that are whole. */
export async function watchesOf(
  sql: Transaction,
  onDamage: OnDamage,
): Promise<ReadonlyMap<string, unknown>> {
  const whole = new Map<string, unknown>()
  for (const { name, updated_at, state, digest } of await sql.all<WatchRow>(
    'SELECT * FROM watches ORDER BY name',
  )) {
    const read = documentOf(
      { where: `watch ${shown(name)}`, text: state, digest, parts: [name, updated_at, state] },
      onDamage,
    )
    if (read) whole.set(name, read.document)
  }
  return whole
}

/** Takes the place of what was kept under the name. Throws StoreError. */
export const keepWatch = (
  path: string,
  name: string,
  state: unknown,
  updatedAt: string,
): Promise<void> =>
  writing(path, (connection) =>
    connection.write((sql) => {
      const text = encode(state)
      return sql.run(
        'INSERT OR REPLACE INTO watches (name, updated_at, state, digest) VALUES (?, ?, ?, ?)',
        [...[name, updatedAt, text], digestOf([name, updatedAt, text])],
      )
    }),
  )

/** Forgets what was kept under the name. Throws StoreError. */
export const dropWatch = (path: string, name: string): Promise<void> =>
  writing(path, (connection) =>
    connection.write((sql) => sql.run('DELETE FROM watches WHERE name = ?', [name])),
  )
