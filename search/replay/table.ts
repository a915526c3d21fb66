import { computeObservedLogCost } from '../observed-cost.ts'
import { configurationKey } from '../space/space.ts'
import {
  runSearchLoop,
  type SearchLoopOptions,
  type SearchOutcome,
} from '../stopping/search-loop.ts'
import type { Configuration, Observation, Parameter, Problem, Rng, Sampler } from '../types.ts'
import { findRowFaults, isInfeasible, readConfiguration, resolveRateColumn } from './rows.ts'
import { type ReplayParameter, type ReplayRow, type ReplayTask, taskObjectives } from './task.ts'

/** A recorded table as a problem whose trials are look-ups. */
export interface RecordedTable {
  readonly problem: Problem
  /** The recorded configurations in grid order. */
  readonly configurations: readonly Configuration[]
  /**
   * The observation of a recorded configuration. With an rng, and a task with `relativeNoise`, it
   * has simulated noise.
   * @throws Error for a configuration that is not recorded
   */
  measure(configuration: Configuration, rng?: Rng): Observation
}

/**
 * Creates the problem of a task on its rows, one for each configuration. Its space lists the
 * recorded configurations.
 * @throws Error with all faults of the rows; the first row is row 1
 */
export function createRecordedTable(task: ReplayTask, rows: readonly ReplayRow[]): RecordedTable {
  const faults = findRowFaults(task, rows)
  if (faults.length > 0) {
    const messages = faults.map(({ row, message }) =>
      row === undefined ? message : `row ${row + 1}: ${message}`,
    )
    throw new Error(`table of ${task.name}: ${messages.join('; ')}`)
  }
  const rate = resolveRateColumn(task)
  const rowsByKey = new Map(
    rows.map((row) => [configurationKey(readConfiguration(task, row)), row]),
  )
  const configurations = sortAsGrid(task, [...rowsByKey.values()])
  const rowsByObject = new Map(configurations.map((c) => [c, rowsByKey.get(configurationKey(c))!]))
  // The map by object avoids recomputing keys in thousands of look-ups.
  const findRow = (configuration: Configuration) =>
    rowsByObject.get(configuration) ?? rowsByKey.get(configurationKey(configuration))
  const getRow = (configuration: Configuration): ReplayRow => {
    const row = findRow(configuration)
    if (!row) {
      const values = Object.entries(configuration).map(([name, value]) => `${name}=${value}`)
      throw new Error(`table of ${task.name} has no row for ${values.join(' ')}`)
    }
    return row
  }
  const noiseSd = task.relativeNoise ?? 0
  return {
    configurations,
    problem: {
      space: {
        parameters: task.parameters.map(createParameter),
        constraints: [{ text: 'recorded in the table', holds: (c) => findRow(c) !== undefined }],
        listed: configurations,
      },
      objective: taskObjectives[task.objective].objective,
      pricePerHour: (configuration) => Number(getRow(configuration)[task.price]),
      constraintLimit: task.constraint.max,
      // With a rate, the table records the constrained metric at that rate.
      constraintAtRate: rate !== undefined,
    },
    measure(configuration, rng) {
      const row = getRow(configuration)
      if (isInfeasible(task, row))
        return { configuration, state: 'infeasible', reason: 'recorded as infeasible' }
      const estimate = (column: string) => ({
        value: Number(row[column]) * (rng && noiseSd > 0 ? Math.exp(noiseSd * rng.normal()) : 1),
        ...(noiseSd > 0 ? { logSd: noiseSd } : {}),
      })
      const constraint = estimate(task.constraint.metric)
      return rate === undefined
        ? { configuration, state: 'complete', constraint }
        : { configuration, state: 'complete', rate: estimate(rate), constraint }
    },
  }
}

/**
 * The recorded configurations in grid order, the last parameter varying fastest, so that a complete
 * table is searched like a grid.
 */
function sortAsGrid(task: ReplayTask, rows: readonly ReplayRow[]): Configuration[] {
  const positions = task.parameters.map(({ name, values }) => ({
    name,
    at: new Map<string | number, number>(values.map((v, i) => [v, i])),
  }))
  return rows
    .map((row) => {
      const configuration = readConfiguration(task, row)
      return {
        configuration,
        position: positions.map(({ name, at }) => at.get(configuration[name]!)!),
      }
    })
    .sort(
      (a, b) =>
        a.position.map((p, i) => p - b.position[i]!).find((difference) => difference !== 0) ?? 0,
    )
    .map(({ configuration }) => configuration)
}

/** Names of concurrency parameters in serving systems. */
const concurrencyPattern =
  /^(max[-_]?)?(batch([-_]?size)?|num[-_]?seqs|concurrency|processes|instances|instance[-_]?count|workers)$/i

const createParameter = (parameter: ReplayParameter): Parameter =>
  parameter.kind === 'categorical'
    ? { ...parameter, category: 'server' }
    : {
        ...parameter,
        category: 'server',
        scale: parameter.values.every((v) => v > 0) ? 'log' : 'linear',
        concurrency: parameter.concurrency ?? concurrencyPattern.test(parameter.name),
      }

/**
 * Computes the noise-free ln cost of every recorded configuration, by its key; Infinity where it is
 * infeasible.
 */
export const computeTrueLogCosts = (table: RecordedTable): Map<string, number> =>
  new Map(
    table.configurations.map((c) => [
      configurationKey(c),
      computeObservedLogCost(table.problem, table.measure(c)),
    ]),
  )

interface ReplayOptions extends SearchLoopOptions {
  /** Simulates the task's noise at each look-up. */
  readonly noisy?: boolean
}

/** Runs a sampler on a table. Each suggestion is looked up instead of measured. */
export function replaySearch(
  table: RecordedTable,
  sampler: Sampler,
  rng: Rng,
  { noisy = false, ...options }: ReplayOptions,
): SearchOutcome {
  const loop = runSearchLoop(table.problem, sampler, rng, options)
  let step = loop.next()
  for (let trial = 0; !step.done; trial++)
    step = loop.next(
      table.measure(step.value.configuration, noisy ? rng.fork(`noise ${trial}`) : undefined),
    )
  return step.value
}
