import type { GpShape, Rows } from '../gp/types.ts'
import { remembered } from '../memoise.ts'
import { metricOf } from '../objective.ts'
import { listed, sampleSpace } from '../space/candidates.ts'
import { createEncoder } from '../space/encoding.ts'
import { GRID_LIMIT, gridSize, satisfies } from '../space/space.ts'
import type { Configuration, Parameter, Problem, SearchSpace } from '../types.ts'
import type { Rise } from './saturating-predictive.ts'

/**
 * What is modelled, and how it moves with price: a dearer configuration serves more, and takes less
 * time.
 */
export type Quantity = 'rate' | 'constraint' | 'serves'
const DIRECTION: Readonly<Record<Quantity, number>> = { rate: 1, constraint: -1, serves: 0 }

/**
 * What is known of a quantity from outside the experiment, physics or earlier trials, as further
 * columns of the trend.
 */
export interface Knowledge {
  /** Prior mean and standard deviation of each further column's slope (k). */
  readonly slopes: readonly (readonly [mean: number, sd: number])[]
  /** The further columns of configurations, m×k. */
  readonly columns: (configurations: readonly Configuration[]) => readonly (readonly number[])[]
  /** How much of the trend's own prior spread is left to correct this knowledge. */
  readonly correction: number
  readonly offsetSd: number
  /**
   * ln of how much likelier the data must be with it than without before it is believed; negative
   * where it is right far more often than not.
   */
  readonly burden: number
  /** LogNormal prior of the residual's variance, where it is known to be small. */
  readonly signal?: readonly [mu: number, sigma: number]
  /** Where the quantity bends as what the further columns stand for moves. */
  readonly rise?: Rise
}

/**
 * Turns configurations into the design matrix of a Gaussian process, with what is believed of each
 * column before any trial.
 */
export interface Design {
  /** Lengthscales. */
  readonly groups: number
  readonly shape: GpShape
  /** Not to be written to. */
  rows(configurations: readonly Configuration[]): Rows
}

// Elasticities, d ln(quantity) / d ln(parameter), lie between 0 and 1 for what is shared or scaled
// out (Amdahl's law): prior spread 0.5.
const ELASTICITY_SD = 0.5
// The quantity against ln price: less than in proportion, 0.7 ± 0.3.
const PRICE_ELASTICITY = 0.7
const PRICE_ELASTICITY_SD = 0.3
const LINEAR_SD = 1
// Of what sets how many are served at once: rate and latency share the increase.
const CONCURRENCY_ELASTICITY = 0.5
const CONCURRENCY_SD = 0.25
const NAME_SD = 0.5
const OFFSET_SD = 10
const SERVES_OFFSET = { mean: 1, sd: 1 }

/**
 * Columns: the encoded parameters; ln price, exactly known and a proxy of size that joins unlike
 * resources on one axis; ones; and what further knowledge there is.
 */
export function createDesign(problem: Problem, quantity: Quantity, knowledge?: Knowledge): Design {
  const encoder = createEncoder(problem.space)
  const { span, row } = baseRows(problem)
  const parameters = new Map(problem.space.parameters.map((p) => [p.name, p]))
  const strength = knowledge?.correction ?? 1
  const direction = knowledge || !isDirected(problem, quantity) ? 0 : DIRECTION[quantity]
  const offset = knowledge
    ? { mean: 0, sd: knowledge.offsetSd }
    : quantity === 'serves'
      ? SERVES_OFFSET
      : { mean: 0, sd: OFFSET_SD }
  const columns = [
    ...encoder.columns.map((c) => {
      const parameter = parameters.get(c.parameter)!
      const known = knowledge ? undefined : concurrencySlope(problem, parameter, quantity)
      return { group: c.group, ...(known ?? slope(parameter, direction, strength)) }
    }),
    ...(span > 0
      ? [
          {
            group: encoder.groups,
            mean: direction * PRICE_ELASTICITY * span,
            sd: PRICE_ELASTICITY_SD * span * strength,
          },
        ]
      : []),
    { group: -1, ...offset },
    ...(knowledge?.slopes ?? []).map(([mean, sd]) => ({ group: -1, mean, sd })),
  ]
  return {
    groups: encoder.groups + (span > 0 ? 1 : 0),
    shape: {
      groups: columns.map((c) => c.group),
      slopeMean: Float64Array.from(columns, (c) => c.mean),
      slopeVariance: Float64Array.from(columns, (c) => c.sd * c.sd),
    },
    rows(configurations) {
      const known = knowledge?.columns(configurations)
      return configurations.map((c, i) =>
        known ? Float64Array.from([...row(c), ...known[i]!]) : row(c),
      )
    },
  }
}

/** A metric of the server's own may fall where a dearer or busier configuration serves more. */
const isDirected = ({ objective }: Problem, quantity: Quantity): boolean =>
  quantity !== 'rate' || metricOf(objective) === undefined

/**
 * The columns that need no knowledge, and the spread of ln price: encoded parameters, ln price from
 * 0 to 1 where it differs at all, 1.
 */
const baseRows = remembered((problem: Problem) => {
  const encoder = createEncoder(problem.space)
  const [lowest, span] = priceRange(problem)
  const row = remembered((c: Configuration) => {
    const price = span > 0 ? [(Math.log(problem.pricePerHour(c)) - lowest) / span] : []
    return Float64Array.from([...encoder.encode(c), ...price, 1])
  })
  return { span, row }
})

/**
 * Prior mean and standard deviation of the change of a quantity across a parameter's whole range.
 */
interface Slope {
  readonly mean: number
  readonly sd: number
}

/** With certain knowledge its sign. */
export function slope(parameter: Parameter, direction: number, strength = 1): Slope {
  if (parameter.kind === 'categorical') return { mean: 0, sd: NAME_SD * strength }
  const reach = logReach(parameter)
  const sd = strength * (reach === undefined ? LINEAR_SD : ELASTICITY_SD * Math.max(0.5, reach))
  const sign = parameter.monotone === undefined ? 0 : parameter.monotone === 'up' ? 1 : -1
  return { mean: 0.5 * sign * direction * sd, sd }
}

/**
 * Of a parameter that says how many are served at once; undefined of others, and of a metric
 * without load, which does not depend on it.
 */
export function concurrencySlope(
  problem: Problem,
  parameter: Parameter,
  quantity: Quantity,
): Slope | undefined {
  const reach =
    parameter.concurrency && parameter.kind !== 'categorical' ? logReach(parameter) : undefined
  if (
    reach === undefined ||
    quantity === 'serves' ||
    !isDirected(problem, quantity) ||
    (quantity === 'constraint' && !problem.constraintAtRate)
  )
    return undefined
  return { mean: CONCURRENCY_ELASTICITY * reach, sd: CONCURRENCY_SD * reach }
}

/** ln(max / min) of an axis in logarithms; undefined of a linear one. */
export function logReach(
  parameter: Exclude<Parameter, { kind: 'categorical' }>,
): number | undefined {
  const [min, max] =
    parameter.kind === 'ordinal'
      ? [parameter.values[0]!, parameter.values.at(-1)!]
      : [parameter.min, parameter.max]
  return parameter.scale === 'log' && min > 0 ? Math.log(max / min) : undefined
}

/**
 * [least ln price, spread of ln price] over the space; spread 0 where every configuration costs the
 * same.
 */
export function priceRange(problem: Problem): [lowest: number, span: number] {
  const logs = representatives(problem).map((c) => Math.log(problem.pricePerHour(c)))
  const lowest = Math.min(...logs)
  const span = Math.max(...logs) - lowest
  return [lowest, span > SAME_PRICE ? span : 0]
}

/** Whether the price ever depends on the parameter, all else equal. */
export const movesPrice = (problem: Problem, name: string): boolean =>
  priceLines(problem, name).some((line) =>
    line.some((logPrice) => Math.abs(logPrice - line[0]!) > SAME_PRICE),
  )

const LINES = 24
/**
 * Values of one parameter that tell how the price goes with it: a recorded table may have
 * thousands.
 */
const POINTS = 64
/** ln prices that differ by less are the same. */
const SAME_PRICE = 1e-9

/** ln prices along one parameter, in its order, from some configurations. */
function priceLines(problem: Problem, name: string): number[][] {
  const parameter = problem.space.parameters.find((p) => p.name === name)!
  const every = 'values' in parameter ? parameter.values : [parameter.min, parameter.max]
  const stride = Math.ceil(every.length / POINTS)
  const values = every.filter((_, i) => i % stride === 0)
  const all = representatives(problem)
  const bases = all.filter((_, i) => i % Math.ceil(all.length / LINES) === 0)
  return bases.map((base) =>
    values
      .map((value) => ({ ...base, [name]: value }))
      .filter((configuration) => satisfies(problem.space, configuration))
      .map((configuration) => Math.log(problem.pricePerHour(configuration))),
  )
}

const REPRESENTATIVES = 512
const representativesOf = remembered((space: SearchSpace): readonly Configuration[] => {
  const all = gridSize(space) <= GRID_LIMIT ? listed(space) : sampleSpace(space, REPRESENTATIVES)
  const stride = Math.ceil(all.length / REPRESENTATIVES)
  return all.filter((_, i) => i % stride === 0)
})

/** Up to 512 configurations spread over the space. */
export const representatives = ({ space }: Problem): readonly Configuration[] =>
  representativesOf(space)
