import type { Configuration, Parameter, RangeParameter, SearchSpace } from '../types.ts'

/**
 * Grids up to this many configurations are enumerated and scored whole; larger ones are sampled.
 */
export const GRID_LIMIT = 100_000

export const stepsOf = (p: RangeParameter): number | undefined =>
  p.kind === 'int' ? (p.step ?? 1) : p.step

/**
 * The values of a parameter in order, or undefined where there are infinitely many (a float without
 * a step).
 */
export function parameterValues(parameter: Parameter): readonly (number | string)[] | undefined {
  if (parameter.kind === 'ordinal' || parameter.kind === 'categorical') return parameter.values
  const step = stepsOf(parameter)
  if (step === undefined) return parameter.min === parameter.max ? [parameter.min] : undefined
  const count = Math.floor((parameter.max - parameter.min) / step + 1e-9) + 1
  return Array.from({ length: count }, (_, k) => roundOff(parameter.min + k * step))
}

/** 0.1 + 2 × 0.1 is 0.3, not 0.30000000000000004. */
const roundOff = (value: number): number => Number(value.toPrecision(12))

/** How many values a parameter has: Infinity for a float without a step. Counts without listing. */
function valueCount(parameter: Parameter): number {
  if (parameter.kind === 'ordinal' || parameter.kind === 'categorical')
    return parameter.values.length
  const step = stepsOf(parameter)
  if (parameter.min === parameter.max) return 1
  return step === undefined
    ? Infinity
    : Math.floor((parameter.max - parameter.min) / step + 1e-9) + 1
}

/** The value a parameter takes while its `when` does not hold: the first, or the least. */
export const defaultValue = (parameter: Parameter): number | string =>
  parameter.kind === 'ordinal' || parameter.kind === 'categorical'
    ? parameter.values[0]!
    : parameter.min

/**
 * How many configurations are listed, else the product of the parameters' value counts; Infinity
 * for a continuous space. An upper bound where conditions or constraints remove some.
 */
export const gridSize = (space: SearchSpace): number =>
  space.listed?.length ?? space.parameters.reduce((size, p) => size * valueCount(p), 1)

/**
 * Distinct configurations that satisfy conditions and constraints, counted exactly up to GRID_LIMIT
 * grid cells, else `gridSize`.
 */
export function spaceSize(space: SearchSpace): number {
  const size = gridSize(space)
  return size <= GRID_LIMIT ? enumerate(space).length : size
}

/**
 * Every configuration, as listed or the last parameter varying fastest; a parameter whose `when`
 * does not hold appears with its default only.
 * @throws Error where the grid has more than GRID_LIMIT cells (or infinitely many).
 */
export function enumerate(space: SearchSpace): Configuration[] {
  const size = gridSize(space)
  if (size > GRID_LIMIT)
    throw new Error(
      `a space of ${size} configurations cannot be enumerated (limit ${GRID_LIMIT}); sample it instead`,
    )
  if (space.listed) return space.listed.filter((configuration) => satisfies(space, configuration))
  let partial: Record<string, number | string>[] = [{}]
  for (const parameter of space.parameters) {
    const values = parameterValues(parameter)!
    partial = partial.flatMap((before) =>
      (isActive(parameter, before) ? values : [defaultValue(parameter)]).map((value) => ({
        ...before,
        [parameter.name]: value,
      })),
    )
  }
  return partial.filter((configuration) => satisfies(space, configuration))
}

export const isActive = (parameter: Parameter, configuration: Configuration): boolean =>
  parameter.when === undefined || parameter.when.holds(configuration)

/** Whether a configuration breaks none of the space's constraints. */
export const satisfies = (space: SearchSpace, configuration: Configuration): boolean =>
  space.constraints.every((constraint) => constraint.holds(configuration))

/** One text for equal configurations, whatever the order of their keys; no two others share it. */
export const configurationKey = (configuration: Configuration): string =>
  JSON.stringify(Object.entries(configuration).sort(([a], [b]) => (a < b ? -1 : 1)))

/** The same of all that is not named: alike for configurations that differ in these alone. */
export const configurationKeyWithout = (
  configuration: Configuration,
  names: ReadonlySet<string>,
): string =>
  configurationKey(
    Object.fromEntries(Object.entries(configuration).filter(([name]) => !names.has(name))),
  )

/**
 * The configuration at a point of the unit cube, one coordinate per parameter in order (log scales
 * are uniform in ln value); inactive parameters take their default. May break constraints.
 */
export function configurationAt(space: SearchSpace, unit: ArrayLike<number>): Configuration {
  const configuration: Record<string, number | string> = {}
  for (const [i, parameter] of space.parameters.entries())
    configuration[parameter.name] = isActive(parameter, configuration)
      ? valueAt(parameter, unit[i]!)
      : defaultValue(parameter)
  return configuration
}

function valueAt(parameter: Parameter, u: number): number | string {
  if (parameter.kind === 'ordinal' || parameter.kind === 'categorical')
    return parameter.values[
      Math.min(parameter.values.length - 1, Math.floor(u * parameter.values.length))
    ]!
  const { min, max } = parameter
  const logarithmic = parameter.scale === 'log' && min > 0
  const raw = logarithmic
    ? Math.exp(Math.log(min) + u * (Math.log(max) - Math.log(min)))
    : min + u * (max - min)
  return snap(parameter, raw)
}

/** The nearest value a range parameter may take. */
export function snap(parameter: RangeParameter, value: number): number {
  const step = stepsOf(parameter)
  const inside = Math.min(parameter.max, Math.max(parameter.min, value))
  if (step === undefined) return inside
  const last = Math.floor((parameter.max - parameter.min) / step + 1e-9)
  return roundOff(
    parameter.min + Math.min(last, Math.round((inside - parameter.min) / step)) * step,
  )
}
