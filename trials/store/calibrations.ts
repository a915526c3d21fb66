/** Calibrations of servers, in the store beside the experiments. */
import { existsSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { ServerCalibration } from '../devices/server-calibration.ts'
import type { Transaction } from './connection.ts'
import { encode } from './infinity-json.ts'
import { reading } from './reading.ts'
import { digestOf, documentOf, type OnDamage, shown } from './stored-rows.ts'
import { writing } from './writing.ts'

interface CalibrationRow {
  readonly name: string
  readonly measured_at: string
  readonly calibration: string
  readonly digest: string
}

/**
 * Calibrations by name; none where there is no store. A damaged one is reported to `onDamage` and
 * left out. Throws StoreError.
 */
export async function readCalibrations(
  path: string,
  onDamage: OnDamage = () => {},
): Promise<readonly ServerCalibration[]> {
  const file = resolve(path)
  if (!existsSync(file)) return []
  // An empty one is a store to be.
  if (statSync(file).isFile() && statSync(file).size === 0) return []
  return reading(file, onDamage, (sql) => calibrationsOf(sql, onDamage))
}

/** Those that are whole. */
export async function calibrationsOf(
  sql: Transaction,
  onDamage: OnDamage,
): Promise<readonly ServerCalibration[]> {
  const rows = await sql.all<CalibrationRow>('SELECT * FROM calibrations ORDER BY name')
  return rows.flatMap(({ name, measured_at, calibration, digest }) => {
    const parts = [name, measured_at, calibration]
    const row = { where: `calibration ${shown(name)}`, text: calibration, digest, parts }
    const read = documentOf(row, onDamage)
    return read ? [read.document as ServerCalibration] : []
  })
}

/**
 * A later one of the same server, model and device takes the place of the earlier. Throws
 * StoreError.
 */
export const keepCalibration = (path: string, calibration: ServerCalibration): Promise<void> =>
  writing(path, (connection) =>
    connection.write((sql) => {
      const { name, measuredAt } = calibration
      const text = encode(calibration)
      return sql.run(
        'INSERT OR REPLACE INTO calibrations (name, measured_at, calibration, digest) VALUES (?, ?, ?, ?)',
        [...[name, measuredAt, text], digestOf([name, measuredAt, text])],
      )
    }),
  )

/** Removes those of the names. Throws StoreError. */
export const dropCalibrations = (path: string, names: readonly string[]): Promise<void> =>
  writing(path, (connection) =>
    connection.write(async (sql) => {
      for (const name of names) await sql.run('DELETE FROM calibrations WHERE name = ?', [name])
    }),
  )
