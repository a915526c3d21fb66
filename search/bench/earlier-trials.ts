import { createSampler } from '../index.ts'
import { createRecordedTable } from '../replay/table.ts'
import type { Observation, Rng } from '../types.ts'
import type { BenchTask } from './recorded-tables.ts'

/** Trials of the earlier experiment. */
const earlierTrialCount = 20

/**
 * Noisy space-filling trials of an earlier experiment, on the same table under another limit. Empty
 * where the table has one limit. The gain from them is an upper bound, because a table's rates do
 * not depend on the limit.
 */
export function replayEarlierTrials(
  task: BenchTask,
  tasks: readonly BenchTask[],
  rng: Rng,
): Observation[] {
  const other = tasks.find((t) => t.table === task.table && t.task.name !== task.task.name)
  if (other === undefined) return []
  const { problem, measure } = createRecordedTable(other.task, other.rows)
  const observations: Observation[] = []
  while (observations.length < earlierTrialCount) {
    const suggestion = createSampler('halton').suggest(problem, observations, [], rng)
    if (!suggestion) break
    observations.push(measure(suggestion.configuration, rng.fork(`noise ${observations.length}`)))
  }
  return observations
}
