import { observedLogCost } from '../observed-cost.ts'
import { configurationKey } from '../space/space.ts'
import { type RoundOptions, type Searched, searchRounds } from '../stopping/search-loop.ts'
import type { Configuration, Observation, Parameter, Problem, Rng, Sampler } from '../types.ts'
import { configurationOf, isInfeasible, rateColumn, rowFaults } from './rows.ts'
import { type ReplayParameter, type ReplayRow, type ReplayTask, taskObjectives } from './task.ts'

export interface RecordedTable {
  readonly problem: Problem
  /** The recorded configurations, as a grid lists them. */
  readonly configurations: readonly Configuration[]
  /**
   * What a trial of a recorded configuration finds; with an rng and a task with relativeNoise,
   * noise is drawn.
   */
  measure(configuration: Configuration, rng?: Rng): Observation
}

/**
 * A task and its rows, one a configuration, as a problem whose trials are look-ups and whose
 * configurations are the recorded ones alone.
 * @throws Error naming every fault of the rows at once, the first row being row 1.
 */
export function recordedTable(task: ReplayTask, rows: readonly ReplayRow[]): RecordedTable {
  const faults = rowFaults(task, rows)
  if (faults.length > 0) {
    const words = faults.map(({ row, what }) =>
      row === undefined ? what : `row ${row + 1}: ${what}`,
    )
    throw new Error(`table of ${task.name}: ${words.join('; ')}`)
  }
  const rate = rateColumn(task)
  const recorded = new Map(rows.map((row) => [configurationKey(configurationOf(task, row)), row]))
  const configurations = inGridOrder(task, [...recorded.values()])
  const listed = new Map(configurations.map((c) => [c, recorded.get(configurationKey(c))!]))
  // Those that are listed are asked for by the thousand, again and again.
  const found = (configuration: Configuration) =>
    listed.get(configuration) ?? recorded.get(configurationKey(configuration))
  const rowOf = (configuration: Configuration): ReplayRow => {
    const row = found(configuration)
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
        constraints: [{ text: 'recorded in the table', holds: (c) => found(c) !== undefined }],
        listed: configurations,
      },
      objective: taskObjectives[task.objective].objective,
      pricePerHour: (configuration) => Number(rowOf(configuration)[task.price]),
      constraintLimit: task.constraint.max,
      constraintAtRate: rate !== undefined,
    },
    measure(configuration, rng) {
      const row = rowOf(configuration)
      if (isInfeasible(task, row))
        return { configuration, state: 'infeasible', reason: 'recorded as infeasible' }
      const estimate = (column: string) => ({
        value: Number(row[column]) * (rng && noise > 0 ? Math.exp(noise * rng.normal()) : 1),
        ...(noise > 0 ? { logSd: noise } : {}),
      })
      const constraint = estimate(task.constraint.metric)
      return rate === undefined
        ? { configuration, state: 'complete', constraint }
        : { configuration, state: 'complete', rate: estimate(rate), constraint }
    },
  }
}

/**
 * The recorded configurations as a grid lists them, the last parameter varying fastest, so that a
 * full table is searched like any grid.
 */
function inGridOrder(task: ReplayTask, rows: readonly ReplayRow[]): Configuration[] {
  const places = task.parameters.map(({ name, values }) => ({
    name,
    at: new Map<string | number, number>(values.map((v, i) => [v, i])),
  }))
  return rows
    .map((row) => {
      const configuration = configurationOf(task, row)
      return { configuration, place: places.map(({ name, at }) => at.get(configuration[name]!)!) }
    })
    .sort(
      (a, b) => a.place.map((p, i) => p - b.place[i]!).find((difference) => difference !== 0) ?? 0,
    )
    .map(({ configuration }) => configuration)
}

/** Names by which serving systems call what sets how many requests are served at once. */
const CONCURRENCY =
  /^(max[-_]?)?(batch([-_]?size)?|num[-_]?seqs|concurrency|processes|instances|instance[-_]?count|workers)$/i

const parameterOf = (parameter: ReplayParameter): Parameter =>
  parameter.kind === 'categorical'
    ? { ...parameter, category: 'server' }
    : {
        ...parameter,
        category: 'server',
        scale: parameter.values.every((v) => v > 0) ? 'log' : 'linear',
        concurrency: parameter.concurrency ?? CONCURRENCY.test(parameter.name),
      }

/** True ln cost of every recorded configuration, Infinity where it is infeasible. */
export const trueLogCosts = (table: RecordedTable): Map<string, number> =>
  new Map(
    table.configurations.map((c) => [
      configurationKey(c),
      observedLogCost(table.problem, table.measure(c)),
    ]),
  )

interface ReplayOptions extends RoundOptions {
  /** Draw the task's noise on each look-up. */
  readonly noisy?: boolean
}

/** Runs a sampler against a table: every suggestion is looked up instead of measured. */
export function replay(
  table: RecordedTable,
  sampler: Sampler,
  rng: Rng,
  { noisy = false, ...options }: ReplayOptions,
): Searched {
  const rounds = searchRounds(table.problem, sampler, rng, options)
  let step = rounds.next()
  for (let trial = 0; !step.done; trial++)
    step = rounds.next(
      table.measure(step.value.configuration, noisy ? rng.fork(`noise ${trial}`) : undefined),
    )
  return step.value
}
