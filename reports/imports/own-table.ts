/** Reads a recorded table of the user's own; a task file describes its columns. */
import {
  findMissingMeasurements,
  findRowFaults,
  listColumns,
  mergeRepeats,
  parseCellNumber,
  type RowFault,
  resolveRateColumn,
} from '../../search/replay/rows.ts'
import type { ReplayParameter, ReplayRow, ReplayTask } from '../../search/replay/task.ts'
import { computeGpuFeatures } from '../../trials/devices/gpu-features.ts'
import {
  isUnknown,
  type Problem,
  readEvenRows,
  type Source,
  TableError,
} from '../../trials/table-text.ts'
import type { ReplayTaskFile } from './replay-task-schema.ts'

/** Input of a replay: a task and one valid row for each configuration. `notes` are for the user. */
export interface Recording {
  readonly task: ReplayTask
  readonly rows: readonly ReplayRow[]
  readonly notes: readonly string[]
}

/** A row of a replay with its place: 'runs.csv:12'. */
export interface PlacedRow {
  readonly where: string
  readonly cells: ReplayRow
}

/** Larger spaces are searched by sampling, which a recorded table does not support. */
const maxRows = 100_000
/** Each value is a feature of the model. More of them are identifiers, not choices of a parameter. */
const maxValues = 500
/** Items named in a message. */
const maxShown = 5

/** @throws TableError with every invalid row and its line */
export function readOwnTable(given: ReplayTaskFile, source: Source): Recording {
  const { table, ragged } = readEvenRows(source)
  if (table.rows.length > maxRows)
    throw new TableError([
      {
        where: source.file,
        what: `${table.rows.length} rows; a replay reads at most ${maxRows.toLocaleString('en-US')}`,
      },
    ])
  const metricColumns = [given.constraint.metric, resolveRateColumn(given as ReplayTask)]
  const withoutUnknown = (cells: Readonly<Record<string, string>>) =>
    Object.fromEntries(
      Object.entries(cells).map(([name, cell]) => [
        name,
        metricColumns.includes(name) && isUnknown(cell) ? '' : cell,
      ]),
    )
  const price = typeof given.price === 'string' ? given.price : 'price per hour'
  const columns = typeof given.price === 'string' ? {} : { [price]: given.price }
  const placed = table.rows.map(
    ({ where, cells }): PlacedRow => ({ where, cells: { ...withoutUnknown(cells), ...columns } }),
  )
  const ambiguous = given.parameters.flatMap((p) =>
    p.kind === undefined && p.values === undefined ? findMixedCells(p.name, placed) : [],
  )
  if (ambiguous.length > 0) throw new TableError([...ragged, ...ambiguous])
  const task: ReplayTask = {
    ...given,
    price,
    parameters: given.parameters.map((p) => completeParameter(p, placed)),
  }
  const unused = table.columns.filter((column) => !listColumns(task).includes(column))
  const recording = buildRecording(source.file, task, placed, ragged)
  return {
    ...recording,
    notes: [
      ...table.notes,
      ...task.parameters.flatMap((p) => noteUnits(source.file, p)),
      ...(unused.length > 0
        ? [`${source.file}: columns that the task does not mention: ${unused.join(', ')}`]
        : []),
      ...recording.notes,
    ],
  }
}

/**
 * Cells that are not numbers in a column where most are. One typing error would turn the parameter
 * into a categorical one.
 */
function findMixedCells(name: string, rows: readonly PlacedRow[]): Problem[] {
  const cells = rows.flatMap(({ where, cells: row }) =>
    row[name] === undefined ? [] : [{ where, text: String(row[name]) }],
  )
  const values = [...new Set(cells.map(({ text }) => text))]
  const numeric = values.filter((text) => Number.isFinite(parseCellNumber(text))).length
  if (numeric <= values.length - numeric) return []
  return cells
    .filter(({ text }) => text !== '' && Number.isNaN(parseCellNumber(text)))
    .map(({ where, text }, i) => ({
      where,
      what: `${name} is '${text}', but most of its values are numbers`,
      ...(i === 0
        ? { hint: `if that is intended, set kind: categorical for ${name} in the task` }
        : {}),
    }))
}

/** A note on values that are numbers with a unit. */
function noteUnits(file: string, { name, kind, values }: ReplayParameter): string[] {
  if (
    kind === 'ordinal' ||
    values.length < 2 ||
    !values.every((value) => /^[\d.,_]+ ?[A-Za-zµ%]+$/.test(value))
  )
    return []
  return [
    `${file}: ${name} has text values (${joinFirst(values, ', ')}): write numbers without a unit, so that the search can use their order`,
  ]
}

/** Completes a parameter: kind and values that the task leaves out come from the rows. */
function completeParameter(
  given: ReplayTaskFile['parameters'][number],
  rows: readonly PlacedRow[],
): ReplayParameter {
  const { name, kind, values, features, concurrency } = given
  const shown =
    values ??
    [...new Set(rows.map(({ cells }) => String(cells[name] ?? '')))].filter((value) => value !== '')
  const ordinal =
    kind === undefined
      ? shown.every((v) => Number.isFinite(parseCellNumber(v)))
      : kind === 'ordinal'
  if (ordinal) {
    const numbers = [...new Set(shown.map(parseCellNumber))]
      .filter((v) => Number.isFinite(v))
      .sort((a, b) => a - b)
    return {
      name,
      kind: 'ordinal',
      values: numbers,
      ...(concurrency === undefined ? {} : { concurrency }),
    }
  }
  const names = shown.map(String)
  const known = features ?? computeGpuFeatures(names)
  return { name, kind: 'categorical', values: names, ...(known ? { features: known } : {}) }
}

/**
 * Validates the rows for a replay, leaves out those without measurements, and merges repeats.
 * @param file place of problems of the whole table
 * @param wrong problems already found
 * @throws TableError with all problems
 */
export function buildRecording(
  file: string,
  task: ReplayTask,
  placed: readonly PlacedRow[],
  wrong: readonly Problem[] = [],
): Recording {
  const cellsOf = (rows: readonly PlacedRow[]) => rows.map(({ cells }) => cells)
  const empty = new Map(
    placed
      .map((row) => [row, findMissingMeasurements(task, row.cells)] as const)
      .filter(([, missing]) => missing.length > 0),
  )
  const columns = listColumns(task).every((column) => column in placed[0]!.cells)
  const measured = columns ? placed.filter((row) => !empty.has(row)) : placed
  const where = ({ row }: RowFault) => (row === undefined ? file : measured[row]!.where)
  const faults = findRowFaults(task, cellsOf(measured)).map((fault) => ({
    where: where(fault),
    what: fault.message,
  }))
  const all = [...wrong, ...findTaskFaults(file, task), ...(measured.length === 0 ? [] : faults)]
  if (all.length > 0) throw new TableError(all)
  if (measured.length === 0)
    throw new TableError([
      {
        where: file,
        what: `no row has a value of ${[...new Set([...empty.values()].flat())].join(' and ')}`,
      },
    ])
  const { rows, averaged, contradictions } = mergeRepeats(task, cellsOf(measured))
  const places = (indices: readonly number[]) =>
    joinFirst(
      indices.map((i) => measured[i]!.where),
      ' and ',
    )
  return {
    task,
    rows,
    notes: [
      ...noteFirst(
        [...empty],
        ([row, missing]) =>
          `${row.where}: left out, because it has no ${missing.join(' and no ')}; use an infeasibleColumn to mark configurations that could not serve`,
      ),
      ...(averaged.length > 0
        ? [
            `${averaged.length} configurations appear in several rows and are averaged, for example ${places(averaged[0]!)}`,
          ]
        : []),
      ...noteFirst(
        contradictions,
        ({ rows: of, message }) =>
          `${places(of)} contradict each other: ${message}; the worse value counts`,
      ),
    ],
  }
}

/** Contradictions within the task. */
function findTaskFaults(file: string, task: ReplayTask): Problem[] {
  const read = [task.constraint.metric, resolveRateColumn(task), task.infeasibleColumn]
  const misused = task.parameters.filter(({ name }) => read.includes(name))
  const both = misused.map(({ name }) => ({
    where: file,
    what: `${name} is a parameter, and ${name === task.infeasibleColumn ? 'the infeasibleColumn' : 'measured'}`,
    hint: 'a parameter must be set before the measurement: use another column',
  }))
  return [...both, ...task.parameters.flatMap((p) => findValueFaults(file, p))]
}

function findValueFaults(file: string, p: ReplayParameter): Problem[] {
  if (p.kind !== 'categorical') return []
  const features = p.features
  const without = features ? p.values.filter((value) => !Object.hasOwn(features, value)) : []
  const widths = new Set(p.values.map((value) => features?.[value]?.length))
  return [
    ...(p.values.length > maxValues
      ? [
          {
            where: file,
            what: `${p.name} has ${p.values.length} values, more than the maximum of ${maxValues}`,
            hint: 'do not use an identifier as a parameter',
          },
        ]
      : []),
    ...(without.length > 0
      ? [{ where: file, what: `${p.name} has no features for ${joinFirst(without, ', ')}` }]
      : []),
    ...(without.length === 0 && widths.size > 1
      ? [{ where: file, what: `${p.name} has more features for some values than for others` }]
      : []),
  ]
}

const joinFirst = (words: readonly string[], between: string): string =>
  words.length > maxShown
    ? `${words.slice(0, maxShown).join(between)} and ${words.length - maxShown} more`
    : words.join(between)

/** Notes on the first items, and the number of further ones. */
function noteFirst<T>(all: readonly T[], note: (one: T) => string): string[] {
  const left = all.length - maxShown
  return [...all.slice(0, maxShown).map(note), ...(left > 0 ? [`${left} more like these`] : [])]
}
