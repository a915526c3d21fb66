import { Matrix } from 'ml-matrix'
import { fitGp } from '../gp/fit.ts'
import { memoise } from '../memoise.ts'
import { createEncoder } from '../space/encoding.ts'
import type { Configuration, Observation, SearchSpace } from '../types.ts'
import type { InformativePrior } from './informative-prior.ts'

/** Minimum rates of a prior: fewer do not show the effect of a parameter. */
const minRates = 3

/**
 * Settings of the prior (informative-prior.ts). Chosen on recorded tables: with wider
 * distributions, or another Bayes factor, it costs trials (docs/research/search.md, tried without
 * gain).
 */
const earlierTrialsPriorSettings = {
  /** Accepted if the data are e times as probable with it. */
  minLogBayesFactor: 1,
  /** Factor on the prior sd of the GP's own trend slopes, which only correct this prior. */
  trendScale: 0.3,
  /** Prior sd of the offset, in ln: a factor e. */
  offsetSd: 1,
  /** LogNormal(mu, sigma) of the residual's variance. */
  signalVariance: [-3, 1] as const,
}
/** Prior of the slope of the earlier rates. */
const earlierRateSlope: readonly [mean: number, sd: number] = [1, 0.5]

type PredictLogRates = (configurations: readonly Configuration[]) => readonly number[]

/**
 * Creates an informative prior of ln rate from earlier experiments with the same served model. Its
 * column is their posterior mean; slope and offset are learned, because the machine or the SLO may
 * differ. Failures and constraints are ignored, because limits differ. Undefined with fewer than
 * three rates.
 */
export function createEarlierTrialsPrior(
  earlier: readonly Observation[],
  space: SearchSpace,
): InformativePrior | undefined {
  const predictLogRates = fitEarlierRates(earlier)(space)
  return (
    predictLogRates && {
      slopes: [earlierRateSlope],
      computeColumns: (configurations) => predictLogRates(configurations).map((value) => [value]),
      ...earlierTrialsPriorSettings,
    }
  )
}

/** Memoised by earlier observations and space, so that each trial does not fit anew. */
const fitEarlierRates = memoise((earlier: readonly Observation[]) =>
  memoise((space: SearchSpace) => fitLogRate(earlier, space)),
)

function fitLogRate(
  earlier: readonly Observation[],
  space: SearchSpace,
): PredictLogRates | undefined {
  const rates = earlier.flatMap((o) =>
    o.state === 'complete' && !o.censored && o.rate && o.rate.value > 0
      ? [{ configuration: o.configuration, logRate: Math.log(o.rate.value) }]
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
      X: new Matrix(rates.map(({ configuration }) => encoder.encode(configuration))),
      y: Float64Array.from(rates, ({ logRate }) => logRate - mean),
    },
  )
  const cache = new WeakMap<Configuration, number>()
  return (configurations) => {
    const missing = configurations.filter((configuration) => !cache.has(configuration))
    if (missing.length > 0) {
      const predictedMean = gp.predict(missing.map(encoder.encode)).mean
      for (const [i, configuration] of missing.entries())
        cache.set(configuration, mean + predictedMean[i]!)
    }
    return configurations.map((configuration) => cache.get(configuration)!)
  }
}
