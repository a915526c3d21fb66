import { Matrix } from 'ml-matrix'
import { fitGp } from '../gp/fit.ts'
import { logCdf, logExpectedImprovement } from '../gp/normal.ts'
import type { Marginals } from '../gp/types.ts'
import { computeObservedLogCost } from '../observed-cost.ts'
import { findCandidates } from '../space/candidates.ts'
import type { Configuration, Observation, Problem, Sampler } from '../types.ts'

/** Trials at random before the first model. */
const randomStarts = 5

/**
 * sign(v) ln(1 + |v|): keeps the sign and compresses values far from the boundary (Eriksson and
 * Poloczek, SCBO, 2021, §3).
 */
export const bilog = (v: number): number => Math.sign(v) * Math.log1p(Math.abs(v))

/**
 * The reference to compare with: Bayesian optimisation as a careful user would write it in an
 * afternoon. Plain Gaussian processes without trend model standardised ln rate, bilog of the
 * constraint (SCBO, 2021) and infeasibility; positive values are logarithmic, names one-hot, prices
 * exact. The score is ln expected improvement + ln P(feasible), after five random starts.
 */
export const plainReference: Sampler = {
  name: 'reference',
  suggest(problem, observations, pending, rng) {
    const taken = [...observations.map((o) => o.configuration), ...pending]
    const { configurations } = findCandidates(problem, taken, rng.fork('reference'))
    if (configurations.length === 0) return undefined
    if (taken.length < randomStarts) {
      const i = rng.fork(`start ${taken.length}`).int(configurations.length)
      return { configuration: configurations[i]!, why: 'random start' }
    }
    const scores = computeAcquisition(problem, observations, configurations)
    return {
      configuration: configurations[scores.indexOf(Math.max(...scores))]!,
      why: 'expected improvement',
    }
  },
}

function computeAcquisition(
  problem: Problem,
  observations: readonly Observation[],
  configurations: readonly Configuration[],
): number[] {
  const encode = createPlainEncoder(problem)
  const complete = observations.flatMap((o) => (o.state === 'complete' ? [o] : []))
  const limit = problem.constraintLimit ?? 1
  const fit = (data: readonly (readonly [Configuration, number])[]) =>
    fitAndPredict(encode, data, configurations)
  const rate = fit(
    complete.flatMap((o) => (o.rate ? [[o.configuration, Math.log(o.rate.value)] as const] : [])),
  )
  const constraint = fit(
    complete.flatMap((o) =>
      o.constraint ? [[o.configuration, bilog(o.constraint.value / limit - 1)] as const] : [],
    ),
  )
  const serves = fit(observations.map((o) => [o.configuration, o.state === 'complete' ? -1 : 1]))
  const best = Math.min(...observations.map((o) => computeObservedLogCost(problem, o)))
  return configurations.map((c, i) => {
    const feasible =
      logBelow(constraint, i) + (complete.length < observations.length ? logBelow(serves, i) : 0)
    if (best === Infinity) return feasible
    const logPrice = Math.log(problem.pricePerHour(c))
    const gain = rate
      ? logExpectedImprovement(logPrice - rate.mean[i]!, Math.sqrt(rate.variance[i]!), best)
      : Math.log(Math.max(0, best - logPrice))
    return feasible + gain
  })
}

/** ln P(value ≤ 0). */
const logBelow = (marginals: Marginals | undefined, i: number): number =>
  marginals ? logCdf(-marginals.mean[i]! / Math.sqrt(marginals.variance[i]!)) : 0

function fitAndPredict(
  encode: (c: Configuration) => number[],
  data: readonly (readonly [Configuration, number])[],
  configurations: readonly Configuration[],
): Marginals | undefined {
  if (data.length === 0) return undefined
  const mean = data.reduce((sum, [, y]) => sum + y, 0) / data.length
  const sd = Math.sqrt(data.reduce((sum, [, y]) => sum + (y - mean) ** 2, 0) / data.length) || 1
  const X = new Matrix(data.map(([c]) => encode(c)))
  const flat = new Float64Array(X.columns)
  const gp = fitGp(
    { groups: [...flat.keys()], slopeMean: flat, slopeVariance: flat },
    { X, y: Float64Array.from(data, ([, y]) => (y - mean) / sd) },
  )
  const predicted = gp.predict(configurations.map((c) => Float64Array.from(encode(c))))
  return {
    mean: predicted.mean.map((v) => mean + sd * v),
    variance: predicted.variance.map((v) => sd * sd * v),
  }
}

function createPlainEncoder({ space }: Problem): (c: Configuration) => number[] {
  const columns = space.parameters.flatMap((p) => {
    if (p.kind === 'categorical')
      return p.values.map((value) => (c: Configuration) => (c[p.name] === value ? Math.SQRT1_2 : 0))
    const [low, high] =
      p.kind === 'ordinal' ? [Math.min(...p.values), Math.max(...p.values)] : [p.min, p.max]
    const scale = low > 0 ? Math.log : (v: number) => v
    return [
      (c: Configuration) =>
        (scale(Number(c[p.name])) - scale(low)) / (scale(high) - scale(low) || 1),
    ]
  })
  return (c) => columns.map((column) => column(c))
}
