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
 * Remembers what was computed from the observations so far with the last of them: after each trial the stop rule and the next suggestion ask for the
 * same. Observations only ever grow, and stay the same objects.
 */
export function rememberedPerTrial<V>(
  compute: (problem: Problem, observations: readonly Observation[]) => V,
): (problem: Problem, observations: readonly Observation[]) => V {
  const memory = new WeakMap<Observation, { problem: Problem; trials: number; value: V }>()
  return (problem, observations) => {
    const last = observations.at(-1)
    const found = last && memory.get(last)
    if (found?.problem === problem && found.trials === observations.length) return found.value
    const value = compute(problem, observations)
    if (last) memory.set(last, { problem, trials: observations.length, value })
    return value
  }
}
