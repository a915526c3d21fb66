import { observedLogCost } from './observed-cost.ts'
import { configurationKey } from './space.ts'
import { assessStop } from './stopping.ts'
import type { Configuration, Observation, Parameter, Problem, Rng, Sampler, StopAssessment } from './types.ts'

/** A search task on a table of recorded measurements. */
export interface ReplayTask {
  readonly name: string
  readonly parameters: readonly ReplayParameter[]
  /** Column of the price per hour. */
  readonly price: string
  readonly objective: 'price' | 'pricePerRequest'
  /** Column of the constrained metric, and its limit. */
  readonly constraint: { readonly metric: string; readonly max: number }
  /** Column that is 1 where a configuration could not serve. */
  readonly infeasibleColumn?: string | null
  /** Column of the served rate per second where the objective needs one; 'throughputRps' unless said. */
  readonly rate?: string
  /** Lognormal sigma of the noise to draw on every measurement; none unless said. */
  readonly relativeNoise?: number
  readonly source?: string
}
export type ReplayParameter =
  | {
      readonly name: string
      readonly kind: 'ordinal'
      readonly values: readonly number[]
      /** How many requests are served at once; by its name unless said. */
      readonly concurrency?: boolean
    }
  | {
      readonly name: string
      readonly kind: 'categorical'
      readonly values: readonly string[]
      readonly features?: Readonly<Record<string, readonly number[]>>
    }

/** A recorded row: column → text or number, an empty text where nothing was measured. */
export type ReplayRow = Readonly<Record<string, string | number>>

export interface RecordedTable {
  readonly problem: Problem
  /** The recorded configurations, in the order of the rows. */
  readonly configurations: readonly Configuration[]
  /** What a trial of a recorded configuration finds; with an rng and a task with relativeNoise, noise is drawn. */
  measure(configuration: Configuration, rng?: Rng): Observation
}

/**
 * A task and its rows as a problem whose trials are look-ups.
 * @throws Error naming every column that is missing and every cell that is not a number, at once.
 */
export function recordedTable(task: ReplayTask, rows: readonly ReplayRow[]): RecordedTable {
  const rateColumn = task.objective === 'price' ? undefined : (task.rate ?? 'throughputRps')
  const faults = tableFaults(task, rows, rateColumn)
  if (faults.length > 0) throw new Error(`table of ${task.name}: ${faults.join('; ')}`)
  const recorded = new Map<string, ReplayRow>()
  const configurations = rows.map((row) => {
    const entries = task.parameters.map(({ name, kind }) => [name, kind === 'ordinal' ? Number(row[name]) : String(row[name])] as const)
    const configuration: Configuration = Object.fromEntries(entries)
    recorded.set(configurationKey(configuration), row)
    return configuration
  })
  const rowOf = (configuration: Configuration): ReplayRow => {
    const row = recorded.get(configurationKey(configuration))
    if (!row) {
      const words = Object.entries(configuration).map(([name, value]) => `${name}=${value}`)
      throw new Error(`table of ${task.name} has no row for ${words.join(' ')}`)
    }
    return row
  }
  const noise = task.relativeNoise ?? 0
  return {
    configurations,
    problem: {
      space: {
        parameters: task.parameters.map(parameterOf),
        constraints: [{ text: 'recorded in the table', holds: (c) => recorded.has(configurationKey(c)) }],
      },
      objective: { kind: task.objective === 'price' ? 'price' : 'price-per-request' },
      pricePerHour: (configuration) => Number(rowOf(configuration)[task.price]),
      constraintLimit: task.constraint.max,
      constraintAtRate: rateColumn !== undefined,
    },
    measure(configuration, rng) {
      const row = rowOf(configuration)
      if (task.infeasibleColumn && Number(row[task.infeasibleColumn]) === 1)
        return { configuration, state: 'infeasible', reason: 'recorded as infeasible' }
      const estimate = (column: string) => ({
        value: Number(row[column]) * (rng && noise > 0 ? Math.exp(noise * rng.normal()) : 1),
        ...(noise > 0 ? { logSd: noise } : {}),
      })
      const constraint = estimate(task.constraint.metric)
      return rateColumn === undefined
        ? { configuration, state: 'complete', constraint }
        : { configuration, state: 'complete', rate: estimate(rateColumn), constraint }
    },
  }
}

/** Names by which serving systems call what sets how many requests are served at once. */
const CONCURRENCY = /^(max[-_]?)?(batch([-_]?size)?|num[-_]?seqs|concurrency|processes|instances|instance[-_]?count|workers)$/i

const parameterOf = (parameter: ReplayParameter): Parameter =>
  parameter.kind === 'categorical'
    ? { ...parameter, category: 'server' }
    : {
        ...parameter,
        category: 'server',
        scale: parameter.values.every((v) => v > 0) ? 'log' : 'linear',
        concurrency: parameter.concurrency ?? CONCURRENCY.test(parameter.name),
      }

function tableFaults(task: ReplayTask, rows: readonly ReplayRow[], rateColumn: string | undefined): string[] {
  if (rows.length === 0) return ['it has no rows']
  const always = [...task.parameters.filter((p) => p.kind === 'ordinal').map((p) => p.name), task.price]
  const measured = [task.constraint.metric, ...(rateColumn ? [rateColumn] : [])]
  const marks = task.infeasibleColumn ? [task.infeasibleColumn] : []
  const columns = new Set(rows.flatMap((row) => Object.keys(row)))
  const needed = [...task.parameters.map((p) => p.name), task.price, ...measured, ...marks]
  const missing = needed.filter((column) => !columns.has(column))
  if (missing.length > 0) return missing.map((column) => `no column '${column}' (it has ${[...columns].join(', ')})`)
  const isNumber = (cell: string | number | undefined) => cell !== undefined && String(cell).trim() !== '' && Number.isFinite(Number(cell))
  return rows.flatMap((row, i) => {
    const infeasible = marks.some((column) => Number(row[column]) === 1)
    const wanted = infeasible ? always : [...always, ...measured]
    return wanted
      .filter((column) => !isNumber(row[column]))
      .map((column) => `row ${i + 1}: ${column} is '${row[column] ?? ''}', not a number`)
  })
}

/** True ln cost of every recorded configuration, Infinity where it is infeasible. */
export const trueLogCosts = (table: RecordedTable): Map<string, number> =>
  new Map(table.configurations.map((c) => [configurationKey(c), observedLogCost(table.problem, table.measure(c))]))

interface ReplayOptions {
  readonly maxTrials: number
  /** Draw the task's noise on each look-up. */
  readonly noisy?: boolean
  /** Ends the replay when the stop rule says so ('obey'), or asks it until it first does ('assess'). */
  readonly stop?: 'obey' | 'assess' | 'never'
  /** Called after each trial; true ends the replay. */
  readonly until?: (observations: readonly Observation[]) => boolean
}
interface Replay {
  readonly observations: readonly Observation[]
  /** One for each trial where the stop rule was asked. */
  readonly assessments: readonly StopAssessment[]
}

/** Runs a sampler against a table: every suggestion is looked up instead of measured. */
export function replay(table: RecordedTable, sampler: Sampler, rng: Rng, options: ReplayOptions): Replay {
  const { maxTrials, noisy = false, stop = 'obey', until } = options
  const observations: Observation[] = []
  const assessments: StopAssessment[] = []
  while (observations.length < maxTrials) {
    const suggestion = sampler.suggest(table.problem, observations, [], rng)
    if (!suggestion) break
    observations.push(table.measure(suggestion.configuration, noisy ? rng.fork(`noise ${observations.length}`) : undefined))
    if (stop !== 'never' && !assessments.at(-1)?.stop) {
      const assessment = assessStop(table.problem, observations, rng)
      assessments.push(assessment)
      if (stop === 'obey' && assessment.stop) break
    }
    if (until?.(observations)) break
  }
  return { observations, assessments }
}
