/** What was computed before is not computed again. Keys are objects, and stay as they were. */
import type { Observation, Problem } from './types.ts'

/** `compute`, its values (but undefined) remembered for as long as their keys live. */
export function remembered<K extends object, V>(compute: (key: K) => V): (key: K) => V {
  const memory = new WeakMap<K, V>()
  return (key) => {
    const known = memory.get(key)
    if (known !== undefined) return known
    const value = compute(key)
    memory.set(key, value)
    return value
  }
}

/**
 * Remembers what was last computed of a problem: after each trial the stop rule and the next
 * suggestion ask for the same. What came of fewer trials is let go, for it grows with the square of
 * their number. Observations only ever grow, and stay the same objects.
 */
export function rememberedPerTrial<V>(
  compute: (problem: Problem, observations: readonly Observation[]) => V,
): (problem: Problem, observations: readonly Observation[]) => V {
  const memory = new WeakMap<Problem, { last: Observation; trials: number; value: V }>()
  return (problem, observations) => {
    const last = observations.at(-1)
    const found = memory.get(problem)
    if (found && found.last === last && found.trials === observations.length) return found.value
    const value = compute(problem, observations)
    if (last) memory.set(problem, { last, trials: observations.length, value })
    return value
  }
}
