/**
 * The tables of the store, as the list of steps that lead to them. A step, once released, is never
 * edited: add one.
 */
import { closeSync, existsSync, openSync, renameSync, rmSync } from 'node:fs'
import { privateFile } from '../private-files.ts'
import { Connection, type Transaction } from './connection.ts'
import { corruptHint, StoreError } from './store-error.ts'

/** 'tune' in ASCII: tells our files from any other SQLite database. */
const applicationId = 0x74756e65

/** SQL: a number of a JSON document, NULL where it is missing or not finite. */
const finite = (document: string, path: string) =>
  `iif(json_type(${document}, '$.${path}') IN ('integer', 'real'), ${document} ->> '$.${path}', NULL)`

/**
 * migrations[k] leads from version k to k + 1, and changes the definition of a table: the tables
 * tell the version even where the header is damaged. Documents are JSON (see infinity-json.ts) and hold
 * the whole truth; the generated columns are for people with SQL in hand.
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
  // Digests tell a damaged row from a sound one, and a document that is no JSON makes its generated
  // columns NULL instead of failing every query.
  `ALTER TABLE experiments ADD COLUMN digest TEXT;
   ALTER TABLE experiments ADD COLUMN result_digest TEXT;
   ${regenerated('trials', 'trial', {
     state: ['TEXT', "trial ->> '$.state'"],
     configuration: ['TEXT', "trial -> '$.configuration'"],
     capacity_rps: ['REAL', finite('trial', 'measurement.capacityRps')],
     reason: ['TEXT', "trial ->> '$.reason'"],
   })}
   ${regenerated('load_points', 'point', {
     offered_rps: ['REAL', finite('point', 'offeredRps')],
     achieved_rps: ['REAL', finite('point', 'achievedRps')],
     p50_ms: ['REAL', finite('point', 'p50Ms')],
     p99_ms: ['REAL', finite('point', 'p99Ms')],
     requests: ['REAL', finite('point', 'requests')],
     errors: ['REAL', finite('point', 'errors')],
   })}
   ALTER TABLE trials ADD COLUMN digest TEXT;`,
  `CREATE TABLE calibrations (
     name TEXT PRIMARY KEY,
     measured_at TEXT NOT NULL,
     calibration TEXT NOT NULL
   ) STRICT;`,
  `ALTER TABLE calibrations ADD COLUMN digest TEXT;`,
  `CREATE TABLE watches (
     name TEXT PRIMARY KEY,
     updated_at TEXT NOT NULL,
     state TEXT NOT NULL,
     digest TEXT NOT NULL
   ) STRICT;`,
  // Trial 0 stands for the experiment itself.
  `CREATE TABLE annotations (
     experiment_id TEXT NOT NULL REFERENCES experiments (id) ON DELETE CASCADE,
     trial_number INTEGER NOT NULL,
     updated_at TEXT NOT NULL,
     annotation TEXT NOT NULL,
     digest TEXT NOT NULL,
     PRIMARY KEY (experiment_id, trial_number)
   ) STRICT, WITHOUT ROWID;`,
  `ALTER TABLE experiments ADD COLUMN ended_after INTEGER NOT NULL DEFAULT 0;
   UPDATE experiments SET ended_after =
     (SELECT coalesce(max(number), 0) FROM trials WHERE experiment_id = id)
     WHERE state IN ('done', 'failed');
   CREATE TABLE running_trials (
     experiment_id TEXT NOT NULL REFERENCES experiments (id) ON DELETE CASCADE,
     number INTEGER NOT NULL,
     trial TEXT NOT NULL,
     digest TEXT NOT NULL,
     PRIMARY KEY (experiment_id, number)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE confirmation_windows (
     experiment_id TEXT NOT NULL,
     trial_number INTEGER NOT NULL,
     position INTEGER NOT NULL,
     run TEXT NOT NULL,
     digest TEXT NOT NULL,
     PRIMARY KEY (experiment_id, trial_number, position),
     FOREIGN KEY (experiment_id, trial_number) REFERENCES running_trials (experiment_id, number) ON DELETE CASCADE
   ) STRICT, WITHOUT ROWID;`,
]

/**
 * SQL that makes generated columns anew, guarded against documents that are no JSON; all go before
 * the first comes, for adding one computes those there are.
 */
function regenerated(
  table: string,
  document: string,
  columns: Readonly<Record<string, readonly [type: string, value: string]>>,
): string {
  const drops = Object.keys(columns).map((name) => `ALTER TABLE ${table} DROP COLUMN ${name};`)
  const adds = Object.entries(columns).map(
    ([name, [type, value]]) =>
      `ALTER TABLE ${table} ADD COLUMN ${name} ${type} GENERATED ALWAYS AS (CASE WHEN json_valid(${document}) THEN ${value} END) VIRTUAL;`,
  )
  return [...drops, ...adds].join('\n')
}

/**
 * Brings a database to the newest version, each step in one transaction with its version number;
 * safe against another process that does the same. A copy of the older version stays beside it, as
 * `FILE.v1`. Throws StoreError for a database that is newer than this program or not a store of
 * ours.
 */
export async function migrate(
  connection: Connection,
  steps: readonly string[] = migrations,
): Promise<void> {
  await keepOlder(connection, steps.length)
  await connection.write(async (sql) => {
    const version = await versionOf(sql, connection.path, steps)
    for (const [index, step] of steps.entries()) {
      if (index < version) continue
      await sql.exec(step)
    }
    if (version === 0) await sql.exec(`PRAGMA application_id = ${applicationId}`)
    if (version < steps.length) await sql.exec(`PRAGMA user_version = ${steps.length}`)
  })
}

/** An older store is copied before it is changed; the first copy of a version is kept. */
async function keepOlder(connection: Connection, newest: number): Promise<void> {
  const [row] = await connection.direct((sql) =>
    sql.all<{ user_version: number }>('PRAGMA user_version'),
  )
  const version = row?.user_version ?? 0
  const copy = `${connection.path}.v${version}`
  if (version === 0 || version >= newest || existsSync(copy)) return
  const unfinished = `${copy}.${process.pid}`
  closeSync(openSync(unfinished, 'w', privateFile))
  try {
    await connection.backup(unfinished)
    renameSync(unfinished, copy)
  } catch (error) {
    rmSync(unfinished, { force: true })
    throw error
  }
}

/**
 * The version of a store; 0: nothing is in it yet. Throws StoreError for one that is newer than
 * `steps`, for what is no store of ours, and for a header that disagrees with the tables.
 */
export async function versionOf(
  sql: Transaction,
  path: string,
  steps: readonly string[] = migrations,
): Promise<number> {
  const stated = await headerNumber(sql, 'user_version')
  const isOurs = (await headerNumber(sql, 'application_id')) === applicationId
  const tables = await tablesOf(sql)
  const isSame = (other: unknown) => JSON.stringify(other) === JSON.stringify(tables)
  if (isOurs || stated === 0) {
    const [expected] = (await tablesByVersion(steps.slice(0, stated))).slice(-1)
    if (stated <= steps.length && isSame(expected)) return stated
  }
  const known = await tablesByVersion(steps)
  const damaged = (problem: string) =>
    new StoreError('corrupt', `the trial store ${path} is damaged (${problem})`, corruptHint)
  const actual = known.findIndex(isSame)
  if (actual > 0) throw damaged(`its header does not have the version of its tables, ${actual}`)
  const names = Object.keys(tables)
  if (!isOurs && !names.some((name) => name in known.at(-1)!))
    throw new StoreError(
      'not-a-store',
      `${path} is a SQLite database of another program (tables: ${names.join(', ') || 'none'})`,
      'check the path, or use another file with --db',
    )
  if (isOurs && stated > steps.length)
    throw new StoreError(
      'newer-version',
      `the trial store ${path} has version ${stated}, but this version of tune supports versions up to ${steps.length}`,
      'update tune, or use another file with --db',
    )
  throw damaged('the definitions of its tables have changed')
}

async function headerNumber(
  sql: Transaction,
  name: 'user_version' | 'application_id',
): Promise<number> {
  const [row] = await sql.all<Readonly<Record<string, number>>>(`PRAGMA ${name}`)
  return row?.[name] ?? 0
}

/** The statements that made the tables, as SQLite keeps them. */
async function tablesOf(sql: Transaction): Promise<Readonly<Record<string, string>>> {
  const rows = await sql.all<{ name: string; sql: string }>(
    "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
  )
  return Object.fromEntries(rows.map((row) => [row.name, row.sql]))
}

/** What `tablesOf` says of a sound store of each version, from 0. */
async function tablesByVersion(
  steps: readonly string[],
): Promise<readonly Readonly<Record<string, string>>[]> {
  const model = await Connection.open(':memory:', 0)
  try {
    return await model.direct(async (sql) => {
      const tables = [await tablesOf(sql)]
      for (const step of steps) {
        await sql.exec(step)
        tables.push(await tablesOf(sql))
      }
      return tables
    })
  } finally {
    await model.close()
  }
}
