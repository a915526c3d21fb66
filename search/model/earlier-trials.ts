import { Matrix } from 'ml-matrix'
import { fitGp } from '../gp/fit.ts'
import { memoise } from '../memoise.ts'
import { createEncoder } from '../space/encoding.ts'
import type { Configuration, Observation, SearchSpace } from '../types.ts'
import type { InformativePrior } from './informative-prior.ts'

/** With fewer rates no effect of a parameter can be estimated. */
const minRates = 3

/**
 * Settings of the prior (informative-prior.ts). Chosen on recorded tables: with wider
 * distributions, or another Bayes factor, it costs trials (docs/research/search.md, tried without
 * gain).
 */
const earlierTrialsPriorSettings = {
  /** Accepted if the data are e times as probable with it. */
  minLogBayesFactor: 1,
  /** Factor on the prior sd of the other slopes, which correct this prior. */
  trendScale: 0.3,
  /** Prior sd of the offset, in ln: a factor e. */
  offsetSd: 1,
  /** LogNormal(mu, sigma) of the residual's variance. */
  signalVariance: [-3, 1] as const,
}
/** Prior of the slope of the earlier rates. */
const earlierRateSlope: readonly [mean: number, sd: number] = [1, 0.5]

type LogRate = (configurations: readonly Configuration[]) => readonly number[]

/**
 * An informative prior of ln rate from earlier experiments with the same served model. Its column
 * is their posterior mean; slope and offset are learned, because the machine or the SLO may differ.
 * Failures and constraints are ignored, because limits differ. Undefined with fewer than three
 * rates.
 */
export function createEarlierTrialsPrior(
  earlier: readonly Observation[],
  space: SearchSpace,
): InformativePrior | undefined {
  const logRate = fitEarlierRates(earlier)(space)
  return (
    logRate && {
      slopes: [earlierRateSlope],
      computeColumns: (configurations) => logRate(configurations).map((value) => [value]),
      ...earlierTrialsPriorSettings,
    }
  )
}

/** One fit for each list of earlier observations and space, not one for each trial. */
const fitEarlierRates = memoise((earlier: readonly Observation[]) =>
  memoise((space: SearchSpace) => fitLogRate(earlier, space)),
)

function fitLogRate(earlier: readonly Observation[], space: SearchSpace): LogRate | undefined {
  const rates = earlier.flatMap((o) =>
    o.state === 'complete' && !o.censored && o.rate && o.rate.value > 0
      ? [{ at: o.configuration, logRate: Math.log(o.rate.value) }]
      : [],
  )
  if (rates.length < minRates) return undefined
  const encoder = createEncoder(space)
  const mean = rates.reduce((sum, { logRate }) => sum + logRate, 0) / rates.length
  const gp = fitGp(
    {
      groups: encoder.columns.map((column) => column.group),
      slopeMean: new Float64Array(encoder.columns.length),
      slopeVariance: new Float64Array(encoder.columns.length).fill(1),
    },
    {
      X: new Matrix(rates.map(({ at }) => encoder.encode(at))),
      y: Float64Array.from(rates, ({ logRate }) => logRate - mean),
    },
  )
  const cache = new WeakMap<Configuration, number>()
  return (configurations) => {
    const missing = configurations.filter((configuration) => !cache.has(configuration))
    if (missing.length > 0) {
      const predicted = gp.predict(missing.map(encoder.encode)).mean
      for (const [i, configuration] of missing.entries())
        cache.set(configuration, mean + predicted[i]!)
    }
    return configurations.map((configuration) => cache.get(configuration)!)
  }
}
