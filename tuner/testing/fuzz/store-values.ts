/**
 * A store whose rows hold values that no table of ours takes: bytes for texts, numbers beyond all
 * bounds, NULL where none may be.
 */
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Connection } from '../../../trials/store/connection.ts'
import { backupStore, checkStore, openReader } from '../../../trials/store/index.ts'
import { reopen } from '../../commands/reopened.ts'

const sound = fileURLToPath(new URL('../../../trials/store/fixtures/v1.db', import.meta.url))
const columns = {
  experiments: [
    'id',
    'name',
    'created_at',
    'provenance',
    'seed',
    'state',
    'spec',
    'result',
    'owner',
  ],
  trials: ['experiment_id', 'number', 'trial'],
  load_points: ['experiment_id', 'trial_number', 'position', 'point'],
} as const

/** As JSON has it, or bytes in hex behind an x. */
function sqlValue(text: string): string {
  if (/^x([0-9a-f]{2})*$/.test(text)) return `x'${text.slice(1)}'`
  if (/^-?\d{1,400}(\.\d+)?(e\d+)?$/.test(text) || text === 'NULL') return text
  return `'${text.replaceAll("'", "''").replaceAll('\0', '')}'`
}

/** @param input lines of TABLE COLUMN VALUE */
export async function storeOfValues(input: Buffer): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'tune-fuzz-'))
  const path = join(folder, 'tune.db')
  try {
    copyFileSync(sound, path)
    const changes = input
      .toString('latin1')
      .split('\n')
      .slice(0, 8)
      .flatMap((line) => {
        const [table = '', column = '', ...rest] = line.split(' ')
        const known =
          Object.hasOwn(columns, table) &&
          (columns[table as keyof typeof columns] as readonly string[]).includes(column)
        return known
          ? [`UPDATE OR IGNORE ${table} SET ${column} = ${sqlValue(rest.join(' '))}`]
          : []
      })
    await change(path, changes)
    const stores = await openReader(path, () => {})
    const ids = (await stores.list()).map(({ id }) => id)
    await stores.close()
    await checkStore(path)
    const copy = join(folder, 'copy.db')
    await backupStore(path, copy)
    // The copy is sound: it is shown without a word of damage.
    for (const id of ids) await reopen(id, { db: copy })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The tables take anything while they are changed, and look afterwards as they were made. */
async function change(path: string, changes: readonly string[]): Promise<void> {
  const run = async (...statements: string[]) => {
    const connection = await Connection.open(path, 100)
    // What SQLite itself does not take is none of ours.
    for (const one of statements) await connection.direct((sql) => sql.exec(one)).catch(() => {})
    await connection.close()
  }
  const schema = (from: string, to: string) =>
    `PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, '${from}', '${to}'); PRAGMA writable_schema = RESET`
  await run(schema(') STRICT', ') /*was*/'), schema('NOT NULL', '/*NN*/  '))
  await run('PRAGMA ignore_check_constraints = ON', ...changes)
  await run(schema(') /*was*/', ') STRICT'), schema('/*NN*/  ', 'NOT NULL'))
}
