import { priceRaising } from './design.ts'
import { configurationKey } from './space.ts'
import type { Configuration, Observation, Problem } from './types.ts'

/** A constraint missed by more than this factor is missed by far. */
const BY_FAR = 3

/**
 * What cannot be hoped for after what has been tried. Where a configuration could not serve, or missed the constraint by far, so will any with no more
 * of each resource (what raises the price, all else equal) and no less to do at once (what sets concurrency), all else equal.
 */
export function hopeless(problem: Problem, observations: readonly Observation[]): (configuration: Configuration) => boolean {
  const { parameters } = problem.space
  const raising = priceRaising(problem)
  const names = parameters.map((p) => p.name)
  const resources = names.filter((name) => raising.has(name))
  const concurrency = parameters.filter((p) => p.concurrency && !raising.has(p.name)).map((p) => p.name)
  const failed = observations.filter(
    (o) =>
      o.state === 'infeasible' ||
      (problem.constraintLimit !== undefined && o.constraint !== undefined && o.constraint.value > BY_FAR * problem.constraintLimit),
  )
  if (failed.length === 0) return () => false
  const rest = names.filter((name) => !resources.includes(name) && !concurrency.includes(name))
  const restOf = (c: Configuration) => configurationKey(Object.fromEntries(rest.map((name) => [name, c[name]!])))
  const byRest = new Map<string, Configuration[]>()
  for (const { configuration } of failed) byRest.set(restOf(configuration), [...(byRest.get(restOf(configuration)) ?? []), configuration])
  return (configuration) =>
    (byRest.get(restOf(configuration)) ?? []).some(
      (bad) =>
        resources.every((name) => Number(configuration[name]) <= Number(bad[name])) &&
        concurrency.every((name) => Number(configuration[name]) >= Number(bad[name])),
    )
}
