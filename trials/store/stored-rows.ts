/**
 * Converts rows of the store to records. Every row has a digest of its content; rows that do not
 * match it, or are unreadable, are reported and skipped, without affecting others.
 */
import { createHash } from 'node:crypto'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { ExperimentRecord, FinishedTrial } from '../types.ts'
import type { SqlValue, Transaction } from './connection.ts'
import { decode, encode } from './infinity-json.ts'
import { findOwnerState, type Owner, type OwnerState } from './owner.ts'
import { createUnknownExperimentError } from './store-error.ts'

/** A damaged part of the store: its position and its fault, as text. */
export interface Damage {
  /** 'trial 2 of experiment bert-7f3a' */
  readonly where: string
  readonly what: string
}
export type OnDamage = (damage: Damage) => void

/** Reports each damage once, however often its row is read. */
export function reportOnce(onDamage: OnDamage = () => {}): OnDamage {
  const reportedDamage = new Set<string>()
  return (damage) => {
    const key = `${damage.where}: ${damage.what}`
    if (!reportedDamage.has(key)) onDamage(damage)
    reportedDamage.add(key)
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
  /** Number of the last trial when the experiment last ended; 0 if it never ended. */
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
/** Computes a digest of 128 bits that detects changes of the parts. */
export const computeDigest = (parts: readonly SqlValue[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)

/** Computes the digest of an experiment's immutable fields. */
export const digestExperiment = (
  row: Pick<ExperimentRow, 'id' | 'name' | 'created_at' | 'provenance' | 'seed' | 'spec'>,
): string => computeDigest([row.id, row.name, row.created_at, row.provenance, row.seed, row.spec])

export const digestResult = (id: string, result: string): string => computeDigest([id, result])

/** Computes the digest of a trial and its load curve, with the points in order of position. */
export const digestTrial = (
  { experiment_id, number, trial }: Omit<TrialRow, 'digest'>,
  points: readonly string[],
): string => computeDigest([experiment_id, number, trial, ...points])

export const parseOwner = (row: Pick<ExperimentRow, 'owner'>): Owner | undefined => {
  const owner = row.owner === null ? undefined : decodeJson(row.owner)
  // The owner is unreadable, so the experiment counts as interrupted.
  if (!owner || 'problem' in owner) return undefined
  const { pid, startedAt, host } = (owner.document ?? {}) as Partial<Owner>
  return typeof pid === 'number' && typeof startedAt === 'string' && typeof host === 'string'
    ? { pid, startedAt, host }
    : undefined
}

/**
 * Parses an experiment. It is interrupted if its process has died, whatever that process last wrote.
 * @returns undefined for a damaged row, which is reported to `onDamage`
 */
export function parseExperiment(
  row: ExperimentRow,
  onDamage: OnDamage,
): ExperimentRecord | undefined {
  const where = `experiment ${formatId(row.id)}`
  const spec = decodeJson(row.spec)
  if ('problem' in spec) {
    onDamage({ where, what: `its specification is unreadable (${spec.problem})` })
    return undefined
  }
  if (row.digest !== digestExperiment(row)) {
    onDamage({ where, what: digestMismatch })
    return undefined
  }
  const owner = parseOwner(row)
  const isKnownState = states.has(row.state)
  if (!isKnownState) onDamage({ where, what: `its state is unreadable; it counts as interrupted` })
  return {
    id: row.id,
    name: row.name,
    createdAt: row.created_at,
    spec: spec.document,
    provenance: row.provenance,
    seed: row.seed,
    state:
      !isKnownState || (row.state === 'running' && (!owner || findOwnerState(owner) === 'dead'))
        ? 'interrupted'
        : row.state,
    ...parseResult(row, onDamage),
  }
}

/** A damaged result is dropped: it can be computed again from the trials. */
function parseResult(row: ExperimentRow, onDamage: OnDamage): { result?: unknown } {
  if (row.result === null) return {}
  const result = decodeJson(row.result)
  const changed = row.result_digest !== digestResult(row.id, row.result)
  if (!('problem' in result) && !changed) return { result: result.document }
  onDamage({
    where: `the stored result of experiment ${formatId(row.id)}`,
    what: 'problem' in result ? result.problem : digestMismatch,
  })
  return {}
}

/**
 * Requires the experiment's row.
 * @throws StoreError if there is none
 */
export async function requireExperiment(sql: Transaction, id: string): Promise<ExperimentRow> {
  const row = await findExperimentRow(sql, id)
  if (!row) throw createUnknownExperimentError(id)
  return row
}

/** Finds the last known owner of a running experiment, and the state of its process. */
export function findOwnership(
  row: Pick<ExperimentRow, 'state' | 'owner'>,
): { readonly owner: Owner; readonly state: OwnerState } | undefined {
  const owner = row.state === 'running' ? parseOwner(row) : undefined
  return owner && { owner, state: findOwnerState(owner) }
}

export async function findExperimentRow(
  sql: Transaction,
  id: string,
): Promise<ExperimentRow | undefined> {
  const [row] = await sql.all<ExperimentRow>('SELECT * FROM experiments WHERE id = ?', [id])
  return row
}

/** Reads every readable experiment, oldest first, with its number of trials. */
export async function readExperiments(
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
      where: `experiment ${formatId(id)}`,
      what: `its own row is missing, but ${trials} of its trials exist`,
    })
  return rows.flatMap((row) => {
    const record = parseExperiment(row, onDamage)
    return record ? [{ ...record, trials: row.trials }] : []
  })
}

/**
 * Reads the finished trials numbered `from` to `to`, both included, by number. Damaged ones are
 * reported to `onDamage` instead.
 */
export async function readTrials(
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
  return rows.flatMap((row) => parseTrial(row, points.get(row.number) ?? [], onDamage) ?? [])
}

/**
 * Parses a trial with its load curve; undefined for damaged rows, which are reported to `onDamage`.
 */
export function parseTrial(
  row: TrialRow,
  curve: readonly string[],
  onDamage: OnDamage,
): FinishedTrial | undefined {
  const reportDamage = (what: string) => {
    onDamage({ where: `trial ${row.number} of experiment ${formatId(row.experiment_id)}`, what })
    return undefined
  }
  const document = decodeJson(row.trial)
  if ('problem' in document) return reportDamage(document.problem)
  if (row.digest !== digestTrial(row, curve)) return reportDamage(digestMismatch)
  const points: unknown[] = []
  for (const text of curve) {
    const point = decodeJson(text)
    if ('problem' in point)
      return reportDamage(`its load point ${points.length + 1}: ${point.problem}`)
    points.push(point.document)
  }
  const trial = document.document as FinishedTrial
  return trial.state === 'complete'
    ? { ...trial, measurement: { ...trial.measurement, points: points as LoadPoint[] } }
    : trial
}

/** Splits a trial into the texts of its own row and of the rows of its load curve. */
export function splitTrial(trial: FinishedTrial): {
  readonly document: string
  readonly points: readonly string[]
} {
  if (trial.state !== 'complete') return { document: encode(trial), points: [] }
  const { points, ...measurement } = trial.measurement
  return { document: encode({ ...trial, measurement }), points: points.map(encode) }
}

interface DocumentRow {
  /** Place for messages, e.g. 'watch x'. */
  readonly where: string
  readonly text: unknown
  readonly digest: string
  /** Values that the digest covers. */
  readonly parts: readonly SqlValue[]
}

/**
 * Parses the document of a row.
 * @returns undefined if it is unreadable or does not match its digest, which is reported to
 * `onDamage`
 */
export function parseDocument(
  { where, text, digest, parts }: DocumentRow,
  onDamage: OnDamage,
): { readonly document: unknown } | undefined {
  const read = decodeJson(text)
  const isUnchanged = digest === computeDigest(parts)
  if (!('problem' in read) && isUnchanged) return read
  onDamage({ where, what: 'problem' in read ? read.problem : digestMismatch })
  return undefined
}

const states: ReadonlySet<string> = new Set(['running', 'interrupted', 'done', 'failed'])

const digestMismatch = 'it has changed since it was written: its digest does not match'

/** Escapes and truncates an id for a message, because a damaged row may hold anything. */
export const formatId = (id: unknown): string =>
  JSON.stringify(String(id)).slice(1, -1).slice(0, 80)

function decodeJson(text: unknown): { readonly document: unknown } | { readonly problem: string } {
  if (typeof text !== 'string') return { problem: 'it is not text' }
  try {
    return { document: decode(text) }
  } catch (error) {
    return { problem: `its text is not JSON: ${(error as Error).message.slice(0, 120)}` }
  }
}
