import type { Observation, Problem } from './types.ts'

/**
 * Remembers what was computed from the observations so far with the last of them: after each trial the stop rule and the next suggestion ask for the
 * same. Observations only ever grow, and stay the same objects.
 * @returns the value for these observations and this `variant` of the question, computed when it is not the last one remembered
 */
export function rememberedPerTrial<T>(): (problem: Problem, observations: readonly Observation[], variant: unknown, compute: () => T) => T {
  const memory = new WeakMap<Observation, { problem: Problem; trials: number; variant: unknown; value: T }>()
  return (problem, observations, variant, compute) => {
    const last = observations.at(-1)
    if (!last) return compute()
    const found = memory.get(last)
    if (found?.problem === problem && found.trials === observations.length && found.variant === variant) return found.value
    const value = compute()
    memory.set(last, { problem, trials: observations.length, variant, value })
    return value
  }
}
