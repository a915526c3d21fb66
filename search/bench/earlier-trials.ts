import { createSampler } from '../index.ts'
import { recordedTable } from '../replay/table.ts'
import type { Observation, Rng } from '../types.ts'
import type { BenchTask } from './recorded-tables.ts'

/** Trials that a store holds of an earlier experiment. */
const earlierTrials = 20

/**
 * Noisy trials of an earlier experiment on the same table under another limit, chosen to fill the
 * space; none where the table has one limit. An upper bound of what earlier trials bring: a table's
 * rates are the same at any limit.
 */
export function replayEarlierTrials(
  task: BenchTask,
  tasks: readonly BenchTask[],
  rng: Rng,
): Observation[] {
  const other = tasks.find((t) => t.table === task.table && t.task.name !== task.task.name)
  if (other === undefined) return []
  const { problem, measure } = recordedTable(other.task, other.rows)
  const observations: Observation[] = []
  while (observations.length < earlierTrials) {
    const suggestion = createSampler('halton').suggest(problem, observations, [], rng)
    if (!suggestion) break
    observations.push(measure(suggestion.configuration, rng.fork(`noise ${observations.length}`)))
  }
  return observations
}
