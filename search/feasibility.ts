import { priceRaising } from './design.ts'
import type { Marginals } from './gp-model.ts'
import { logCdf } from './normal.ts'
import { meetsConstraint } from './observed-cost.ts'
import type { Configuration, Observation, Problem } from './types.ts'

/** Beliefs about m configurations: ln rate, transformed constraint (≤ 0 is met), and whether they serve at all. */
export interface Beliefs {
  readonly rate?: Marginals
  readonly constraint?: Marginals
  /** Covariance of ln rate and constraint of the same configuration, m; absent where they are modelled apart. */
  readonly covariance?: Float64Array
  /** ln P(serves: not out of memory, does get ready), m. */
  readonly logServes: Float64Array
}

/** ln P(serves and meets the constraint), m. */
export function logFeasible(problem: Problem, { constraint, logServes }: Beliefs): Float64Array {
  if (problem.constraintLimit === undefined || !constraint) return logServes
  return logServes.map((serves, i) => serves + logCdf(-constraint.mean[i]! / Math.sqrt(constraint.variance[i]!)))
}

/** P(more of a resource never makes a configuration infeasible), while no trial says otherwise. */
const MONOTONE = 0.95
/** A limit missed by more than this factor is missed whatever the noise. */
const CLEARLY = 1.25

/**
 * ln of what P(feasible) is to be multiplied with, of m configurations. More of a resource (what raises the price, all else equal) never hurts, all but
 * certainly: a configuration with no more of any than one that failed, all else equal, is no likelier to be feasible than that one is believed to be. This
 * is mixed with the model's own belief, a doubt and not a verdict, and a pair of trials that contradicts it ends it.
 */
export function monotoneDoubt(
  problem: Problem,
  observations: readonly Observation[],
  believed: (tried: readonly Configuration[]) => Float64Array,
): (configurations: readonly Configuration[], feasible: Float64Array) => Float64Array {
  const raising = priceRaising(problem)
  const rest = problem.space.parameters.map((p) => p.name).filter((name) => !raising.includes(name))
  const noMore = (a: Configuration, b: Configuration) =>
    rest.every((name) => a[name] === b[name]) && raising.every((name) => Number(a[name]) <= Number(b[name]))
  const failed = observations.filter((o) => !meetsConstraint(problem, o))
  const contradicted = failed
    .filter((o) => clearlyFailed(problem, o))
    .some((bad) => observations.some((o) => meetsConstraint(problem, o) && noMore(o.configuration, bad.configuration)))
  if (raising.length === 0 || failed.length === 0 || contradicted) return (configurations) => new Float64Array(configurations.length)
  const tried = failed.map((o) => o.configuration)
  const bounds = believed(tried)
  const order = [...tried.keys()].sort((a, b) => bounds[a]! - bounds[b]!)
  return (configurations, feasible) =>
    feasible.map((own, i) => {
      const least = order.find((t) => bounds[t]! >= own || noMore(configurations[i]!, tried[t]!))
      return least === undefined || bounds[least]! >= own ? 0 : Math.log(1 - MONOTONE + MONOTONE * Math.exp(bounds[least]! - own))
    })
}

const clearlyFailed = (problem: Problem, o: Observation): boolean =>
  o.state === 'infeasible' ||
  o.rate?.value === 0 ||
  (o.constraint !== undefined && problem.constraintLimit !== undefined && o.constraint.value > CLEARLY * problem.constraintLimit)
