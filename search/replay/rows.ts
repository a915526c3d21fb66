/** What is wrong with recorded rows, and what rows of one configuration say together. */
import { learnsOf } from '../objective.ts'
import { configurationKey } from '../space/space.ts'
import type { Configuration } from '../types.ts'
import { type ReplayRow, type ReplayTask, taskObjectives } from './task.ts'

/** What is wrong with a row, by its index; of the table as a whole where there is none. */
export interface RowFault {
  readonly row?: number
  readonly what: string
}

/** The columns that a task speaks of, its parameters apart. */
interface TaskColumns {
  readonly price: string
  /** Constrained metric, and the rate where the objective needs one. */
  readonly measured: readonly string[]
  readonly infeasible: string | undefined
}

export const rateColumn = ({ objective, rate }: ReplayTask): string | undefined =>
  learnsOf(taskObjectives[objective].objective) === 'rate' ? (rate ?? 'throughputRps') : undefined

function columnsOf(task: ReplayTask): TaskColumns {
  const rate = rateColumn(task)
  return {
    price: task.price,
    measured: [task.constraint.metric, ...(rate ? [rate] : [])],
    infeasible: task.infeasibleColumn ?? undefined,
  }
}

/** Every column that a task names. */
export function namedColumns(task: ReplayTask): string[] {
  const { price, measured, infeasible } = columnsOf(task)
  return [
    ...new Set([
      ...task.parameters.map((p) => p.name),
      price,
      ...measured,
      ...(infeasible ? [infeasible] : []),
    ]),
  ]
}

const decimal = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i

/** As a number; NaN for an empty cell and for what is no finite decimal number. */
export function cellNumber(cell: string | number | undefined): number {
  const text = String(cell ?? '').trim()
  const value = decimal.test(text) ? Number(text) : Number.NaN
  return Number.isFinite(value) ? value : Number.NaN
}

/** Figures whose products and quotients are figures still. */
const SMALLEST = 1e-60
const GREATEST = 1e60

const yes = /^(1(\.0*)?|true|yes)$/i
const no = /^(0(\.0*)?|false|no|)$/i

/**
 * Whether a row says that its configuration could not serve; undefined where its mark says neither.
 */
function marked(cell: string | number | undefined): boolean | undefined {
  const text = String(cell ?? '').trim()
  return yes.test(text) ? true : no.test(text) ? false : undefined
}

export const isInfeasible = (task: ReplayTask, row: ReplayRow): boolean =>
  task.infeasibleColumn ? marked(row[task.infeasibleColumn]) === true : false

/** Columns in which a row that says that its configuration could serve has no reading. */
export const missingReadings = (task: ReplayTask, row: ReplayRow): string[] =>
  task.infeasibleColumn && marked(row[task.infeasibleColumn]) !== false
    ? []
    : columnsOf(task).measured.filter((column) => isEmpty(row[column]))

const isEmpty = (cell: string | number | undefined): boolean => String(cell ?? '').trim() === ''

/**
 * Everything that is wrong with rows: columns that are missing, and cells that do not say what
 * their column should.
 */
export function rowFaults(task: ReplayTask, rows: readonly ReplayRow[]): RowFault[] {
  if (rows.length === 0) return [{ what: 'it has no rows' }]
  const columns = Object.keys(rows[0]!)
  const missing = namedColumns(task).filter((column) => !columns.includes(column))
  if (missing.length > 0)
    return missing.map((column) => ({
      what: `no column '${column}' (it has ${columns.join(', ')})`,
    }))
  const check = checkOf(task)
  return rows.flatMap((row, i) => check(row).map((what) => ({ row: i, what })))
}

function checkOf(task: ReplayTask): (row: ReplayRow) => string[] {
  const { price, infeasible, measured } = columnsOf(task)
  const [metric, rate] = measured
  const known = new Map(
    task.parameters.map(({ name, values }) => [name, new Set<string | number>(values)]),
  )
  return (row) => {
    const faults = task.parameters.flatMap(({ name, kind, values }) => {
      if (isEmpty(row[name]) && !known.get(name)!.has(''))
        return [`${name} is empty: each row says what was chosen`]
      if (kind === 'ordinal' && Number.isNaN(cellNumber(row[name]))) return notANumber(name, row)
      if (kind === 'ordinal' && Math.abs(cellNumber(row[name])) > GREATEST)
        return [`${name} is ${row[name]}: ${beyond}`]
      if (known.get(name)!.has(kind === 'ordinal' ? cellNumber(row[name]) : String(row[name])))
        return []
      const listed =
        values.length > 12 ? `${values.slice(0, 12).join(', ')}, ...` : values.join(', ')
      return [`${name} is '${row[name]}', none of the task's values ${listed}`]
    })
    faults.push(...unless(price, row, (v) => v > 0, 'a price per hour is above 0'))
    const mark = infeasible ? marked(row[infeasible]) : false
    if (mark === undefined) faults.push(`${infeasible} is '${row[infeasible!]}', neither 0 nor 1`)
    if (mark === true || (mark === undefined && measured.some((column) => isEmpty(row[column]))))
      return faults
    faults.push(...unless(metric!, row, (v) => v >= 0, 'a constrained metric is not negative'))
    if (rate) faults.push(...unless(rate, row, (v) => v > 0, unserved))
    return faults
  }
}

const unserved = 'a rate is above 0; what could not serve is marked 1 in an infeasibleColumn'

function unless(
  column: string,
  row: ReplayRow,
  holds: (value: number) => boolean,
  rule: string,
): string[] {
  const value = cellNumber(row[column])
  if (Number.isNaN(value)) return notANumber(column, row)
  if (!holds(value)) return [`${column} is ${row[column]}: ${rule}`]
  return value > GREATEST || (value < SMALLEST && !holds(0))
    ? [`${column} is ${row[column]}: ${beyond}`]
    : []
}

const beyond = `figures lie between ${SMALLEST} and ${GREATEST}`

const notANumber = (column: string, row: ReplayRow): string[] => [
  `${column} is '${row[column] ?? ''}', not a number`,
]

/** The configuration that a row is of. */
export const configurationOf = ({ parameters }: ReplayTask, row: ReplayRow): Configuration =>
  Object.fromEntries(
    parameters.map(({ name, kind }) => [
      name,
      kind === 'ordinal' ? Number(row[name]) : String(row[name]),
    ]),
  )

/**
 * Rows of one configuration, by index, that say what no noise explains; the worse of what they say
 * counts.
 */
interface Contradiction {
  readonly rows: readonly number[]
  readonly what: string
}
interface Merged {
  /** One row a configuration. */
  readonly rows: readonly ReplayRow[]
  /** Rows that repeat a configuration, by index, averaged into one. */
  readonly averaged: readonly (readonly number[])[]
  readonly contradictions: readonly Contradiction[]
}

/** Standard deviation of ln(reading) that repeats are taken to have where the task does not say. */
const REPEAT_NOISE = 0.1
/** Deviations beyond which two readings are not of the same thing. */
const APART = 3

/**
 * One row a configuration: repeats within the noise are averaged. Of repeats that differ by more
 * (three standard deviations of the difference of two readings), in whether they served, or in
 * their price, the worse counts: nothing is recommended for a reading that another one denies.
 */
export function mergeRepeats(task: ReplayTask, rows: readonly ReplayRow[]): Merged {
  const groups = new Map<string, number[]>()
  for (const [i, row] of rows.entries()) {
    const key = configurationKey(configurationOf(task, row))
    const group = groups.get(key)
    if (group) group.push(i)
    else groups.set(key, [i])
  }
  const averaged: number[][] = []
  const contradictions: Contradiction[] = []
  const merged = [...groups.values()].map((group) => {
    if (group.length === 1) return rows[group[0]!]!
    const of = group.map((i) => rows[i]!)
    const apart = differences(task, of)
    if (apart.length > 0) contradictions.push({ rows: group, what: apart.join(' and ') })
    else averaged.push(group)
    return apart.length > 0 ? worst(task, of) : mean(task, of)
  })
  return { rows: merged, averaged, contradictions }
}

const numbers = (rows: readonly ReplayRow[], column: string): number[] =>
  rows.map((row) => cellNumber(row[column]))
const least = (values: readonly number[]): number => values.reduce((a, b) => Math.min(a, b))
const greatest = (values: readonly number[]): number => values.reduce((a, b) => Math.max(a, b))

/** What the rows of a configuration disagree about, in words. */
function differences(task: ReplayTask, rows: readonly ReplayRow[]): string[] {
  const { price, measured } = columnsOf(task)
  const prices = numbers(rows, price)
  const serving = rows.filter((row) => !isInfeasible(task, row))
  const limit = Math.exp(APART * Math.SQRT2 * (task.relativeNoise || REPEAT_NOISE))
  // So little of the limit that it makes no difference.
  const floor = task.constraint.max / 10
  const readings = measured.flatMap((column) => {
    if (serving.length < 2) return []
    const values = numbers(serving, column)
    const [low, high] = [least(values), greatest(values)]
    const ratio =
      column === task.constraint.metric ? Math.max(high, floor) / Math.max(low, floor) : high / low
    return ratio > limit ? [`${column} is ${low} and ${high}`] : []
  })
  return [
    ...(greatest(prices) > least(prices) * (1 + 1e-9)
      ? [`${price} is ${least(prices)} and ${greatest(prices)}`]
      : []),
    ...(serving.length > 0 && serving.length < rows.length
      ? ['it served and could not serve']
      : []),
    ...readings,
  ]
}

function mean(task: ReplayTask, rows: readonly ReplayRow[]): ReplayRow {
  const { measured } = columnsOf(task)
  if (isInfeasible(task, rows[0]!)) return rows[0]!
  const means = measured.map(
    (column) => [column, numbers(rows, column).reduce((a, b) => a + b, 0) / rows.length] as const,
  )
  return { ...rows[0]!, ...Object.fromEntries(means) }
}

function worst(task: ReplayTask, rows: readonly ReplayRow[]): ReplayRow {
  const rate = rateColumn(task)
  const dearest = greatest(numbers(rows, task.price))
  const failed = rows.find((row) => isInfeasible(task, row))
  if (failed) return { ...failed, [task.price]: dearest }
  const { metric } = task.constraint
  return {
    ...rows[0]!,
    [task.price]: dearest,
    [metric]: greatest(numbers(rows, metric)),
    ...(rate ? { [rate]: least(numbers(rows, rate)) } : {}),
  }
}
