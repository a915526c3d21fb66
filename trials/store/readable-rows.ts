/**
 * Reads rows one at a time: rows on damaged pages are reported and skipped, without affecting
 * others. Digests prove that read rows are intact.
 */
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { nameAnnotation } from './annotations.ts'
import { Connection, type SqlValue, type Transaction } from './connection.ts'
import { createTables } from './database-schema.ts'
import { isDamage } from './integrity-check.ts'
import { createStoreError } from './store-error.ts'
import { withStoreCopy } from './store-files.ts'
import {
  type Damage,
  digestExperiment,
  digestResult,
  digestTrial,
  type ExperimentRow,
  formatId,
  type OnDamage,
  parseDocument,
  parseExperiment,
  parseTrial,
  type TrialRow,
} from './stored-rows.ts'

interface ReadableRows {
  readonly experiments: readonly ExperimentRow[]
  readonly trials: readonly { readonly row: TrialRow; readonly points: readonly string[] }[]
  /** Rows of the tables with one document in each row, by table. */
  readonly documents: ReadonlyMap<DocumentTable, readonly DocumentRow[]>
}
type DocumentRow = Readonly<Record<string, SqlValue>>

interface DocumentTableShape {
  /** The digest of a row is of these in this order; the last is the document. */
  readonly columns: readonly string[]
  readonly name: (row: DocumentRow) => string
}
const documentTables = {
  annotations: {
    columns: ['experiment_id', 'trial_number', 'updated_at', 'annotation'],
    name: nameAnnotation,
  },
  calibrations: {
    columns: ['name', 'measured_at', 'calibration'],
    name: ({ name }: DocumentRow) => `calibration ${formatId(name)}`,
  },
  watches: {
    columns: ['name', 'updated_at', 'state'],
    name: ({ name }: DocumentRow) => `watch ${formatId(name)}`,
  },
} satisfies Readonly<Record<string, DocumentTableShape>>
type DocumentTable = keyof typeof documentTables

/**
 * Reads the readable rows of a damaged file, and lists the losses; the file is unchanged.
 * @throws StoreError and the file system's errors
 */
export function readReadableRows(
  file: string,
): Promise<{ rows: ReadableRows; damage: readonly Damage[] }> {
  return withStoreCopy(file, async (copy) => {
    const read = async () => {
      const damage: Damage[] = []
      const connection = await Connection.open(copy, 0, 'read-only', file)
      try {
        // No transaction: SQLite commits none in which it met damage.
        const rows = await connection.runOutsideTransaction(async (sql) => {
          // Lets SQLite open a truncated file.
          await sql.exec('PRAGMA writable_schema = ON')
          return readRows(sql, (one) => damage.push(one), true)
        })
        return { rows, damage }
      } finally {
        await connection.close()
      }
    }
    const original = await read().catch(returnNoRows)
    // The header and the definitions of the tables are the same in every store of this version.
    await overlaySchemaPages(copy)
    const repaired = await read().catch(returnNoRows)
    return countRows(repaired.rows) > countRows(original.rows) ? repaired : original
  })
}

/** Returns no rows for a file that SQLite cannot open. */
function returnNoRows(error: unknown): { rows: ReadableRows; damage: readonly Damage[] } {
  if (!isDamage(error)) throw error
  return { rows: { experiments: [], trials: [], documents: new Map() }, damage: [] }
}

export const countRows = ({ experiments, trials, documents }: ReadableRows): number =>
  [experiments, trials, ...documents.values()].reduce((sum, { length }) => sum + length, 0)

/** Offset of the number of pages in the header (sqlite.org/fileformat2.html, section 1.3). */
const pageCountOffset = 28

/** Copies the pages of header and schema of a new store over those of a damaged store. */
async function overlaySchemaPages(path: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'tune-store-'))
  try {
    const fresh = join(folder, 'fresh.db')
    const connection = await Connection.open(fresh, 0)
    await connection.runOutsideTransaction((sql) => sql.exec('PRAGMA synchronous = OFF'))
    await createTables(connection)
    const pages = await connection.runOutsideTransaction((sql) =>
      sql.all<{ pageno: number; pgsize: number }>(
        "SELECT pageno, pgsize FROM dbstat WHERE name = 'sqlite_schema'",
      ),
    )
    await connection.close()
    const [from, to] = [openSync(fresh, 'r'), openSync(path, 'r+')]
    for (const { pageno, pgsize } of pages) {
      const page = Buffer.alloc(pgsize)
      readSync(from, page, 0, pgsize, (pageno - 1) * pgsize)
      writeSync(to, page, 0, pgsize, (pageno - 1) * pgsize)
    }
    // SQLite then computes the number of pages from the file size.
    writeSync(to, Buffer.alloc(4), 0, 4, pageCountOffset)
    for (const descriptor of [from, to]) closeSync(descriptor)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Reads all intact rows.
 * @param onDamage called for every other row, by name if known
 * @param areGapsDamage whether a missing trial number may be a lost row
 */
export async function readRows(
  sql: Transaction,
  onDamage: OnDamage,
  areGapsDamage = false,
): Promise<ReadableRows> {
  const experiments = await readExperiments(sql, onDamage)
  const trials: { row: TrialRow; points: readonly string[] }[] = []
  for (const { id } of experiments)
    trials.push(...(await readTrials(sql, id, onDamage, areGapsDamage)))
  const ids = experiments.map(({ id }) => id)
  const documents = new Map<DocumentTable, readonly DocumentRow[]>()
  for (const table of Object.keys(documentTables) as DocumentTable[])
    documents.set(table, await readDocuments(sql, table, ids, onDamage))
  return { experiments, trials, documents }
}

async function readExperiments(sql: Transaction, onDamage: OnDamage): Promise<ExperimentRow[]> {
  const reading = await readByKey<ExperimentRow>(sql, 'experiments', '*', 'rowid', '', [])
  const rows = new Map(reading.rows.map(({ row }) => [row.id, row]))
  const lostIds = new Set<string>()
  for (const [table, column] of [
    ['experiments', 'id'],
    ['trials', 'experiment_id'],
  ] as const)
    for (const id of await readDistinct(sql, table, column)) if (!rows.has(id)) lostIds.add(id)
  for (const id of lostIds)
    onDamage({
      where: `experiment ${formatId(id)}`,
      what: 'its own row cannot be read; its trials are left out too',
    })
  if (reading.unreadableKeys.length > lostIds.size)
    onDamage({
      where: 'experiments',
      what: `unreadable rows whose names are lost: ${reading.unreadableKeys.length - lostIds.size}${reading.isOpenEnded ? ' or more' : ''}`,
    })
  return [...rows.values()].filter((row) => parseExperiment(row, onDamage) !== undefined)
}

async function readTrials(
  sql: Transaction,
  id: string,
  onDamage: OnDamage,
  areGapsDamage: boolean,
): Promise<{ row: TrialRow; points: readonly string[] }[]> {
  const where = `experiment ${formatId(id)}`
  const columns = 'experiment_id, number, trial, digest'
  const condition = 'experiment_id = ? AND'
  const lastPoint = await readOrSkip(() =>
    sql.all<{ last: number | null }>(
      'SELECT max(trial_number) AS last FROM load_points WHERE experiment_id = ?',
      [id],
    ),
  )
  const last = lastPoint === unreadable ? undefined : (lastPoint[0]?.last ?? undefined)
  const reading = await readByKey<TrialRow>(sql, 'trials', columns, 'number', condition, [id], last)
  const trials: { row: TrialRow; points: readonly string[] }[] = []
  for (const { row } of reading.rows) {
    const points = await readOrSkip(() =>
      sql.all<{ point: string }>(
        'SELECT point FROM load_points WHERE experiment_id = ? AND trial_number = ? ORDER BY position',
        [id, row.number],
      ),
    )
    if (points === unreadable)
      onDamage({
        where: `trial ${row.number} of ${where}`,
        what: 'its load curve is on a damaged page',
      })
    else {
      const texts = points.map(({ point }) => point)
      if (parseTrial(row, texts, onDamage)) trials.push({ row, points: texts })
    }
  }
  if (reading.unreadableKeys.length > 0)
    onDamage({
      where: `trials of ${where}`,
      what: `on a damaged page: ${listNumbers(reading.unreadableKeys)}${reading.isOpenEnded ? ' and any after them' : ''}`,
    })
  if (areGapsDamage && reading.absentKeys.length > 0)
    onDamage({
      where: `trials of ${where}`,
      what: `missing, lost or never finished: ${listNumbers(reading.absentKeys)}`,
    })
  return trials
}

async function readDocuments(
  sql: Transaction,
  table: DocumentTable,
  ids: readonly string[],
  onDamage: OnDamage,
): Promise<DocumentRow[]> {
  const { columns, name }: DocumentTableShape = documentTables[table]
  const readings =
    table === 'annotations'
      ? await Promise.all(
          ids.map((id) =>
            readByKey<DocumentRow>(sql, table, '*', 'trial_number', 'experiment_id = ? AND', [id]),
          ),
        )
      : [await readByKey<DocumentRow>(sql, table, '*', 'rowid', '', [])]
  const unreadableCount = readings.reduce((sum, one) => sum + one.unreadableKeys.length, 0)
  if (unreadableCount > 0)
    onDamage({ where: table, what: `rows on a damaged page: ${unreadableCount} or more` })
  return readings.flatMap(({ rows }) =>
    rows.flatMap(({ row }) => {
      const parts = columns.map((column) => row[column] ?? null)
      const digest = String(row.digest)
      const document = { where: name(row), text: parts.at(-1), digest, parts }
      return parseDocument(document, onDamage)
        ? [{ ...Object.fromEntries(columns.map((column, i) => [column, parts[i]!])), digest }]
        : []
    }),
  )
}

/** Row numbers that a message lists. */
const maxListed = 20

const listNumbers = (numbers: readonly number[]): string =>
  `${numbers.slice(0, maxListed).join(', ')}${numbers.length > maxListed ? ', ...' : ''}`

/** After this many consecutive keys without a readable row, query SQLite for the next key. */
const maxMisses = 500

interface RowsByKey<Row> {
  readonly rows: readonly { readonly key: number; readonly row: Row }[]
  readonly unreadableKeys: readonly number[]
  /** Keys without a row between rows, or up to `last`. */
  readonly absentKeys: readonly number[]
  /** Whether it is unknown how many of the last rows cannot be read. */
  readonly isOpenEnded: boolean
}

/**
 * Reads the rows of a table key by key, from 0.
 * @param condition SQL before the key's, with `values` for its parameters
 * @param minLastKey a key that is known to have been written
 */
async function readByKey<Row>(
  sql: Transaction,
  table: string,
  columns: string,
  keyColumn: string,
  condition: string,
  values: readonly SqlValue[],
  minLastKey = -1,
): Promise<RowsByKey<Row>> {
  const findNextKey = async (after: number) => {
    const query = `SELECT min(${keyColumn}) AS key FROM ${table} WHERE ${condition} ${keyColumn} > ?`
    const result = await readOrSkip(() =>
      sql.all<{ key: number | null }>(query, [...values, after]),
    )
    return result === unreadable ? unreadable : (result[0]?.key ?? undefined)
  }
  const readRowAt = (key: number) =>
    readOrSkip(() =>
      sql.all<Row>(`SELECT ${columns} FROM ${table} WHERE ${condition} ${keyColumn} = ?`, [
        ...values,
        key,
      ]),
    )
  const rows: { key: number; row: Row }[] = []
  const unreadableKeys: number[] = []
  const absentKeys: number[] = []
  let misses = 0
  let isOpenEnded = false
  for (let key = 0; ; key++) {
    const result = await readRowAt(key)
    if (result === unreadable) unreadableKeys.push(key)
    else if (result[0] === undefined) absentKeys.push(key)
    else rows.push({ key, row: result[0] })
    misses = result !== unreadable && result[0] !== undefined ? 0 : misses + 1
    if (misses % maxMisses !== 1) continue
    // At the first miss of a run, and periodically after it, check for further rows.
    const next = await findNextKey(key)
    if (next === undefined && key >= minLastKey) break
    if (misses <= maxMisses) continue
    isOpenEnded = next === unreadable
    if (typeof next !== 'number' || !Number.isSafeInteger(next)) break
    key = next - 1
  }
  const last = Math.max(rows.at(-1)?.key ?? -1, minLastKey)
  return {
    rows,
    // Behind the last row the page fails for any key, so the number of lost rows is unknown.
    unreadableKeys: isOpenEnded ? unreadableKeys.filter((key) => key <= last + 1) : unreadableKeys,
    absentKeys: absentKeys.filter((key) => key > 0 && key <= last),
    isOpenEnded,
  }
}

/** Reads the distinct values of a key's first column, from both ends up to unreadable pages. */
async function readDistinct(
  sql: Transaction,
  table: string,
  column: string,
): Promise<ReadonlySet<string>> {
  const values = new Set<string>()
  for (const [order, comparison] of [
    ['ASC', '>'],
    ['DESC', '<'],
  ] as const) {
    let condition = ''
    for (let from: string[] = []; ; ) {
      const query = `SELECT ${column} AS value FROM ${table} ${condition} ORDER BY ${column} ${order} LIMIT 1`
      const result = await readOrSkip(() => sql.all<{ value: string }>(query, from))
      const value = result === unreadable ? undefined : result[0]?.value
      // A page with a damaged key may lead back to where it was.
      if (typeof value !== 'string' || values.has(value)) break
      values.add(value)
      from = [value]
      condition = `WHERE ${column} ${comparison} ?`
    }
  }
  return values
}

const unreadable = Symbol('unreadable')

/**
 * `unreadable` where the pages behind an answer are damaged.
 * @throws other errors
 */
async function readOrSkip<T>(read: () => Promise<T>): Promise<T | typeof unreadable> {
  try {
    return await read()
  } catch (error) {
    if (damageCodes.has((error as { code?: string }).code ?? '')) return unreadable
    throw error
  }
}

/** SQLITE_ERROR: the table is missing because its definition is unreadable. */
const damageCodes: ReadonlySet<string> = new Set([
  'SQLITE_CORRUPT',
  'SQLITE_NOTADB',
  'SQLITE_IOERR',
  'SQLITE_ERROR',
  'SQLITE_FORMAT',
  'SQLITE_TOOBIG',
  'SQLITE_MISMATCH',
])

/**
 * A store of these rows, in memory or in the empty file at `path`.
 * @throws StoreError
 */
export async function storeOfRows(
  { experiments, trials, documents }: ReadableRows,
  path = ':memory:',
): Promise<Connection> {
  const connection = await Connection.open(path, 5_000)
  try {
    await createTables(connection)
    await connection.write(async (sql) => {
      const insert = (table: string, row: DocumentRow) =>
        sql.run(
          `INSERT INTO ${table} (${Object.keys(row).join(', ')}) VALUES (${Object.keys(row)
            .map(() => '?')
            .join(', ')})`,
          Object.values(row),
        )
      for (const row of experiments) {
        const { id, name, created_at, provenance, seed, spec, owner, ended_after } = row
        const { state, result: known } = parseExperiment(row, () => {})!
        const result = known === undefined ? null : row.result
        await insert('experiments', {
          ...{ id, name, created_at, provenance, seed, spec, owner, ended_after, result },
          state: state === 'interrupted' ? state : row.state,
          digest: digestExperiment(row),
          result_digest: result && digestResult(id, result),
        })
      }
      for (const { row, points } of trials) {
        const { experiment_id, number, trial } = row
        await insert('trials', { experiment_id, number, trial, digest: digestTrial(row, points) })
        for (const [position, point] of points.entries())
          await insert('load_points', { experiment_id, trial_number: number, position, point })
      }
      for (const [table, rows] of documents) for (const row of rows) await insert(table, row)
    })
    return connection
  } catch (error) {
    await connection.close()
    throw createStoreError(error, path)
  }
}
