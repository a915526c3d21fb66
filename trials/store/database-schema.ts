/** The tables of the store, as the list of steps that lead to them. A step, once released, is never edited: add one. */
import type { Connection } from './connection.ts'
import { StoreError } from './store-error.ts'

/** 'tune' in ASCII: tells our files from any other SQLite database. */
const applicationId = 0x74756e65

/** SQL: a number of a JSON document, NULL where it is missing or not finite. */
const finite = (document: string, path: string) =>
  `iif(json_type(${document}, '$.${path}') IN ('integer', 'real'), ${document} ->> '$.${path}', NULL)`

/**
 * migrations[k] leads from version k to k + 1. Documents are JSON (see encoding.ts) and hold the whole truth;
 * the generated columns are for people with SQL in hand.
 */
export const migrations: readonly string[] = [
  `CREATE TABLE experiments (
     id TEXT PRIMARY KEY,
     name TEXT NOT NULL,
     created_at TEXT NOT NULL,
     provenance TEXT NOT NULL,
     seed INTEGER NOT NULL,
     state TEXT NOT NULL CHECK (state IN ('running', 'interrupted', 'done', 'failed')),
     spec TEXT NOT NULL,
     result TEXT,
     owner TEXT
   ) STRICT;
   CREATE TABLE trials (
     experiment_id TEXT NOT NULL REFERENCES experiments (id) ON DELETE CASCADE,
     number INTEGER NOT NULL,
     trial TEXT NOT NULL,
     state TEXT GENERATED ALWAYS AS (trial ->> '$.state') VIRTUAL,
     configuration TEXT GENERATED ALWAYS AS (trial -> '$.configuration') VIRTUAL,
     capacity_rps REAL GENERATED ALWAYS AS (${finite('trial', 'measurement.capacityRps')}) VIRTUAL,
     reason TEXT GENERATED ALWAYS AS (trial ->> '$.reason') VIRTUAL,
     PRIMARY KEY (experiment_id, number)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE load_points (
     experiment_id TEXT NOT NULL,
     trial_number INTEGER NOT NULL,
     position INTEGER NOT NULL,
     point TEXT NOT NULL,
     offered_rps REAL GENERATED ALWAYS AS (${finite('point', 'offeredRps')}) VIRTUAL,
     achieved_rps REAL GENERATED ALWAYS AS (${finite('point', 'achievedRps')}) VIRTUAL,
     p50_ms REAL GENERATED ALWAYS AS (${finite('point', 'p50Ms')}) VIRTUAL,
     p99_ms REAL GENERATED ALWAYS AS (${finite('point', 'p99Ms')}) VIRTUAL,
     requests REAL GENERATED ALWAYS AS (${finite('point', 'requests')}) VIRTUAL,
     errors REAL GENERATED ALWAYS AS (${finite('point', 'errors')}) VIRTUAL,
     PRIMARY KEY (experiment_id, trial_number, position),
     FOREIGN KEY (experiment_id, trial_number) REFERENCES trials (experiment_id, number) ON DELETE CASCADE
   ) STRICT, WITHOUT ROWID;`,
]

/**
 * Brings a database to the newest version, each step in one transaction with its version number; safe against another process that does the same.
 * Throws StoreError for a database that is newer than this program or not a store of ours.
 */
export async function migrate(connection: Connection, steps: readonly string[] = migrations): Promise<void> {
  await connection.write(async (sql) => {
    const [{ user_version: version } = { user_version: 0 }] = await sql.all<{ user_version: number }>('PRAGMA user_version')
    const [{ application_id: application } = { application_id: 0 }] = await sql.all<{ application_id: number }>('PRAGMA application_id')
    const tables = await sql.all<{ name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table'")
    if (application !== applicationId && (tables.length > 0 || version !== 0)) {
      throw new StoreError(
        'not-a-store',
        `${connection.path} is a SQLite database of another program (tables: ${tables.map((t) => t.name).join(', ') || 'none'})`,
        'check the path, or use another file with --db',
      )
    }
    if (version > steps.length) {
      throw new StoreError(
        'newer-version',
        `the trial store ${connection.path} has version ${version}, and this program knows versions up to ${steps.length}`,
        'update tune, or use another file with --db',
      )
    }
    for (const [index, step] of steps.entries()) {
      if (index < version) continue
      await sql.exec(step)
    }
    if (version === 0) await sql.exec(`PRAGMA application_id = ${applicationId}`)
    if (version < steps.length) await sql.exec(`PRAGMA user_version = ${steps.length}`)
  })
}
