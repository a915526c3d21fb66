/** Experiments that are not wanted any more. */
import { ownedElsewhere } from './owned-elsewhere.ts'
import { holderOf, need } from './stored-rows.ts'
import { writing } from './writing.ts'

/**
 * Removes experiments with their trials, load curves and annotations: all of them or, where one
 * cannot go, none. What they held is overwritten in the file. Throws StoreError for one that is unknown or that a process runs.
 */
export const deleteExperiments = (path: string, ids: readonly string[]): Promise<void> =>
  writing(path, async (connection) => {
    await connection.direct((sql) => sql.exec('PRAGMA secure_delete = ON'))
    await connection.write(async (sql) => {
      for (const id of ids) {
        const holder = holderOf(await need(sql, id))
        if (holder && holder.state !== 'dead') throw ownedElsewhere(id, holder)
        await sql.run('DELETE FROM experiments WHERE id = ?', [id])
      }
    })
    // The log written ahead still holds the pages as they were.
    await connection.direct((sql) => sql.exec('PRAGMA wal_checkpoint(TRUNCATE)'))
  })
