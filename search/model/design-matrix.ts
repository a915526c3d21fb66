import type { GpSpec, Rows } from '../gp/types.ts'
import { memoise } from '../memoise.ts'
import { getMetric } from '../objective.ts'
import { createEncoder } from '../space/encoding.ts'
import type { Configuration, Parameter, Problem } from '../types.ts'
import type { InformativePrior } from './informative-prior.ts'
import { computeLogPriceRange } from './price-axis.ts'

/** The modelled quantities: ln rate, ln(constraint / limit), and the latent of P(serves). */
export type Quantity = 'rate' | 'constraint' | 'serves'

/**
 * Sign of a quantity's change with the price: expensive configurations serve more, and are faster.
 */
const priceDirection: Readonly<Record<Quantity, number>> = { rate: 1, constraint: -1, serves: 0 }

/** The design matrix of a Gaussian process, with the prior of each column's slope. */
export interface Design {
  /** Number of lengthscales. */
  readonly groups: number
  readonly spec: GpSpec
  /** Rows of configurations, m×d. Do not write to them. */
  encodeRows(configurations: readonly Configuration[]): Rows
}

/** Normal prior of the change of a quantity over a parameter's whole range. */
interface SlopePrior {
  readonly mean: number
  readonly sd: number
}

// The widths of the following priors are assumed. Others change the number of trials within the
// noise of the bench (docs/research/search.md, tried without gain).

/**
 * Elasticities d ln(quantity) / d ln(parameter) lie between 0 and 1 for shared or scaled resources
 * (Amdahl's law).
 */
const elasticitySd = 0.5
/** A log axis counts as at least this long, so that a short one keeps a prior spread. */
const minLogRange = 0.5
/** Elasticity with respect to price, below 1 because larger machines scale sublinearly. */
const priceElasticity = { mean: 0.7, sd: 0.3 }
/** Prior sd over a linear axis: a factor e. */
const linearSlopeSd = 1
/**
 * Elasticity of rate and latency with respect to concurrency. Little's law: concurrency = rate ×
 * latency, so the two elasticities sum to 1. The prior gives each one half.
 */
const concurrencyElasticity = { mean: 0.5, sd: 0.25 }
/** Prior sd between two names of a categorical. */
const nameSlopeSd = 0.5
/** Known monotonicity moves the mean of a slope by this many of its standard deviations. */
const monotoneShift = 0.5
/** Prior sd of the offset of ln rate or ln constraint: uninformative. */
const offsetSd = 10
/** Prior of the latent's offset: without failures a configuration probably serves. */
const servesOffset = { mean: 1, sd: 1 }

/** Group of a column of the linear trend alone, without a lengthscale. */
const trendOnly = -1

/**
 * Creates the design of a quantity. Columns: the encoded parameters; ln price, which orders unlike
 * resources by size; ones; and those of an informative prior.
 */
export function createDesign(
  problem: Problem,
  quantity: Quantity,
  informativePrior?: InformativePrior,
): Design {
  const encoder = createEncoder(problem.space)
  const { priceRange, encodeRow } = createBaseRows(problem)
  const parameters = new Map(problem.space.parameters.map((p) => [p.name, p]))
  const slopeSdFactor = informativePrior?.trendScale ?? 1
  const direction =
    informativePrior || !hasDirection(problem, quantity) ? 0 : priceDirection[quantity]
  const offset = informativePrior
    ? { mean: 0, sd: informativePrior.offsetSd }
    : quantity === 'serves'
      ? servesOffset
      : { mean: 0, sd: offsetSd }
  const columns = [
    ...encoder.columns.map((c) => {
      const parameter = parameters.get(c.parameter)!
      const concurrencyPrior = informativePrior
        ? undefined
        : createConcurrencySlopePrior(problem, parameter, quantity)
      const slopePrior = concurrencyPrior ?? createSlopePrior(parameter, direction, slopeSdFactor)
      return { group: c.group, ...slopePrior }
    }),
    ...(priceRange > 0
      ? [
          {
            group: encoder.groups,
            mean: direction * priceElasticity.mean * priceRange,
            sd: priceElasticity.sd * priceRange * slopeSdFactor,
          },
        ]
      : []),
    { group: trendOnly, ...offset },
    ...(informativePrior?.slopes ?? []).map(([mean, sd]) => ({ group: trendOnly, mean, sd })),
  ]
  return {
    groups: encoder.groups + (priceRange > 0 ? 1 : 0),
    spec: {
      groups: columns.map((c) => c.group),
      slopeMean: Float64Array.from(columns, (c) => c.mean),
      slopeVariance: Float64Array.from(columns, (c) => c.sd * c.sd),
    },
    encodeRows(configurations) {
      const priorColumns = informativePrior?.computeColumns(configurations)
      return configurations.map((c, i) =>
        priorColumns ? Float64Array.from([...encodeRow(c), ...priorColumns[i]!]) : encodeRow(c),
      )
    },
  }
}

/**
 * Whether a configuration that serves more changes the quantity in a known direction. A metric of
 * the server may go either way.
 */
const hasDirection = ({ objective }: Problem, quantity: Quantity): boolean =>
  quantity !== 'rate' || getMetric(objective) === undefined

/**
 * Rows without an informative prior: encoded parameters, ln price scaled to [0, 1] where it varies,
 * and 1. With them the range of ln price.
 */
const createBaseRows = memoise((problem: Problem) => {
  const encoder = createEncoder(problem.space)
  const [lowest, priceRange] = computeLogPriceRange(problem)
  const encodeRow = memoise((c: Configuration) => {
    const price = priceRange > 0 ? [(Math.log(problem.pricePerHour(c)) - lowest) / priceRange] : []
    return Float64Array.from([...encoder.encode(c), ...price, 1])
  })
  return { priceRange, encodeRow }
})

/**
 * Creates the slope prior of a parameter.
 * @param direction sign of the quantity's change where a configuration serves more
 * @param sdFactor factor on the standard deviation
 */
export function createSlopePrior(
  parameter: Parameter,
  direction: number,
  sdFactor = 1,
): SlopePrior {
  if (parameter.kind === 'categorical') return { mean: 0, sd: nameSlopeSd * sdFactor }
  const range = computeLogRange(parameter)
  const sd =
    sdFactor * (range === undefined ? linearSlopeSd : elasticitySd * Math.max(minLogRange, range))
  const sign = parameter.monotone === undefined ? 0 : parameter.monotone === 'up' ? 1 : -1
  return { mean: monotoneShift * sign * direction * sd, sd }
}

/**
 * Creates the slope prior of a concurrency parameter on a log axis. Undefined for other parameters,
 * and for a quantity that concurrency does not affect, such as the unloaded latency.
 */
export function createConcurrencySlopePrior(
  problem: Problem,
  parameter: Parameter,
  quantity: Quantity,
): SlopePrior | undefined {
  const range =
    parameter.concurrency && parameter.kind !== 'categorical'
      ? computeLogRange(parameter)
      : undefined
  if (
    range === undefined ||
    quantity === 'serves' ||
    !hasDirection(problem, quantity) ||
    (quantity === 'constraint' && !problem.constraintAtRate)
  )
    return undefined
  return { mean: concurrencyElasticity.mean * range, sd: concurrencyElasticity.sd * range }
}

/** Computes ln(max / min) of a log axis; undefined for a linear one. */
export function computeLogRange(
  parameter: Exclude<Parameter, { kind: 'categorical' }>,
): number | undefined {
  const [min, max] =
    parameter.kind === 'ordinal'
      ? [parameter.values[0]!, parameter.values.at(-1)!]
      : [parameter.min, parameter.max]
  return parameter.scale === 'log' && min > 0 ? Math.log(max / min) : undefined
}
