/** Memoisation by object identity. The keys must not change afterwards. */
import type { Observation, Problem } from './types.ts'

/** Caches the values of `compute`, except undefined, for the lifetime of their keys. */
export function memoise<K extends object, V>(compute: (key: K) => V): (key: K) => V {
  const cache = new WeakMap<K, V>()
  return (key) => {
    const cached = cache.get(key)
    if (cached !== undefined) return cached
    const value = compute(key)
    cache.set(key, value)
    return value
  }
}

/**
 * Caches the last value of `compute` for each problem, because the stop rule and the next
 * suggestion need the same fit. Earlier values are dropped, as they grow with the square of the
 * number of trials. Observations may only be appended, and must stay the same objects.
 */
export function memoiseLastTrial<V>(
  compute: (problem: Problem, observations: readonly Observation[]) => V,
): (problem: Problem, observations: readonly Observation[]) => V {
  const cache = new WeakMap<Problem, { last: Observation; trials: number; value: V }>()
  return (problem, observations) => {
    const last = observations.at(-1)
    const cached = cache.get(problem)
    if (cached && cached.last === last && cached.trials === observations.length) return cached.value
    const value = compute(problem, observations)
    if (last) cache.set(problem, { last, trials: observations.length, value })
    return value
  }
}
