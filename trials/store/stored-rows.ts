/**
 * Rows of the store as records. Every row carries a digest of what it held when it was written; one
 * that no longer agrees, or cannot be read, is named and left out, and touches no other.
 */
import { createHash } from 'node:crypto'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { ExperimentRecord, FinishedTrial } from '../types.ts'
import type { SqlValue, Transaction } from './connection.ts'
import { decode, encode } from './infinity-json.ts'
import { type Owner, type OwnerState, ownerState } from './owner.ts'
import { unknownExperiment } from './store-error.ts'

/**
 * Something of the store that cannot be used: where it lies and what is wrong with it, both in
 * words.
 */
export interface Damage {
  /** 'trial 2 of experiment bert-7f3a' */
  readonly where: string
  readonly what: string
}
export type OnDamage = (damage: Damage) => void

/** Passes on each damage once, however often its row is read. */
export function onceEach(onDamage: OnDamage = () => {}): OnDamage {
  const told = new Set<string>()
  return (damage) => {
    const key = `${damage.where}: ${damage.what}`
    if (!told.has(key)) onDamage(damage)
    told.add(key)
  }
}

export interface ExperimentRow {
  id: string
  name: string
  created_at: string
  provenance: ExperimentRecord['provenance']
  seed: number
  state: ExperimentRecord['state']
  spec: string
  result: string | null
  owner: string | null
  /** Number of its last trial when it last ended; 0 before. */
  ended_after: number
  digest: string
  /** Null while there is no result. */
  result_digest: string | null
}
export interface TrialRow {
  experiment_id: string
  number: number
  trial: string
  digest: string
}
/** 128 bits that tell whether the parts are still those that were written. */
export const digestOf = (parts: readonly SqlValue[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)

/** Of what an experiment is from its start to its end. */
export const experimentDigest = (
  row: Pick<ExperimentRow, 'id' | 'name' | 'created_at' | 'provenance' | 'seed' | 'spec'>,
): string => digestOf([row.id, row.name, row.created_at, row.provenance, row.seed, row.spec])

export const resultDigest = (id: string, result: string): string => digestOf([id, result])

/** Of a trial with its load curve, in order of position. */
export const trialDigest = (
  { experiment_id, number, trial }: Omit<TrialRow, 'digest'>,
  points: readonly string[],
): string => digestOf([experiment_id, number, trial, ...points])

export const ownerOf = (row: Pick<ExperimentRow, 'owner'>): Owner | undefined => {
  const owner = row.owner === null ? undefined : decoded(row.owner)
  // A damaged note of who runs it: the experiment counts as interrupted.
  if (!owner || 'problem' in owner) return undefined
  const { pid, startedAt, host } = (owner.document ?? {}) as Partial<Owner>
  return typeof pid === 'number' && typeof startedAt === 'string' && typeof host === 'string'
    ? { pid, startedAt, host }
    : undefined
}

/**
 * An experiment whose process has died is interrupted, whatever that process last wrote. Undefined,
 * and told to `onDamage`, for a damaged row.
 */
export function experimentOf(row: ExperimentRow, onDamage: OnDamage): ExperimentRecord | undefined {
  const where = `experiment ${shown(row.id)}`
  const spec = decoded(row.spec)
  const changed = row.digest !== experimentDigest(row)
  const problem =
    'problem' in spec
      ? `its specification is unreadable (${spec.problem})`
      : changed
        ? changedSince
        : undefined
  if ('problem' in spec || problem !== undefined) {
    onDamage({ where, what: problem! })
    return undefined
  }
  const owner = ownerOf(row)
  const known = states.has(row.state)
  if (!known) onDamage({ where, what: `its state is unreadable; it counts as interrupted` })
  return {
    id: row.id,
    name: row.name,
    createdAt: row.created_at,
    spec: spec.document,
    provenance: row.provenance,
    seed: row.seed,
    state:
      !known || (row.state === 'running' && (!owner || ownerState(owner) === 'dead'))
        ? 'interrupted'
        : row.state,
    ...resultOf(row, onDamage),
  }
}

/** The result follows from the trials: without it the experiment is still whole. */
function resultOf(row: ExperimentRow, onDamage: OnDamage): { result?: unknown } {
  if (row.result === null) return {}
  const result = decoded(row.result)
  const changed = row.result_digest !== resultDigest(row.id, row.result)
  if (!('problem' in result) && !changed) return { result: result.document }
  onDamage({
    where: `the stored result of experiment ${shown(row.id)}`,
    what: 'problem' in result ? result.problem : changedSince,
  })
  return {}
}

/** The experiment's row. Throws StoreError where there is none. */
export async function need(sql: Transaction, id: string): Promise<ExperimentRow> {
  const row = await find(sql, id)
  if (!row) throw unknownExperiment(id)
  return row
}

/** Who was last known to run an experiment that runs, and whether that process lives. */
export function holderOf(
  row: Pick<ExperimentRow, 'state' | 'owner'>,
): { readonly owner: Owner; readonly state: OwnerState } | undefined {
  const owner = row.state === 'running' ? ownerOf(row) : undefined
  return owner && { owner, state: ownerState(owner) }
}

export async function find(sql: Transaction, id: string): Promise<ExperimentRow | undefined> {
  const [row] = await sql.all<ExperimentRow>('SELECT * FROM experiments WHERE id = ?', [id])
  return row
}

/** Every experiment that can be read, oldest first, with its number of trials. */
export async function experimentsOf(
  sql: Transaction,
  onDamage: OnDamage,
): Promise<(ExperimentRecord & { trials: number })[]> {
  const rows = await sql.all<ExperimentRow & { trials: number }>(
    'SELECT *, (SELECT count(*) FROM trials WHERE experiment_id = id) AS trials FROM experiments ORDER BY created_at, id',
  )
  const orphans = await sql.all<{ id: string; trials: number }>(
    'SELECT experiment_id AS id, count(*) AS trials FROM trials WHERE experiment_id NOT IN (SELECT id FROM experiments) GROUP BY 1',
  )
  for (const { id, trials } of orphans)
    onDamage({
      where: `experiment ${shown(id)}`,
      what: `its own row is missing, but ${trials} of its trials exist`,
    })
  return rows.flatMap((row) => {
    const record = experimentOf(row, onDamage)
    return record ? [{ ...record, trials: row.trials }] : []
  })
}

/**
 * Finished trials numbered `from` to `to`, both included, by number; damaged ones are told to
 * `onDamage` instead.
 */
export async function trialsOf(
  sql: Transaction,
  id: string,
  onDamage: OnDamage,
  from = 0,
  to = Number.MAX_SAFE_INTEGER,
): Promise<FinishedTrial[]> {
  const rows = await sql.all<TrialRow>(
    `SELECT experiment_id, number, trial, digest FROM trials
     WHERE experiment_id = ? AND number BETWEEN ? AND ? ORDER BY number`,
    [id, from, to],
  )
  const pointRows = await sql.all<{ trial_number: number; point: string }>(
    'SELECT trial_number, point FROM load_points WHERE experiment_id = ? AND trial_number BETWEEN ? AND ? ORDER BY trial_number, position',
    [id, from, to],
  )
  const points = new Map<number, string[]>()
  for (const { trial_number, point } of pointRows) {
    const curve = points.get(trial_number) ?? []
    if (curve.length === 0) points.set(trial_number, curve)
    curve.push(point)
  }
  return rows.flatMap((row) => trialOf(row, points.get(row.number) ?? [], onDamage) ?? [])
}

/** A trial with its load curve; undefined, and told to `onDamage`, where its rows are damaged. */
export function trialOf(
  row: TrialRow,
  curve: readonly string[],
  onDamage: OnDamage,
): FinishedTrial | undefined {
  const leaveOut = (what: string) => {
    onDamage({ where: `trial ${row.number} of experiment ${shown(row.experiment_id)}`, what })
    return undefined
  }
  const document = decoded(row.trial)
  if ('problem' in document) return leaveOut(document.problem)
  if (row.digest !== trialDigest(row, curve)) return leaveOut(changedSince)
  const points: unknown[] = []
  for (const text of curve) {
    const point = decoded(text)
    if ('problem' in point) return leaveOut(`its load point ${points.length + 1}: ${point.problem}`)
    points.push(point.document)
  }
  const trial = document.document as FinishedTrial
  return trial.state === 'complete'
    ? { ...trial, measurement: { ...trial.measurement, points: points as LoadPoint[] } }
    : trial
}

/** The load curve apart from the rest of a trial, each as its row's text. */
export function split(trial: FinishedTrial): {
  readonly document: string
  readonly points: readonly string[]
} {
  if (trial.state !== 'complete') return { document: encode(trial), points: [] }
  const { points, ...measurement } = trial.measurement
  return { document: encode({ ...trial, measurement }), points: points.map(encode) }
}

interface DocumentRow {
  /** In words. */
  readonly where: string
  readonly text: unknown
  readonly digest: string
  /** What the digest is of. */
  readonly parts: readonly SqlValue[]
}

/**
 * Document of a row; undefined, and reported to `onDamage`, where it cannot be read or does not
 * match its digest.
 */
export function documentOf(
  { where, text, digest, parts }: DocumentRow,
  onDamage: OnDamage,
): { readonly document: unknown } | undefined {
  const read = decoded(text)
  const isUnchanged = digest === digestOf(parts)
  if (!('problem' in read) && isUnchanged) return read
  onDamage({ where, what: 'problem' in read ? read.problem : changedSince })
  return undefined
}

const states: ReadonlySet<string> = new Set(['running', 'interrupted', 'done', 'failed'])

const changedSince = 'it has changed since it was written: its digest does not match'

/** Keys may be what is damaged. */
export const shown = (id: unknown): string => JSON.stringify(String(id)).slice(1, -1).slice(0, 80)

function decoded(text: unknown): { readonly document: unknown } | { readonly problem: string } {
  if (typeof text !== 'string') return { problem: 'it is not text' }
  try {
    return { document: decode(text) }
  } catch (error) {
    return { problem: `its text is not JSON: ${(error as Error).message.slice(0, 120)}` }
  }
}
