import { believedReadings, type Datum, gpDataOf, priorsOf } from './datum.ts'
import { concurrencySlope, logReach, OFFSET_SD, PRICE_ELASTICITY, PRICE_ELASTICITY_SD, priceRange, type Slope, slope } from './design.ts'
import { createEncoder } from './encoding.ts'
import { fitGp } from './gp-fit.ts'
import type { GpShape, Marginals, Rows } from './gp-model.ts'
import { condition } from './gp-regression.ts'
import type { Configuration, Parameter, Problem } from './types.ts'

/** One Gaussian process for ln rate and ln latency. */
export interface CoupledModel {
  readonly logLikelihood: number
  readonly warning?: string
  predict(configurations: readonly Configuration[]): {
    readonly rate: Marginals
    readonly constraint: Marginals
    /** Of ln rate and ln latency of the same configuration, m. */
    readonly covariance: Float64Array
  }
  /** Mean (2m) and covariance (2m×2m, row-major): the m rates, then the m constraints. */
  joint(configurations: readonly Configuration[]): { mean: Float64Array; covariance: Float64Array }
}

type Output = 'rate' | 'constraint'

// Prior deviations of ln(rate × latency), the number of requests in the server: what is said to set it does so in proportion; of the rest, who knows.
const STATED_SD = 0.1
const OTHER_SD = 0.3
const NAME_SD = 0.15
const PRICE_SD = 0.15

/**
 * Little's law: rate × latency is the number of requests in the server, which batch sizes and process counts set, so that ln rate =
 * ln concurrency − ln latency. ln latency is a trend and a Matérn part; ln concurrency is a trend alone; a rate takes the Matérn part with the
 * amplitude −1. One reading then tells of both, and a configuration that is faster than expected is believed to serve more as well.
 */
export function fitCoupled(
  problem: Problem,
  rates: readonly Datum[],
  constraints: readonly Datum[],
  pending: readonly Configuration[],
): CoupledModel {
  const { shape, groups, rows } = coupledDesign(problem)
  const rowsOf = (readings: readonly Datum[], output: Output) =>
    rows(
      readings.map((r) => r.at),
      output,
    )
  const gpData = (rate: readonly Datum[], constraint: readonly Datum[]) =>
    gpDataOf([...rowsOf(rate, 'rate'), ...rowsOf(constraint, 'constraint')], [...rate, ...constraint])
  const fitted = fitGp(shape, gpData(rates, constraints), { priors: priorsOf(groups) })
  const believed = (output: Output) => believedReadings(pending, fitted.predict(rows(pending, output)).mean)
  const gp =
    pending.length === 0
      ? fitted
      : condition(shape, gpData([...rates, ...believed('rate')], [...constraints, ...believed('constraint')]), fitted.hyperparameters)
  return {
    logLikelihood: fitted.logLikelihood,
    ...(fitted.warning ? { warning: fitted.warning } : {}),
    predict(configurations) {
      const [rate, constraint, covariance] = gp.predictPairs(rows(configurations, 'rate'), rows(configurations, 'constraint'))
      return { rate, constraint, covariance }
    },
    joint: (configurations) => gp.joint([...rows(configurations, 'rate'), ...rows(configurations, 'constraint')]),
  }
}

/** Columns: the encoded parameters and price for distances alone; the amplitude; the latency's trend; the concurrency's trend. */
function coupledDesign(problem: Problem): {
  groups: number
  shape: GpShape
  rows: (configurations: readonly Configuration[], output: Output) => Rows
} {
  const encoder = createEncoder(problem.space)
  const parameters = new Map(problem.space.parameters.map((p) => [p.name, p]))
  const [lowest, span] = priceRange(problem)
  const of = (prior: (parameter: Parameter) => Slope) => encoder.columns.map((c) => prior(parameters.get(c.parameter)!))
  const unused = { mean: 0, sd: 0 }
  const latency = [
    ...of((p) => concurrencySlope(problem, p, 'constraint') ?? slope(p, -1)),
    { mean: -PRICE_ELASTICITY * span, sd: PRICE_ELASTICITY_SD * span },
    { mean: 0, sd: OFFSET_SD },
  ]
  const trends = [...latency, ...of(concurrencyOf), { mean: 0, sd: PRICE_SD * span }, { mean: 0, sd: OFFSET_SD }]
  const width = encoder.columns.length + 1
  const slopes = [...Array.from({ length: width + 1 }, () => unused), ...trends]
  return {
    groups: encoder.groups + 1,
    shape: {
      groups: [...encoder.columns.map((c) => c.group), encoder.groups, -1, ...trends.map(() => -1)],
      slopeMean: Float64Array.from(slopes, (s) => s.mean),
      slopeVariance: Float64Array.from(slopes, (s) => s.sd * s.sd),
      amplitudeColumn: width,
    },
    rows(configurations, output) {
      const [amplitude, concurrency] = output === 'rate' ? [-1, 1] : [1, 0]
      return configurations.map((c) => {
        const x = [...encoder.encode(c), span > 0 ? (Math.log(problem.pricePerHour(c)) - lowest) / span : 0]
        const trend = [...x, 1]
        return Float64Array.from([...x, amplitude, ...trend.map((v) => amplitude * v), ...trend.map((v) => concurrency * v)])
      })
    },
  }
}

function concurrencyOf(parameter: Parameter): Slope {
  if (parameter.kind === 'categorical') return { mean: 0, sd: NAME_SD }
  const reach = logReach(parameter)
  return parameter.concurrency && reach !== undefined ? { mean: reach, sd: STATED_SD * reach } : { mean: 0, sd: OTHER_SD * (reach ?? 1) }
}
