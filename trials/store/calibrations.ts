/** Calibrations of servers, in the store beside the experiments. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { ServerCalibration } from '../devices/server-calibration.ts'
import { Connection } from './connection.ts'
import { migrate } from './database-schema.ts'
import { decode, encode } from './infinity-json.ts'
import { makeStoreFile } from './store-files.ts'

const busyTimeoutMs = 5_000

/** By name; none where there is no store, or one of before there were any. Throws StoreError. */
export async function readCalibrations(path: string): Promise<readonly ServerCalibration[]> {
  const file = resolve(path)
  if (!existsSync(file)) return []
  const connection = await Connection.open(file, busyTimeoutMs, 'read-only')
  try {
    return await connection.read(async (sql) => {
      const [there] = await sql.all("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'calibrations'")
      if (there === undefined) return []
      const rows = await sql.all<{ calibration: string }>('SELECT calibration FROM calibrations ORDER BY name')
      return rows.map((row) => decode(row.calibration) as ServerCalibration)
    })
  } finally {
    await connection.close()
  }
}

/** A later one of the same server, model and device takes the place of the earlier. Throws StoreError. */
export const keepCalibration = (path: string, calibration: ServerCalibration): Promise<void> =>
  writing(path, (connection) =>
    connection.write((sql) =>
      sql.run('INSERT OR REPLACE INTO calibrations (name, measured_at, calibration) VALUES (?, ?, ?)', [
        calibration.name,
        calibration.measuredAt,
        encode(calibration),
      ]),
    ),
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
