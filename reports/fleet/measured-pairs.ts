/**
 * Slowdowns of models beside others as they were measured: a CSV with a row for each model of each
 * pair or three.
 */
import { findGpu } from '../../trials/devices/catalogue.ts'
import { CsvError, csv, csvRecords } from '../report/csv.ts'
import type { MeasuredSlowdown } from './interference.ts'
import { FleetError } from './packing.ts'

const columns = ['gpu', 'model', 'beside', 'othersSharePercent', 'aloneMs', 'besideMs'] as const
const provenance = 'provenance'
const hint = `a CSV with columns ${columns.join(',')}: what a batch of the model takes at one share, alone and beside the others (names joined by +), which hold so much of the threads together`

/**
 * A slowdown with what it is of: what a batch takes, or where a server does not count them the time
 * from one answer to the next, ms.
 */
export interface MeasuredPair extends MeasuredSlowdown {
  readonly each: 'batch' | 'answer'
  readonly aloneMs: number
  readonly besideMs: number
}

/**
 * Such a file with more pairs.
 * @param text what is in it; undefined: it is not there
 * @throws FleetError where its columns are others: what is emulated would be taken for measured
 */
export function withPairs(
  text: string | undefined,
  shown: string,
  pairs: readonly MeasuredPair[],
): string {
  const rows = pairs.map(({ kind, model, others, othersShare, aloneMs, besideMs, emulated }) => [
    kind,
    model,
    others.join('+'),
    Number((100 * othersShare).toFixed(1)),
    Number(aloneMs.toFixed(3)),
    Number(besideMs.toFixed(3)),
    emulated ? 'emulated' : 'measured',
  ])
  const written = csv([...columns, provenance], rows)
  if (text === undefined) return written
  const header = written.slice(0, written.indexOf('\n')).trim()
  if (text.split('\n', 1)[0]!.trim() !== header)
    throw new FleetError(
      `${shown} has other columns than are added`,
      `name a file that is not there, or one that begins with ${header}`,
    )
  return `${text.replace(/\n*$/, '\n')}${written.slice(written.indexOf('\n') + 1)}`
}

/** @throws FleetError that names the line */
export function readPairs(text: string, shown: string): MeasuredSlowdown[] {
  const [header, ...records] = recordsOf(text, shown)
  const columnOf = (name: string) =>
    header?.cells.findIndex((cell) => cell.trim().toLowerCase() === name.toLowerCase()) ?? -1
  const at = columns.map(columnOf)
  const missing = columns.find((_, i) => at[i]! < 0)
  if (missing) throw new FleetError(`${shown} has no column ${missing}`, hint)
  return records.map(({ cells, line }) => {
    const emulated = cells[columnOf(provenance)]?.trim() === 'emulated'
    const [gpu, model, beside, ...numbers] = at.map((i) => (cells[i] ?? '').trim()) as [
      string,
      string,
      string,
      ...string[],
    ]
    const [othersShare, aloneMs, besideMs] = numbers.map(Number) as [number, number, number]
    const others = beside.split('+').map((name) => name.trim())
    if (
      model === '' ||
      others.includes('') ||
      ![othersShare, aloneMs, besideMs].every((value) => value > 0 && Number.isFinite(value)) ||
      othersShare > 100
    )
      throw new FleetError(`${shown}:${line}: no measured pair`, hint)
    return {
      kind: kindOf(gpu, `${shown}:${line}`),
      model,
      others,
      othersShare: othersShare / 100,
      slowdown: besideMs / aloneMs,
      ...(emulated && { emulated }),
    }
  })
}

function recordsOf(text: string, shown: string) {
  try {
    return csvRecords(text)
  } catch (error) {
    if (error instanceof CsvError)
      throw new FleetError(`${shown}:${error.line}: ${error.what}`, hint)
    throw error
  }
}

function kindOf(name: string, where: string): string {
  try {
    return findGpu(name).name
  } catch (error) {
    throw new FleetError(`${where}: ${(error as Error).message}`, hint)
  }
}
