import { Matrix } from 'ml-matrix'
import { createEncoder } from './encoding.ts'
import type { GpShape } from './gp-model.ts'
import { enumerate, GRID_LIMIT, gridSize, satisfies } from './space.ts'
import type { Configuration, Parameter, Problem } from './types.ts'
import { sampleSpace } from './untried.ts'

/** What is modelled, and how it moves with price: a dearer configuration serves more, and takes less time. */
export type Quantity = 'rate' | 'constraint' | 'serves'
const DIRECTION: Readonly<Record<Quantity, number>> = { rate: 1, constraint: -1, serves: 0 }

/** What is known of a quantity from outside the experiment, physics or past experiments, as further columns of the trend. */
export interface Knowledge {
  /** Prior mean and standard deviation of each further column's slope (k). */
  readonly slopes: readonly (readonly [mean: number, sd: number])[]
  /** The further columns of configurations, m×k. */
  readonly columns: (configurations: readonly Configuration[]) => readonly (readonly number[])[]
  /** How much of the trend's own prior spread is left to correct this knowledge. */
  readonly correction: number
  readonly offsetSd: number
  /** ln of how much likelier the data must be with it than without before it is believed; negative where it is right far more often than not. */
  readonly burden: number
  /** LogNormal prior of the residual's variance, where it is known to be small. */
  readonly signal?: readonly [mu: number, sigma: number]
}

/** Turns configurations into the design matrix of a Gaussian process, with what is believed of each column before any trial. */
export interface Design {
  /** Lengthscales. */
  readonly groups: number
  readonly shape: GpShape
  /** m×d. */
  rows(configurations: readonly Configuration[]): Matrix
}

// Elasticities, d ln(quantity) / d ln(parameter), lie between 0 and 1 for what is shared or scaled out (Amdahl's law): prior spread 0.5.
const ELASTICITY_SD = 0.5
// The quantity against ln price: less than in proportion, 0.7 ± 0.3.
export const PRICE_ELASTICITY = 0.7
export const PRICE_ELASTICITY_SD = 0.3
const LINEAR_SD = 1
// Of what sets how many are served at once: rate and latency share the increase.
const CONCURRENCY_ELASTICITY = 0.5
const CONCURRENCY_SD = 0.25
const NAME_SD = 0.5
export const OFFSET_SD = 10
const SERVES_OFFSET = { mean: 1, sd: 1 }

export interface DesignOptions {
  /** Leaves ln price out of the columns (for the ablation). */
  readonly withoutPrice?: boolean
}

/**
 * Columns: the encoded parameters; ln price, exactly known and a proxy of size that joins unlike resources on one axis; ones; and what
 * further knowledge there is.
 */
export function createDesign(
  problem: Problem,
  quantity: Quantity,
  knowledge?: Knowledge,
  { withoutPrice = false }: DesignOptions = {},
): Design {
  const encoder = createEncoder(problem.space)
  const parameters = new Map(problem.space.parameters.map((p) => [p.name, p]))
  const strength = knowledge?.correction ?? 1
  const direction = knowledge ? 0 : DIRECTION[quantity]
  const [lowest, span] = withoutPrice ? [0, 0] : priceRange(problem)
  const priced = span > 1e-9
  const offset = knowledge ? { mean: 0, sd: knowledge.offsetSd } : quantity === 'serves' ? SERVES_OFFSET : { mean: 0, sd: OFFSET_SD }
  const columns = [
    ...encoder.columns.map((c) => {
      const parameter = parameters.get(c.parameter)!
      const known = knowledge ? undefined : concurrencySlope(problem, parameter, quantity)
      return { group: c.group, ...(known ?? slope(parameter, direction, strength)) }
    }),
    ...(priced ? [{ group: encoder.groups, mean: direction * PRICE_ELASTICITY * span, sd: PRICE_ELASTICITY_SD * span * strength }] : []),
    { group: -1, ...offset },
    ...(knowledge?.slopes ?? []).map(([mean, sd]) => ({ group: -1, mean, sd })),
  ]
  return {
    groups: encoder.groups + (priced ? 1 : 0),
    shape: {
      groups: columns.map((c) => c.group),
      slopeMean: Float64Array.from(columns, (c) => c.mean),
      slopeVariance: Float64Array.from(columns, (c) => c.sd * c.sd),
    },
    rows(configurations) {
      if (configurations.length === 0) return Matrix.zeros(0, columns.length)
      const known = knowledge?.columns(configurations)
      const X = new Matrix(configurations.length, columns.length)
      for (const [i, c] of configurations.entries()) {
        let j = 0
        for (const value of encoder.encode(c)) X.set(i, j++, value)
        if (priced) X.set(i, j++, (Math.log(problem.pricePerHour(c)) - lowest) / span)
        X.set(i, j++, 1)
        for (const value of known?.[i] ?? []) X.set(i, j++, value)
      }
      return X
    },
  }
}

/** Prior mean and standard deviation of the change of a quantity across a parameter's whole range. */
export interface Slope {
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

/** Of a parameter that says how many are served at once; undefined of others, and of a metric without load, which does not depend on it. */
export function concurrencySlope(problem: Problem, parameter: Parameter, quantity: Quantity): Slope | undefined {
  const reach = parameter.concurrency && parameter.kind !== 'categorical' ? logReach(parameter) : undefined
  if (reach === undefined || quantity === 'serves' || (quantity === 'constraint' && !problem.constraintAtRate)) return undefined
  return { mean: CONCURRENCY_ELASTICITY * reach, sd: CONCURRENCY_SD * reach }
}

/** ln(max / min) of an axis in logarithms; undefined of a linear one. */
export function logReach(parameter: Exclude<Parameter, { kind: 'categorical' }>): number | undefined {
  const [min, max] = parameter.kind === 'ordinal' ? [parameter.values[0]!, parameter.values.at(-1)!] : [parameter.min, parameter.max]
  return parameter.scale === 'log' && min > 0 ? Math.log(max / min) : undefined
}

/** [least ln price, spread of ln price] over the space; spread 0 where every configuration costs the same. */
export function priceRange(problem: Problem): [number, number] {
  const logs = representatives(problem).map((c) => Math.log(problem.pricePerHour(c)))
  const lowest = Math.min(...logs)
  return [lowest, Math.max(...logs) - lowest]
}

const raising = new WeakMap<Problem['space'], ReadonlySet<string>>()

/** Ordered parameters of which more costs more, all else equal: resources. Remembered for each space object. */
export function priceRaising(problem: Problem): ReadonlySet<string> {
  const known = raising.get(problem.space)
  if (known) return known
  const found = new Set(
    problem.space.parameters.flatMap(({ name, kind }) => {
      if (kind === 'categorical') return []
      const lines = priceLines(problem, name)
      const steps = lines.flatMap((line) => line.slice(1).map((point, i) => point.logPrice - line[i]!.logPrice))
      return steps.length > 0 && steps.every((step) => step > 1e-9) ? [name] : []
    }),
  )
  raising.set(problem.space, found)
  return found
}

/** Whether the price ever depends on the parameter, all else equal. */
export const movesPrice = (problem: Problem, name: string): boolean =>
  priceLines(problem, name).some((line) => line.some((point) => Math.abs(point.logPrice - line[0]!.logPrice) > 1e-9))

const LINES = 24

/** Configurations that differ in one parameter alone, in its order, with ln price. */
function priceLines(problem: Problem, name: string): { value: number; logPrice: number }[][] {
  const parameter = problem.space.parameters.find((p) => p.name === name)!
  const values = 'values' in parameter ? parameter.values : [parameter.min, parameter.max]
  const all = representatives(problem)
  const bases = all.filter((_, i) => i % Math.ceil(all.length / LINES) === 0)
  return bases.map((base) =>
    values
      .map((value) => ({ ...base, [name]: value }))
      .filter((configuration) => satisfies(problem.space, configuration))
      .map((configuration) => ({ value: Number(configuration[name]), logPrice: Math.log(problem.pricePerHour(configuration)) })),
  )
}

const REPRESENTATIVES = 512
const remembered = new WeakMap<Problem['space'], readonly Configuration[]>()

/** Up to 512 configurations spread over the space. Remembered for each space object. */
export function representatives({ space }: Problem): readonly Configuration[] {
  let found = remembered.get(space)
  if (!found) {
    const all = gridSize(space) <= GRID_LIMIT ? enumerate(space) : sampleSpace(space, REPRESENTATIVES)
    const stride = Math.max(1, Math.ceil(all.length / REPRESENTATIVES))
    found = all.filter((_, i) => i % stride === 0)
    remembered.set(space, found)
  }
  return found
}
