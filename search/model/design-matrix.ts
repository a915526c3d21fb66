import type { GpSpec, Rows } from '../gp/types.ts'
import { memoise } from '../memoise.ts'
import { getMetric } from '../objective.ts'
import { createEncoder } from '../space/encoding.ts'
import type { Configuration, Parameter, Problem } from '../types.ts'
import type { InformativePrior } from './informative-prior.ts'
import { computeLogPriceRange } from './price-axis.ts'

/** The modelled quantities: ln rate, ln(constraint / limit), and the latent of P(serves). */
export type Quantity = 'rate' | 'constraint' | 'serves'

/** Sign of a quantity's change with the price: dearer configurations serve more, and are faster. */
const priceDirection: Readonly<Record<Quantity, number>> = { rate: 1, constraint: -1, serves: 0 }

/** The design matrix of a Gaussian process, with the prior of each column's slope. */
export interface Design {
  /** Number of lengthscales. */
  readonly groups: number
  readonly spec: GpSpec
  /** Rows of configurations, m×d. Do not write to them. */
  rows(configurations: readonly Configuration[]): Rows
}

/** Normal prior of the change of a quantity over a parameter's whole range. */
interface SlopePrior {
  readonly mean: number
  readonly sd: number
}

/**
 * Elasticities d ln(quantity) / d ln(parameter) lie between 0 and 1 for shared or scaled resources
 * (Amdahl's law).
 */
const elasticitySd = 0.5
/** A log axis counts as at least this long, so that a short one keeps a prior spread. */
const minLogRange = 0.5
/** Elasticity of a quantity with respect to the price: less than proportional. */
const priceElasticity = { mean: 0.7, sd: 0.3 }
/** Prior sd over a linear axis: a factor e. */
const linearSlopeSd = 1
/** Elasticity of rate and latency with respect to concurrency, which share its increase. */
const concurrencyElasticity = { mean: 0.5, sd: 0.25 }
/** Prior sd between two names of a categorical. */
const nameSlopeSd = 0.5
/** Prior sd of the offset of ln rate or ln constraint: uninformative. */
const offsetSd = 10
/** Prior of the latent's offset: without failures a configuration probably serves. */
const servesOffset = { mean: 1, sd: 1 }

/**
 * The design of a quantity. Columns: the encoded parameters; ln price, which orders unlike
 * resources by size; ones; and those of an informative prior.
 */
export function createDesign(
  problem: Problem,
  quantity: Quantity,
  informative?: InformativePrior,
): Design {
  const encoder = createEncoder(problem.space)
  const { range, row } = createBaseRows(problem)
  const parameters = new Map(problem.space.parameters.map((p) => [p.name, p]))
  const scale = informative?.trendScale ?? 1
  const direction = informative || !hasDirection(problem, quantity) ? 0 : priceDirection[quantity]
  const offset = informative
    ? { mean: 0, sd: informative.offsetSd }
    : quantity === 'serves'
      ? servesOffset
      : { mean: 0, sd: offsetSd }
  const columns = [
    ...encoder.columns.map((c) => {
      const parameter = parameters.get(c.parameter)!
      const concurrency = informative
        ? undefined
        : createConcurrencySlopePrior(problem, parameter, quantity)
      return { group: c.group, ...(concurrency ?? createSlopePrior(parameter, direction, scale)) }
    }),
    ...(range > 0
      ? [
          {
            group: encoder.groups,
            mean: direction * priceElasticity.mean * range,
            sd: priceElasticity.sd * range * scale,
          },
        ]
      : []),
    { group: -1, ...offset },
    ...(informative?.slopes ?? []).map(([mean, sd]) => ({ group: -1, mean, sd })),
  ]
  return {
    groups: encoder.groups + (range > 0 ? 1 : 0),
    spec: {
      groups: columns.map((c) => c.group),
      slopeMean: Float64Array.from(columns, (c) => c.mean),
      slopeVariance: Float64Array.from(columns, (c) => c.sd * c.sd),
    },
    rows(configurations) {
      const added = informative?.columns(configurations)
      return configurations.map((c, i) =>
        added ? Float64Array.from([...row(c), ...added[i]!]) : row(c),
      )
    },
  }
}

/**
 * Whether a dearer or busier configuration changes the quantity in a known direction. A metric of
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
  const [lowest, range] = computeLogPriceRange(problem)
  const row = memoise((c: Configuration) => {
    const price = range > 0 ? [(Math.log(problem.pricePerHour(c)) - lowest) / range] : []
    return Float64Array.from([...encoder.encode(c), ...price, 1])
  })
  return { range, row }
})

/**
 * Slope prior of a parameter. Known monotonicity moves the mean by half a standard deviation.
 * @param direction sign of the quantity's change with the rate
 * @param scale factor on the standard deviation
 */
export function createSlopePrior(parameter: Parameter, direction: number, scale = 1): SlopePrior {
  if (parameter.kind === 'categorical') return { mean: 0, sd: nameSlopeSd * scale }
  const range = computeLogRange(parameter)
  const sd =
    scale * (range === undefined ? linearSlopeSd : elasticitySd * Math.max(minLogRange, range))
  const sign = parameter.monotone === undefined ? 0 : parameter.monotone === 'up' ? 1 : -1
  return { mean: 0.5 * sign * direction * sd, sd }
}

/**
 * Slope prior of a concurrency parameter on a log axis. Undefined for other parameters, and for a
 * quantity that concurrency does not affect, such as the unloaded latency.
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

/** ln(max / min) of a log axis; undefined for a linear one. */
export function computeLogRange(
  parameter: Exclude<Parameter, { kind: 'categorical' }>,
): number | undefined {
  const [min, max] =
    parameter.kind === 'ordinal'
      ? [parameter.values[0]!, parameter.values.at(-1)!]
      : [parameter.min, parameter.max]
  return parameter.scale === 'log' && min > 0 ? Math.log(max / min) : undefined
}
