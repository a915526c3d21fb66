import { createSampler } from '../index.ts'
import { recordedTable } from '../replay-table.ts'
import type { PastExperiment, Rng } from '../types.ts'
import type { BenchTask } from './recorded-tables.ts'

/** What a store holds of an earlier experiment: so many trials, noise and all. */
const TRIALS = 20

/**
 * An earlier experiment on every other table of the family, found by the default sampler; another
 * limit on the same table would give the answer away.
 */
export function historyOf(
  task: BenchTask,
  tasks: readonly BenchTask[],
  rng: Rng,
): PastExperiment[] {
  const others = new Map(
    tasks
      .filter((t) => t.family === task.family && t.table !== task.table)
      .map((t) => [t.table, t]),
  )
  return [...others.values()].map((other) => {
    const { problem, measure } = recordedTable(other.task, other.rows)
    const own = rng.fork(other.table)
    const observations: ReturnType<typeof measure>[] = []
    while (observations.length < TRIALS) {
      const suggestion = createSampler('halton').suggest(problem, observations, [], own)
      if (!suggestion) break
      observations.push(measure(suggestion.configuration, own.fork(`noise ${observations.length}`)))
    }
    return {
      name: other.table,
      space: problem.space,
      observations,
      pricePerHour: problem.pricePerHour,
      constraintLimit: problem.constraintLimit,
    }
  })
}
