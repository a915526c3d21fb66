import { Matrix } from 'ml-matrix'
import { sampleSpace } from './candidates.ts'
import { createEncoder } from './encoding.ts'
import type { GpShape } from './gp.ts'
import { enumerate, GRID_LIMIT, gridSize } from './space.ts'
import type { Configuration, Parameter, Problem } from './types.ts'

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
const PRICE_ELASTICITY = 0.7
const PRICE_ELASTICITY_SD = 0.3
const LINEAR_SD = 1
const NAME_SD = 0.5
const OFFSET_SD = 10
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
    ...encoder.columns.map((c) => ({ group: c.group, ...slope(parameters.get(c.parameter)!, direction, strength) })),
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
      return new Matrix(
        configurations.map((c, i) => {
          const price = priced ? [(Math.log(problem.pricePerHour(c)) - lowest) / span] : []
          return [...encoder.encode(c), ...price, 1, ...(known?.[i] ?? [])]
        }),
      )
    },
  }
}

/** Prior of the change across a parameter's whole range; with certain knowledge its sign. */
function slope(parameter: Parameter, direction: number, strength: number): { mean: number; sd: number } {
  if (parameter.kind === 'categorical') return { mean: 0, sd: NAME_SD * strength }
  const [min, max] = parameter.kind === 'ordinal' ? [parameter.values[0]!, parameter.values.at(-1)!] : [parameter.min, parameter.max]
  const logarithmic = parameter.scale === 'log' && min > 0
  const sd = strength * (logarithmic ? ELASTICITY_SD * Math.max(0.5, Math.log(max / min)) : LINEAR_SD)
  const sign = parameter.monotone === undefined ? 0 : parameter.monotone === 'up' ? 1 : -1
  return { mean: 0.5 * sign * direction * sd, sd }
}

/** [least ln price, spread of ln price] over the space; spread 0 where every configuration costs the same. */
export function priceRange(problem: Problem): [number, number] {
  const logs = representatives(problem).map((c) => Math.log(problem.pricePerHour(c)))
  const lowest = Math.min(...logs)
  return [lowest, Math.max(...logs) - lowest]
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
