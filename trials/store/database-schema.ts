/** Tables of the trial store, and the check that a file has them. */
import { Connection, type Transaction } from './connection.ts'
import { corruptHint, StoreError } from './store-error.ts'

/** 'tune' in ASCII: distinguishes our files from any other SQLite database. */
const applicationId = 0x74756e65

/** Raised with every change of the tables or of the documents in them; stored as `user_version`. */
export const schemaVersion = 9

/**
 * SQL of a generated column: NULL where the document is damaged, so that one bad row does not fail
 * every query.
 */
const defineGeneratedColumn = (
  document: string,
  column: string,
  type: 'TEXT' | 'REAL',
  value: string,
) =>
  `${column} ${type} GENERATED ALWAYS AS (CASE WHEN json_valid(${document}) THEN ${value} END) VIRTUAL`

/** A number of the document; NULL where it is missing or not finite. */
const defineFiniteColumn = (document: string, column: string, path: string) =>
  defineGeneratedColumn(
    document,
    column,
    'REAL',
    `iif(json_type(${document}, '$.${path}') IN ('integer', 'real'), ${document} ->> '$.${path}', NULL)`,
  )

/**
 * Documents are JSON (infinity-json.ts) and contain all data; generated columns are for SQL
 * queries. Digests detect damaged rows.
 */
const tables = `
CREATE TABLE experiments (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  created_at TEXT NOT NULL,
  provenance TEXT NOT NULL,
  seed INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('running', 'interrupted', 'done', 'failed')),
  spec TEXT NOT NULL,
  result TEXT,
  owner TEXT,
  digest TEXT NOT NULL,
  result_digest TEXT,
  ended_after INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE trials (
  experiment_id TEXT NOT NULL REFERENCES experiments (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  trial TEXT NOT NULL,
  digest TEXT NOT NULL,
  ${defineGeneratedColumn('trial', 'state', 'TEXT', "trial ->> '$.state'")},
  ${defineGeneratedColumn('trial', 'configuration', 'TEXT', "trial -> '$.configuration'")},
  ${defineFiniteColumn('trial', 'capacity_rps', 'measurement.capacityRps')},
  ${defineGeneratedColumn('trial', 'reason', 'TEXT', "trial ->> '$.reason'")},
  PRIMARY KEY (experiment_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE load_points (
  experiment_id TEXT NOT NULL,
  trial_number INTEGER NOT NULL,
  position INTEGER NOT NULL,
  point TEXT NOT NULL,
  ${defineFiniteColumn('point', 'offered_rps', 'offeredRps')},
  ${defineFiniteColumn('point', 'achieved_rps', 'achievedRps')},
  ${defineFiniteColumn('point', 'p50_ms', 'p50Ms')},
  ${defineFiniteColumn('point', 'p99_ms', 'p99Ms')},
  ${defineFiniteColumn('point', 'requests', 'requests')},
  ${defineFiniteColumn('point', 'errors', 'errors')},
  PRIMARY KEY (experiment_id, trial_number, position),
  FOREIGN KEY (experiment_id, trial_number) REFERENCES trials (experiment_id, number) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE calibrations (
  name TEXT PRIMARY KEY,
  measured_at TEXT NOT NULL,
  calibration TEXT NOT NULL,
  digest TEXT NOT NULL
) STRICT;
CREATE TABLE watches (
  name TEXT PRIMARY KEY,
  updated_at TEXT NOT NULL,
  state TEXT NOT NULL,
  digest TEXT NOT NULL
) STRICT;
-- Trial 0 stands for the experiment itself.
CREATE TABLE annotations (
  experiment_id TEXT NOT NULL REFERENCES experiments (id) ON DELETE CASCADE,
  trial_number INTEGER NOT NULL,
  updated_at TEXT NOT NULL,
  annotation TEXT NOT NULL,
  digest TEXT NOT NULL,
  PRIMARY KEY (experiment_id, trial_number)
) STRICT, WITHOUT ROWID;
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
) STRICT, WITHOUT ROWID;`

/**
 * Creates the tables of a new store, in one transaction; another process may do the same.
 * @throws StoreError as `readVersion` does
 */
export async function createTables(connection: Connection): Promise<void> {
  await connection.write(async (sql) => {
    if ((await readVersion(sql, connection.path)) !== 0) return
    await sql.exec(tables)
    await sql.exec(`PRAGMA application_id = ${applicationId}`)
    await sql.exec(`PRAGMA user_version = ${schemaVersion}`)
  })
}

/**
 * Version of a store: `schemaVersion`, or 0 for an empty file.
 * @throws StoreError for a store of another version, a database of another program, and a header
 * that disagrees with the tables
 */
export async function readVersion(sql: Transaction, path: string): Promise<number> {
  const headerVersion = await readHeaderNumber(sql, 'user_version')
  const isOurs = (await readHeaderNumber(sql, 'application_id')) === applicationId
  const definitions = await readDefinitions(sql)
  expectedDefinitions ??= makeDefinitions()
  const expected = await expectedDefinitions
  const names = Object.keys(definitions)
  if (headerVersion === 0 && names.length === 0) return 0
  const damaged = (problem: string) =>
    new StoreError('corrupt', `the trial store ${path} is damaged (${problem})`, corruptHint)
  if (JSON.stringify(definitions) === JSON.stringify(expected)) {
    if (isOurs && headerVersion === schemaVersion) return headerVersion
    throw damaged(`its header does not have the version of its tables, ${schemaVersion}`)
  }
  if (!isOurs && !names.some((name) => name in expected))
    throw new StoreError(
      'not-a-store',
      `${path} is a SQLite database of another program (tables: ${names.join(', ') || 'none'})`,
      'check the path, or use another file with --db',
    )
  if (isOurs && headerVersion > 0 && headerVersion !== schemaVersion)
    throw new StoreError(
      'other-version',
      `the trial store ${path} has version ${headerVersion}, but this version of tune reads version ${schemaVersion} only`,
      headerVersion > schemaVersion
        ? 'update tune, or use another file with --db'
        : 'use another file with --db; the version of tune that wrote this one still reads it',
    )
  throw damaged('the definitions of its tables have changed')
}

async function readHeaderNumber(
  sql: Transaction,
  name: 'user_version' | 'application_id',
): Promise<number> {
  const [row] = await sql.all<Readonly<Record<string, number>>>(`PRAGMA ${name}`)
  return row?.[name] ?? 0
}

/** Table name -> statement that made it, as SQLite stores it. */
type Definitions = Readonly<Record<string, string>>

async function readDefinitions(sql: Transaction): Promise<Definitions> {
  const rows = await sql.all<{ name: string; sql: string }>(
    "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
  )
  return Object.fromEntries(rows.map((row) => [row.name, row.sql]))
}

/** Equal in every store of this version; cached because opening checks it several times. */
let expectedDefinitions: Promise<Definitions> | undefined

async function makeDefinitions(): Promise<Definitions> {
  const model = await Connection.open(':memory:', 0)
  try {
    return await model.runOutsideTransaction(async (sql) => {
      await sql.exec(tables)
      return readDefinitions(sql)
    })
  } finally {
    await model.close()
  }
}
