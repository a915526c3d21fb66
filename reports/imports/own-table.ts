/** A recorded table of the user's own, by the task that says what its columns mean. */
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
import { gpuFeatures } from '../../trials/devices/features.ts'
import {
  isUnknown,
  type Problem,
  readEvenRows,
  type Source,
  TableError,
} from '../../trials/table-text.ts'
import type { GivenTask } from './replay-task-schema.ts'

/**
 * What a replay needs: a task, rows that are fit for it, one a configuration, and what was done to
 * them, for people.
 */
export interface Recording {
  readonly task: ReplayTask
  readonly rows: readonly ReplayRow[]
  readonly notes: readonly string[]
}

/** A row as a replay reads it, and where it stands: 'runs.csv:12'. */
export interface PlacedRow {
  readonly where: string
  readonly cells: ReplayRow
}

/**
 * More configurations than this are searched from a sample, which a recorded table has no use for.
 */
const MOST_ROWS = 100_000
/**
 * Each name is a column of the model; more are identifiers rather than the choices of a parameter.
 */
const MOST_NAMES = 500
const SHOWN = 5

/** Throws TableError naming every row that is wrong, with its line. */
export function readOwnTable(given: GivenTask, source: Source): Recording {
  const { table, ragged } = readEvenRows(source)
  if (table.rows.length > MOST_ROWS)
    throw new TableError([
      {
        where: source.file,
        what: `${table.rows.length} rows; a replay reads at most ${MOST_ROWS.toLocaleString('en-US')}`,
      },
    ])
  const readings = [given.constraint.metric, resolveRateColumn(given as ReplayTask)]
  const withoutUnknown = (cells: Readonly<Record<string, string>>) =>
    Object.fromEntries(
      Object.entries(cells).map(([name, cell]) => [
        name,
        readings.includes(name) && isUnknown(cell) ? '' : cell,
      ]),
    )
  const price = typeof given.price === 'string' ? given.price : 'price per hour'
  const columns = typeof given.price === 'string' ? {} : { [price]: given.price }
  const placed = table.rows.map(
    ({ where, cells }): PlacedRow => ({ where, cells: { ...withoutUnknown(cells), ...columns } }),
  )
  const ambiguous = given.parameters.flatMap((p) =>
    p.kind === undefined && p.values === undefined ? mixed(p.name, placed) : [],
  )
  if (ambiguous.length > 0) throw new TableError([...ragged, ...ambiguous])
  const task: ReplayTask = {
    ...given,
    price,
    parameters: given.parameters.map((p) => completed(p, placed)),
  }
  const unused = table.columns.filter((column) => !listColumns(task).includes(column))
  const recording = recordingOf(source.file, task, placed, ragged)
  return {
    ...recording,
    notes: [
      ...table.notes,
      ...task.parameters.flatMap((p) => withUnits(source.file, p)),
      ...(unused.length > 0
        ? [`${source.file}: columns that the task does not mention: ${unused.join(', ')}`]
        : []),
      ...recording.notes,
    ],
  }
}

/**
 * Cells of a parameter that are no numbers, or empty, where most of its values are numbers: a slip
 * would make names of all.
 */
function mixed(name: string, rows: readonly PlacedRow[]): Problem[] {
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

/** What is told of names that are numbers with a unit. */
function withUnits(file: string, { name, kind, values }: ReplayParameter): string[] {
  if (
    kind === 'ordinal' ||
    values.length < 2 ||
    !values.every((value) => /^[\d.,_]+ ?[A-Za-zµ%]+$/.test(value))
  )
    return []
  return [
    `${file}: ${name} has text values (${some(values, ', ')}): write numbers without a unit, so that the search can use their order`,
  ]
}

/** With the kind and values that the rows show, where the task does not say. */
function completed(
  given: GivenTask['parameters'][number],
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
  const known = features ?? gpuFeatures(names)
  return { name, kind: 'categorical', values: names, ...(known ? { features: known } : {}) }
}

/**
 * Rows made fit for a replay: every fault told with its place, rows without readings left out,
 * repeats made one.
 * @param file for what is wrong with the table as a whole
 * @param wrong what is known to be wrong beside those rows
 */
export function recordingOf(
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
  const all = [...wrong, ...taskFaults(file, task), ...(measured.length === 0 ? [] : faults)]
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
    some(
      indices.map((i) => measured[i]!.where),
      ' and ',
    )
  return {
    task,
    rows,
    notes: [
      ...counted(
        [...empty],
        ([row, missing]) =>
          `${row.where}: left out, because it has no ${missing.join(' and no ')}; use an infeasibleColumn to mark configurations that could not serve`,
      ),
      ...(averaged.length > 0
        ? [
            `${averaged.length} configurations appear in several rows and are averaged, for example ${places(averaged[0]!)}`,
          ]
        : []),
      ...counted(
        contradictions,
        ({ rows: of, message }) =>
          `${places(of)} contradict each other: ${message}; the worse value counts`,
      ),
    ],
  }
}

/** What is wrong with a task beside its table. */
function taskFaults(file: string, task: ReplayTask): Problem[] {
  const read = [task.constraint.metric, resolveRateColumn(task), task.infeasibleColumn]
  const told = task.parameters.filter(({ name }) => read.includes(name))
  const both = told.map(({ name }) => ({
    where: file,
    what: `${name} is a parameter, and ${name === task.infeasibleColumn ? 'the infeasibleColumn' : 'measured'}`,
    hint: 'a parameter must be set before the measurement: use another column',
  }))
  return [...both, ...task.parameters.flatMap((p) => nameFaults(file, p))]
}

function nameFaults(file: string, p: ReplayParameter): Problem[] {
  if (p.kind !== 'categorical') return []
  const features = p.features
  const without = features ? p.values.filter((value) => !Object.hasOwn(features, value)) : []
  const widths = new Set(p.values.map((value) => features?.[value]?.length))
  return [
    ...(p.values.length > MOST_NAMES
      ? [
          {
            where: file,
            what: `${p.name} has ${p.values.length} values, more than the maximum of ${MOST_NAMES}`,
            hint: 'do not use an identifier as a parameter',
          },
        ]
      : []),
    ...(without.length > 0
      ? [{ where: file, what: `${p.name} has no features for ${some(without, ', ')}` }]
      : []),
    ...(without.length === 0 && widths.size > 1
      ? [{ where: file, what: `${p.name} has more features for some values than for others` }]
      : []),
  ]
}

const some = (words: readonly string[], between: string): string =>
  words.length > SHOWN
    ? `${words.slice(0, SHOWN).join(between)} and ${words.length - SHOWN} more`
    : words.join(between)

/** A note each for the first few. */
function counted<T>(all: readonly T[], note: (one: T) => string): string[] {
  const left = all.length - SHOWN
  return [...all.slice(0, SHOWN).map(note), ...(left > 0 ? [`${left} more like these`] : [])]
}
