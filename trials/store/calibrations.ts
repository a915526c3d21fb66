/** Calibrations of servers, in the store beside the experiments. */
import { copyFileSync, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { ServerCalibration } from '../devices/server-calibration.ts'
import { Connection, type Transaction } from './connection.ts'
import { migrate } from './database-schema.ts'
import { calibrationProblem } from './document-shape.ts'
import { encode } from './infinity-json.ts'
import { openSound } from './open-sound.ts'
import { pagesAreDamaged } from './page-check.ts'
import { StoreError } from './store-error.ts'
import { makeStoreFile } from './store-files.ts'
import { changedSince, decoded, digestOf, type OnDamage, shown } from './stored-rows.ts'

const busyTimeoutMs = 5_000

interface CalibrationRow {
  readonly name: string
  readonly measured_at: string
  readonly calibration: string
  /** Absent in stores of before version 4. */
  readonly digest?: string | null
}

/**
 * By name; none where there is no store, or one of before there were any. One that is damaged, or all of a file whose pages are, is told to
 * `onDamage` and left out: it is measured again in seconds. Throws StoreError.
 */
export async function readCalibrations(path: string, onDamage: OnDamage = () => {}): Promise<readonly ServerCalibration[]> {
  const file = resolve(path)
  if (!existsSync(file)) return []
  // An empty one is a store to be.
  if (statSync(file).isFile() && statSync(file).size === 0) return []
  try {
    return await readFrom(file, onDamage)
  } catch (error) {
    if (error instanceof StoreError && (error.fault === 'cannot-open' || error.fault === 'read-only'))
      return await readFromCopy(file, onDamage)
    if (!pagesAreDamaged(error) || error.fault === 'not-a-store') throw error
    onDamage({ where: `calibrations of ${file}`, what: error.message })
    return []
  }
}

async function readFrom(file: string, onDamage: OnDamage): Promise<readonly ServerCalibration[]> {
  const connection = await openSound(file)
  try {
    return await connection.read((sql) => calibrationsOf(sql, onDamage))
  } finally {
    await connection.close()
  }
}

/** Where a crash left a log and nothing can be written beside it, SQLite reads neither: a copy of both is read. */
async function readFromCopy(file: string, onDamage: OnDamage): Promise<readonly ServerCalibration[]> {
  const folder = mkdtempSync(join(tmpdir(), 'tune-store-'))
  try {
    const copy = join(folder, 'tune.db')
    for (const suffix of ['', '-wal']) if (existsSync(file + suffix)) copyFileSync(file + suffix, copy + suffix)
    return await readFrom(copy, onDamage)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Those that are whole. */
async function calibrationsOf(sql: Transaction, onDamage: OnDamage): Promise<readonly ServerCalibration[]> {
  const [there] = await sql.all("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'calibrations'")
  if (there === undefined) return []
  const rows = await sql.all<CalibrationRow>('SELECT * FROM calibrations ORDER BY name')
  return rows.flatMap((row) => {
    const read = decoded(row.calibration)
    const problem =
      'problem' in read
        ? read.problem
        : row.digest != null && row.digest !== digestOf([row.name, row.measured_at, row.calibration])
          ? changedSince
          : calibrationProblem(read.document, row.name)
    if (problem === undefined) return [(read as { document: ServerCalibration }).document]
    onDamage({ where: `calibration ${shown(row.name)}`, what: problem })
    return []
  })
}

/** A later one of the same server, model and device takes the place of the earlier. Throws StoreError. */
export const keepCalibration = (path: string, calibration: ServerCalibration): Promise<void> =>
  writing(path, (connection) =>
    connection.write((sql) => {
      const { name, measuredAt } = calibration
      const text = encode(calibration)
      return sql.run('INSERT OR REPLACE INTO calibrations (name, measured_at, calibration, digest) VALUES (?, ?, ?, ?)', [
        ...[name, measuredAt, text],
        digestOf([name, measuredAt, text]),
      ])
    }),
  )

/** Removes those of the names. Throws StoreError. */
export const dropCalibrations = (path: string, names: readonly string[]): Promise<void> =>
  writing(path, (connection) =>
    connection.write(async (sql) => {
      for (const name of names) await sql.run('DELETE FROM calibrations WHERE name = ?', [name])
    }),
  )

async function writing(path: string, work: (connection: Connection) => Promise<void>): Promise<void> {
  const file = resolve(path)
  makeStoreFile(file)
  const connection = await Connection.open(file, busyTimeoutMs)
  try {
    await connection.direct((sql) => sql.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL'))
    await migrate(connection)
    await work(connection)
  } finally {
    await connection.close()
  }
}
