import { observedLogCost } from './observed-cost.ts'
import type { Observation, Problem } from './types.ts'

/** Trials in a row that brought nothing, after which the model is not to be trusted alone. */
const PATIENCE = 4

/** How many of the last trials brought nothing better. */
export function trialsWithoutGain(problem: Problem, observations: readonly Observation[]): number {
  let best = Infinity
  let since = 0
  for (const observation of observations) {
    const cost = observedLogCost(problem, observation)
    since = cost < best ? 0 : since + 1
    best = Math.min(best, cost)
  }
  return since
}

/** Whether this choice should look further than the model does: every second one once four trials have brought nothing. */
export const isStuck = (problem: Problem, observations: readonly Observation[]): boolean =>
  observations.length % 2 === 0 && trialsWithoutGain(problem, observations) >= PATIENCE
