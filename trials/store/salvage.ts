/**
 * What a damaged store still holds, in a database of its own: the rows that are whole, and the
 * names of those that are not.
 */
import { closeSync, openSync, renameSync, rmSync } from 'node:fs'
import { privateFile } from '../private-files.ts'
import { type AnnotationRow, annotationOf, insertAnnotation } from './annotations.ts'
import { keepCalibration, readCalibrations } from './calibrations.ts'
import { Connection, type SqlValue } from './connection.ts'
import { migrate } from './database-schema.ts'
import { pageRows } from './page-rows.ts'
import { StoreError } from './store-error.ts'
import { moveIfThere, unused } from './store-files.ts'
import {
  type Damage,
  type ExperimentRow,
  experimentDigest,
  experimentOf,
  holderOf,
  type OnDamage,
  type PointRow,
  resultDigest,
  shown,
  type TrialRow,
  trialDigest,
  trialOf,
} from './stored-rows.ts'
import { keepWatch, readWatches } from './watches.ts'

interface Salvage {
  readonly experiments: readonly ExperimentRow[]
  readonly trials: readonly { readonly row: TrialRow; readonly points: readonly string[] }[]
  readonly annotations: readonly AnnotationRow[]
  readonly damage: readonly Damage[]
}

/**
 * Reads every page of a store by itself. What is left of it may be nothing. @throws the file
 * system's errors
 */
export function salvage(path: string): Salvage {
  const found = pageRows(path)
  const damage: Damage[] = []
  const tell = (one: Damage) => damage.push(one)
  const experiments = new Map<string, ExperimentRow>()
  for (const row of found.experiments) {
    // Of two copies of a row, one left behind in a free page, the whole one counts, and of two
    // whole ones the later state.
    const present = experiments.get(row.id)
    const problems: Damage[] = []
    const sound =
      experimentOf(row, (one) => problems.push(one)) !== undefined && problems.length === 0
    if (!present || (sound && present.state === 'running')) experiments.set(row.id, row)
  }
  const curves = curvesOf(found.points)
  const trials = new Map<string, { row: TrialRow; points: readonly string[] }>()
  for (const row of found.trials) {
    const key = keyOf(row.experiment_id, row.number)
    const points = curves.get(key) ?? []
    const problems: Damage[] = []
    if (trialOf(row, points, (one) => problems.push(one))) trials.set(key, { row, points })
    else if (!trials.has(key)) damage.push(...problems)
  }
  const sound = [...experiments.values()].filter((row) => experimentOf(row, tell))
  const known = new Set(sound.map((row) => row.id))
  const kept = [...trials.values()].filter(({ row }) => known.has(row.experiment_id))
  for (const id of new Set([...trials.values()].map(({ row }) => row.experiment_id))) {
    if (!known.has(id))
      tell({ where: `experiment ${shown(id)}`, what: 'its trials are there, its own row is not' })
  }
  for (const where of new Set(found.strange))
    tell({ where, what: 'a value in its row is of a type that it never had' })
  const annotations = wholeAnnotations(found.annotations, known, tell)
  return {
    experiments: sound,
    trials: kept,
    annotations,
    damage: [...damage, ...gaps(kept.map(({ row }) => row))],
  }
}

/**
 * Of copies of a row, left behind in free pages, the last written; of experiments that are there.
 */
function wholeAnnotations(
  rows: readonly AnnotationRow[],
  known: ReadonlySet<string>,
  tell: OnDamage,
): AnnotationRow[] {
  const latest = new Map<string, AnnotationRow>()
  for (const row of rows) {
    const key = keyOf(row.experiment_id, row.trial_number)
    const present = latest.get(key)
    if (
      known.has(row.experiment_id) &&
      annotationOf(row, tell) &&
      (!present || present.updated_at < row.updated_at)
    )
      latest.set(key, row)
  }
  return [...latest.values()]
}

const keyOf = (experimentId: string, number: number) => JSON.stringify([experimentId, number])

function curvesOf(rows: readonly PointRow[]): Map<string, string[]> {
  const curves = new Map<string, Map<number, string>>()
  for (const { experiment_id, trial_number, position, point } of rows) {
    const key = keyOf(experiment_id, trial_number)
    curves.set(key, (curves.get(key) ?? new Map()).set(position, point))
  }
  return new Map(
    [...curves].map(([key, points]) => [
      key,
      [...points].sort(([a], [b]) => a - b).map(([, text]) => text),
    ]),
  )
}

const mostNamed = 20

/**
 * Numbers below an experiment's last that are not there: the rows of lost pages have no other name.
 */
function gaps(rows: readonly TrialRow[]): Damage[] {
  const numbers = new Map<string, Set<number>>()
  for (const { experiment_id, number } of rows)
    numbers.set(experiment_id, (numbers.get(experiment_id) ?? new Set()).add(number))
  return [...numbers].flatMap(([id, found]) => {
    const present = [...found].filter((number) => number >= 1)
    const missing = present.reduce((most, number) => Math.max(most, number), 0) - present.length
    if (missing === 0) return []
    // A number may be what is damaged: of a gap of 10^15 as many are looked at as are named.
    const named: number[] = []
    for (let number = 1; named.length < Math.min(missing, mostNamed); number++)
      if (!found.has(number)) named.push(number)
    const more = missing > mostNamed ? `, ... (${missing} in all)` : ''
    return [
      {
        where: `trials of experiment ${shown(id)}`,
        what: `not there, lost or never finished: ${named.join(', ')}${more}`,
      },
    ]
  })
}

/**
 * A database with what was salvaged, at `path` or in memory. Rows get the digests they lacked.
 * Throws StoreError.
 */
export async function rebuilt(
  { experiments, trials, annotations }: Salvage,
  path = ':memory:',
): Promise<Connection> {
  const connection = await Connection.open(path, 5_000)
  try {
    await migrate(connection)
    await connection.write(async (sql) => {
      const insert = (table: string, row: Readonly<Record<string, SqlValue>>) =>
        sql.run(
          `INSERT INTO ${table} (${Object.keys(row).join(', ')}) VALUES (${Object.keys(row)
            .map(() => '?')
            .join(', ')})`,
          Object.values(row),
        )
      for (const row of experiments) {
        const { id, name, created_at, provenance, seed, spec, owner } = row
        const result =
          row.result !== null && experimentOf(row, () => {})?.result !== undefined
            ? row.result
            : null
        await insert('experiments', {
          ...{ id, name, created_at, provenance, seed, spec, owner, result },
          state: experimentOf(row, () => {})?.state === 'interrupted' ? 'interrupted' : row.state,
          digest: experimentDigest(row),
          result_digest: result && resultDigest(id, result),
        })
      }
      for (const { row, points } of trials) {
        const { experiment_id, number, trial } = row
        await insert('trials', { experiment_id, number, trial, digest: trialDigest(row, points) })
        for (const [position, point] of points.entries())
          await insert('load_points', { experiment_id, trial_number: number, position, point })
      }
      for (const row of annotations) await insertAnnotation(sql, row)
    })
    return connection
  } catch (error) {
    await connection.close()
    throw error
  }
}

/** Of a file whose damage left no experiment whole. */
export const nothingToSave = (path: string): StoreError =>
  new StoreError(
    'corrupt',
    `nothing can be saved of ${path}: no experiment in it is whole`,
    'move it away, or use another file with --db',
  )

interface Repair {
  /** Where the file as it was is kept. */
  readonly kept: string
  readonly experiments: number
  readonly trials: number
  /** What could not be saved. */
  readonly damage: readonly Damage[]
}

/**
 * Replaces a damaged store by a new one of all that is whole; the damaged file stays beside it as
 * `FILE.damaged`. Throws StoreError while a process runs one of its experiments, and when nothing
 * can be saved.
 */
export async function repairStore(path: string): Promise<Repair> {
  const saved = salvage(path)
  const lost: Damage[] = []
  // Those that cannot be read any more are measured again in seconds.
  const calibrations = await readCalibrations(path, (one) => lost.push(one)).catch(() => [])
  // A watch that is lost begins anew.
  const watches = await readWatches(path, (one) => lost.push(one)).catch(
    () => new Map<string, unknown>(),
  )
  for (const row of saved.experiments) {
    const holder = holderOf(row)
    if (holder?.state === 'alive' || holder?.state === 'unknown') {
      const { owner } = holder
      throw new StoreError(
        'owned-elsewhere',
        `the trial store ${path} is damaged, and process ${owner.pid} on ${owner.host} runs experiment ${row.id} in it`,
        'stop that process, then run `tune store repair`',
      )
    }
  }
  if (saved.experiments.length === 0) throw nothingToSave(path)
  const next = `${path}.repair-${process.pid}`
  const kept = unused(`${path}.damaged`)
  try {
    closeSync(openSync(next, 'wx', privateFile))
    const connection = await rebuilt(saved, next)
    await connection.close()
    for (const suffix of ['-wal', '-shm']) moveIfThere(`${path}${suffix}`, `${kept}${suffix}`)
    renameSync(path, kept)
    renameSync(next, path)
    for (const calibration of calibrations) await keepCalibration(path, calibration)
    for (const [name, state] of watches)
      await keepWatch(path, name, state, new Date().toISOString())
  } finally {
    for (const suffix of ['', '-wal', '-shm', '-journal'])
      rmSync(`${next}${suffix}`, { force: true })
  }
  return {
    kept,
    experiments: saved.experiments.length,
    trials: saved.trials.length,
    damage: [...saved.damage, ...lost],
  }
}
