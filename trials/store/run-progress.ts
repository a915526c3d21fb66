/**
 * Running trials, with the windows of confirmations, from which an interrupted run resumes. Removed
 * once the trial has finished.
 */
import type { LoadRun } from '../../profiler/model/load-run.ts'
import type { InterruptedTrial, RunningTrial, RunProgress } from '../types.ts'
import type { Transaction } from './connection.ts'
import { encode } from './infinity-json.ts'
import {
  computeDigest,
  formatId,
  type OnDamage,
  parseDocument,
  requireExperiment,
} from './stored-rows.ts'

/** A damaged row counts as not written: its trial or window is repeated. */
export async function readProgress(
  sql: Transaction,
  id: string,
  onDamage: OnDamage,
): Promise<RunProgress> {
  const { ended_after } = await requireExperiment(sql, id)
  const [last] = await sql.all<{ number: number | null }>(
    'SELECT max(number) AS number FROM trials WHERE experiment_id = ?',
    [id],
  )
  const rows = await sql.all<{ number: number; trial: string; digest: string }>(
    'SELECT number, trial, digest FROM running_trials WHERE experiment_id = ? ORDER BY number',
    [id],
  )
  const running: InterruptedTrial[] = []
  for (const { number, trial: text, digest } of rows) {
    const where = `trial ${number} of experiment ${formatId(id)}, which was running`
    const read = parseDocument({ where, text, digest, parts: [id, number, text] }, onDamage)
    if (read)
      running.push({
        ...(read.document as RunningTrial),
        windows: await readWindows(sql, id, number, onDamage),
      })
  }
  return { lastNumber: last?.number ?? 0, endedAfter: ended_after, running }
}

/** Reads the windows before the first damaged one. */
async function readWindows(
  sql: Transaction,
  id: string,
  number: number,
  onDamage: OnDamage,
): Promise<LoadRun[]> {
  const rows = await sql.all<{ position: number; run: string; digest: string }>(
    'SELECT position, run, digest FROM confirmation_windows WHERE experiment_id = ? AND trial_number = ? ORDER BY position',
    [id, number],
  )
  const windows: LoadRun[] = []
  for (const { position, run, digest } of rows) {
    const where = `window ${position + 1} of trial ${number} of experiment ${formatId(id)}`
    const parts = [id, number, position, run]
    const read = parseDocument({ where, text: run, digest, parts }, onDamage)
    if (!read) break
    windows.push(parseWindow(read.document))
  }
  return windows
}

/** Parses a window; JSON has null for requests that were never sent. */
export function parseWindow(document: unknown): LoadRun {
  const run = document as LoadRun
  const { stream } = run
  return stream?.classes
    ? { ...run, stream: { ...stream, classes: stream.classes.map((name) => name ?? undefined) } }
    : run
}

export async function startTrial(sql: Transaction, id: string, trial: RunningTrial): Promise<void> {
  const { number } = trial
  const text = encode(trial)
  await sql.run(
    `INSERT INTO running_trials (experiment_id, number, trial, digest) VALUES (?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET trial = excluded.trial, digest = excluded.digest`,
    [id, number, text, computeDigest([id, number, text])],
  )
}

/** Replaces windows from that position on. */
export async function addWindow(
  sql: Transaction,
  id: string,
  number: number,
  position: number,
  window: LoadRun,
): Promise<void> {
  const text = encode(window)
  await sql.run(
    'DELETE FROM confirmation_windows WHERE experiment_id = ? AND trial_number = ? AND position >= ?',
    [id, number, position],
  )
  await sql.run(
    'INSERT INTO confirmation_windows (experiment_id, trial_number, position, run, digest) VALUES (?, ?, ?, ?, ?)',
    [id, number, position, text, computeDigest([id, number, position, text])],
  )
}

/** @param number absent: all of the experiment */
export async function endTrials(sql: Transaction, id: string, number?: number): Promise<void> {
  const [which, values] = number === undefined ? ['', [id]] : ['AND number = ?', [id, number]]
  await sql.run(`DELETE FROM running_trials WHERE experiment_id = ? ${which}`, values)
}
