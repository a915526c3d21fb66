/** Reads and writes calibrations of servers in the trial store. */
import { existsSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { ServerCalibration } from '../devices/server-calibration.ts'
import type { Transaction } from './connection.ts'
import { encode } from './infinity-json.ts'
import { readOnce } from './read-once.ts'
import { computeDigest, formatId, type OnDamage, parseDocument } from './stored-rows.ts'
import { writeOnce } from './write-once.ts'

interface CalibrationRow {
  readonly name: string
  readonly measured_at: string
  readonly calibration: string
  readonly digest: string
}

/**
 * Reads the calibrations, ordered by name; empty without a store. Damaged ones are reported to
 * `onDamage` and skipped.
 * @throws StoreError
 */
export async function readCalibrations(
  path: string,
  onDamage: OnDamage = () => {},
): Promise<readonly ServerCalibration[]> {
  const file = resolve(path)
  if (!existsSync(file)) return []
  // An empty file is a store that is not initialised yet.
  if (statSync(file).isFile() && statSync(file).size === 0) return []
  return readOnce(file, onDamage, (sql) => queryCalibrations(sql, onDamage))
}

/** Reads the undamaged calibrations. */
export async function queryCalibrations(
  sql: Transaction,
  onDamage: OnDamage,
): Promise<readonly ServerCalibration[]> {
  const rows = await sql.all<CalibrationRow>('SELECT * FROM calibrations ORDER BY name')
  return rows.flatMap(({ name, measured_at, calibration, digest }) => {
    const parts = [name, measured_at, calibration]
    const row = { where: `calibration ${formatId(name)}`, text: calibration, digest, parts }
    const read = parseDocument(row, onDamage)
    return read ? [read.document as ServerCalibration] : []
  })
}

/**
 * Saves a calibration. It replaces an earlier one of the same server, model and device.
 * @throws StoreError
 */
export const saveCalibration = (path: string, calibration: ServerCalibration): Promise<void> =>
  writeOnce(path, (connection) =>
    connection.write((sql) => {
      const { name, measuredAt } = calibration
      const parts = [name, measuredAt, encode(calibration)]
      return sql.run(
        'INSERT OR REPLACE INTO calibrations (name, measured_at, calibration, digest) VALUES (?, ?, ?, ?)',
        [...parts, computeDigest(parts)],
      )
    }),
  )

/**
 * Deletes the calibrations with these names.
 * @throws StoreError
 */
export const deleteCalibrations = (path: string, names: readonly string[]): Promise<void> =>
  writeOnce(path, (connection) =>
    connection.write(async (sql) => {
      for (const name of names) await sql.run('DELETE FROM calibrations WHERE name = ?', [name])
    }),
  )
