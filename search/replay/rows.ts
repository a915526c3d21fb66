/** Faults of recorded rows, and the merging of repeated rows. */
import { getModelledQuantity } from '../objective.ts'
import { configurationKey } from '../space/space.ts'
import type { Configuration } from '../types.ts'
import { type ReplayParameter, type ReplayRow, type ReplayTask, taskObjectives } from './task.ts'

/** A fault of one row, by its index, or of the table as a whole. */
export interface RowFault {
  readonly row?: number
  readonly message: string
}

/** The columns that a task names, parameters excluded. */
interface TaskColumns {
  readonly price: string
  /** The constrained metric first, then the rate where the objective needs one. */
  readonly measured: readonly string[]
  readonly infeasible: string | undefined
}

/** Resolves the column of the rate; undefined where the objective needs none. */
export const resolveRateColumn = ({ objective, rate }: ReplayTask): string | undefined =>
  getModelledQuantity(taskObjectives[objective].objective) === 'rate'
    ? (rate ?? 'throughputRps')
    : undefined

function resolveColumns(task: ReplayTask): TaskColumns {
  const rate = resolveRateColumn(task)
  return {
    price: task.price,
    measured: [task.constraint.metric, ...(rate ? [rate] : [])],
    infeasible: task.infeasibleColumn ?? undefined,
  }
}

/** Lists all columns that a task names, parameters included. */
export function listColumns(task: ReplayTask): string[] {
  const { price, measured, infeasible } = resolveColumns(task)
  return [
    ...new Set([
      ...task.parameters.map((p) => p.name),
      price,
      ...measured,
      ...(infeasible ? [infeasible] : []),
    ]),
  ]
}

const decimalPattern = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i

/** Parses the number in a cell; NaN for an empty cell or anything but a finite decimal number. */
export function parseCellNumber(cell: string | number | undefined): number {
  const text = String(cell ?? '').trim()
  const value = decimalPattern.test(text) ? Number(text) : Number.NaN
  return Number.isFinite(value) ? value : Number.NaN
}

/** Values in this range have finite products and quotients. */
const minValue = 1e-60
const maxValue = 1e60

const yesPattern = /^(1(\.0*)?|true|yes)$/i
const noPattern = /^(0(\.0*)?|false|no|)$/i

/** Whether a row is marked as infeasible; undefined for a mark that is neither yes nor no. */
function parseInfeasibleMark(cell: string | number | undefined): boolean | undefined {
  const text = String(cell ?? '').trim()
  return yesPattern.test(text) ? true : noPattern.test(text) ? false : undefined
}

export const isInfeasible = (task: ReplayTask, row: ReplayRow): boolean =>
  task.infeasibleColumn ? parseInfeasibleMark(row[task.infeasibleColumn]) === true : false

/** Finds measured columns that are empty in a row that is not marked as infeasible. */
export const findMissingMeasurements = (task: ReplayTask, row: ReplayRow): string[] =>
  task.infeasibleColumn && parseInfeasibleMark(row[task.infeasibleColumn]) !== false
    ? []
    : resolveColumns(task).measured.filter((column) => isEmpty(row[column]))

const isEmpty = (cell: string | number | undefined): boolean => String(cell ?? '').trim() === ''

/**
 * Finds all faults of the rows: missing columns, and cells that violate the rules of their column.
 */
export function findRowFaults(task: ReplayTask, rows: readonly ReplayRow[]): RowFault[] {
  if (rows.length === 0) return [{ message: 'it has no rows' }]
  const columns = Object.keys(rows[0]!)
  const missing = listColumns(task).filter((column) => !columns.includes(column))
  if (missing.length > 0)
    return missing.map((column) => ({
      message: `no column '${column}' (it has ${columns.join(', ')})`,
    }))
  const check = createRowCheck(task)
  return rows.flatMap((row, i) => check(row).map((message) => ({ row: i, message })))
}

/** Creates a function that lists the faults of one row. */
function createRowCheck(task: ReplayTask): (row: ReplayRow) => string[] {
  const { price, infeasible, measured } = resolveColumns(task)
  const [metric, rate] = measured
  const permittedValues = new Map(
    task.parameters.map(({ name, values }) => [name, new Set<string | number>(values)]),
  )
  return (row) => {
    const faults = task.parameters.flatMap((parameter) =>
      checkParameter(parameter, permittedValues.get(parameter.name)!, row),
    )
    faults.push(...checkCell(price, row, (v) => v > 0, 'a price per hour is above 0'))
    const mark = infeasible ? parseInfeasibleMark(row[infeasible]) : false
    if (mark === undefined) faults.push(`${infeasible} is '${row[infeasible!]}', neither 0 nor 1`)
    if (mark === true || (mark === undefined && measured.some((column) => isEmpty(row[column]))))
      return faults
    faults.push(...checkCell(metric!, row, (v) => v >= 0, 'a constrained metric is not negative'))
    if (rate) faults.push(...checkCell(rate, row, (v) => v > 0, rateRule))
    return faults
  }
}

/** Values of a parameter that a fault lists. */
const maxListedValues = 12

/** Returns a fault unless the cell has one of the values of its parameter. */
function checkParameter(
  { name, kind, values }: ReplayParameter,
  permitted: ReadonlySet<string | number>,
  row: ReplayRow,
): string[] {
  if (isEmpty(row[name]) && !permitted.has('')) return [`${name} is empty: each row needs a value`]
  if (kind === 'ordinal') {
    const value = parseCellNumber(row[name])
    if (Number.isNaN(value)) return describeNonNumber(name, row)
    if (Math.abs(value) > maxValue) return [`${name} is ${row[name]}: ${rangeRule}`]
    if (permitted.has(value)) return []
  } else if (permitted.has(String(row[name]))) return []
  const listed = values.slice(0, maxListedValues).join(', ')
  const others = values.length > maxListedValues ? ', ...' : ''
  return [`${name} is '${row[name]}', none of the task's values ${listed}${others}`]
}

const rateRule =
  'a rate is above 0; mark a configuration that could not serve with 1 in an infeasibleColumn'

/** Returns a fault unless the cell is a number in range that satisfies the rule. */
function checkCell(
  column: string,
  row: ReplayRow,
  holds: (value: number) => boolean,
  rule: string,
): string[] {
  const value = parseCellNumber(row[column])
  if (Number.isNaN(value)) return describeNonNumber(column, row)
  if (!holds(value)) return [`${column} is ${row[column]}: ${rule}`]
  return value > maxValue || (value < minValue && !holds(0))
    ? [`${column} is ${row[column]}: ${rangeRule}`]
    : []
}

const rangeRule = `values lie between ${minValue} and ${maxValue}`

const describeNonNumber = (column: string, row: ReplayRow): string[] => [
  `${column} is '${row[column] ?? ''}', not a number`,
]

/** Reads the configuration of a row. */
export const readConfiguration = ({ parameters }: ReplayTask, row: ReplayRow): Configuration =>
  Object.fromEntries(
    parameters.map(({ name, kind }) => [
      name,
      kind === 'ordinal' ? Number(row[name]) : String(row[name]),
    ]),
  )

/**
 * Rows of one configuration, by index, that differ by more than noise. The worst of their values is
 * used.
 */
interface Contradiction {
  readonly rows: readonly number[]
  readonly message: string
}
interface MergedRows {
  /** One row for each configuration. */
  readonly rows: readonly ReplayRow[]
  /** Groups of rows, by index, that were averaged. */
  readonly averaged: readonly (readonly number[])[]
  readonly contradictions: readonly Contradiction[]
}

/** Standard deviation of ln(measurement) of repeats, where the task states none. Assumed. */
const defaultRepeatNoise = 0.1
/**
 * Standard deviations of a difference beyond which two measurements contradict each other: one pair
 * in 370 by chance.
 */
const maxRepeatDeviations = 3
/** Differences below this share of the limit do not matter. Assumed. */
const minRelevantLimitShare = 0.1

/**
 * Merges the rows of each configuration. Repeats that agree within the noise (three standard
 * deviations of a difference) are averaged. Of contradicting repeats the worst values count: in the
 * measurements, in whether they served, or in the price.
 */
export function mergeRepeats(task: ReplayTask, rows: readonly ReplayRow[]): MergedRows {
  const groups = new Map<string, number[]>()
  for (const [i, row] of rows.entries()) {
    const key = configurationKey(readConfiguration(task, row))
    const group = groups.get(key)
    if (group) group.push(i)
    else groups.set(key, [i])
  }
  const averaged: number[][] = []
  const contradictions: Contradiction[] = []
  const mergedRows = [...groups.values()].map((group) => {
    if (group.length === 1) return rows[group[0]!]!
    const repeats = group.map((i) => rows[i]!)
    const differences = findContradictions(task, repeats)
    if (differences.length > 0)
      contradictions.push({ rows: group, message: differences.join(' and ') })
    else averaged.push(group)
    return differences.length > 0 ? takeWorst(task, repeats) : average(task, repeats)
  })
  return { rows: mergedRows, averaged, contradictions }
}

const readNumbers = (rows: readonly ReplayRow[], column: string): number[] =>
  rows.map((row) => parseCellNumber(row[column]))
const findMin = (values: readonly number[]): number => values.reduce((a, b) => Math.min(a, b))
const findMax = (values: readonly number[]): number => values.reduce((a, b) => Math.max(a, b))

/** Contradictions between the rows of one configuration, as messages. */
function findContradictions(task: ReplayTask, rows: readonly ReplayRow[]): string[] {
  const { price, measured } = resolveColumns(task)
  const prices = readNumbers(rows, price)
  const serving = rows.filter((row) => !isInfeasible(task, row))
  // Repeats agree up to this ratio.
  const maxRatio = Math.exp(
    maxRepeatDeviations * Math.SQRT2 * (task.relativeNoise || defaultRepeatNoise),
  )
  const floor = task.constraint.max * minRelevantLimitShare
  const readings = measured.flatMap((column) => {
    if (serving.length < 2) return []
    const values = readNumbers(serving, column)
    const [low, high] = [findMin(values), findMax(values)]
    const ratio =
      column === task.constraint.metric ? Math.max(high, floor) / Math.max(low, floor) : high / low
    return ratio > maxRatio ? [`${column} is ${low} and ${high}`] : []
  })
  return [
    ...(findMax(prices) > findMin(prices) * (1 + 1e-9)
      ? [`${price} is ${findMin(prices)} and ${findMax(prices)}`]
      : []),
    ...(serving.length > 0 && serving.length < rows.length
      ? ['it served and could not serve']
      : []),
    ...readings,
  ]
}

/** Returns the first row with its measurements averaged. */
function average(task: ReplayTask, rows: readonly ReplayRow[]): ReplayRow {
  const { measured } = resolveColumns(task)
  if (isInfeasible(task, rows[0]!)) return rows[0]!
  const means = measured.map(
    (column) =>
      [column, readNumbers(rows, column).reduce((a, b) => a + b, 0) / rows.length] as const,
  )
  return { ...rows[0]!, ...Object.fromEntries(means) }
}

/**
 * Returns the first row (or an infeasible one) with the highest price and metric, and the lowest
 * rate.
 */
function takeWorst(task: ReplayTask, rows: readonly ReplayRow[]): ReplayRow {
  const rate = resolveRateColumn(task)
  const dearest = findMax(readNumbers(rows, task.price))
  const infeasibleRow = rows.find((row) => isInfeasible(task, row))
  if (infeasibleRow) return { ...infeasibleRow, [task.price]: dearest }
  const { metric } = task.constraint
  return {
    ...rows[0]!,
    [task.price]: dearest,
    [metric]: findMax(readNumbers(rows, metric)),
    ...(rate ? { [rate]: findMin(readNumbers(rows, rate)) } : {}),
  }
}
