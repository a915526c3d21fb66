import type { Configuration, Parameter, RangeParameter, SearchSpace } from '../types.ts'

/**
 * Grids with at most this many cells are enumerated; larger spaces are sampled. A suggestion from
 * this many takes 0.12 s, the stop rule 1.5 s (search/bench/suggest.bench.ts).
 */
export const maxEnumeratedConfigurations = 100_000

/** Resolves the distance between neighbouring values; undefined for a float without a step. */
export const resolveStep = (p: RangeParameter): number | undefined =>
  p.kind === 'int' ? (p.step ?? 1) : p.step

/**
 * Lists the values of a parameter in order, or undefined where there are infinitely many (a float
 * without a step).
 */
export function listParameterValues(
  parameter: Parameter,
): readonly (number | string)[] | undefined {
  if (parameter.kind === 'ordinal' || parameter.kind === 'categorical') return parameter.values
  const step = resolveStep(parameter)
  if (step === undefined) return parameter.min === parameter.max ? [parameter.min] : undefined
  const count = Math.floor((parameter.max - parameter.min) / step + 1e-9) + 1
  return Array.from({ length: count }, (_, k) => dropRoundingError(parameter.min + k * step))
}

/** Drops the rounding error: 0.1 + 2 × 0.1 is 0.3, not 0.30000000000000004. */
const dropRoundingError = (value: number): number => Number(value.toPrecision(12))

/** Counts the values of a parameter without listing them; Infinity for a float without a step. */
function countValues(parameter: Parameter): number {
  if (parameter.kind === 'ordinal' || parameter.kind === 'categorical')
    return parameter.values.length
  const step = resolveStep(parameter)
  if (parameter.min === parameter.max) return 1
  return step === undefined
    ? Infinity
    : Math.floor((parameter.max - parameter.min) / step + 1e-9) + 1
}

/** Gets the value of an inactive parameter: the first, or the minimum. */
export const getDefaultValue = (parameter: Parameter): number | string =>
  parameter.kind === 'ordinal' || parameter.kind === 'categorical'
    ? parameter.values[0]!
    : parameter.min

/**
 * Counts the listed configurations, else the product of the parameters' value counts; Infinity for
 * a continuous space. Conditions and constraints may leave fewer configurations.
 */
export const countGridCells = (space: SearchSpace): number =>
  space.listed?.length ?? space.parameters.reduce((size, p) => size * countValues(p), 1)

/**
 * Counts the distinct configurations that satisfy conditions and constraints. Exact up to
 * `maxEnumeratedConfigurations` grid cells, else the number of cells.
 */
export function countConfigurations(space: SearchSpace): number {
  const size = countGridCells(space)
  return size <= maxEnumeratedConfigurations ? enumerateConfigurations(space).length : size
}

/**
 * Enumerates the configurations that satisfy the constraints, in listed order or with the last
 * parameter varying fastest. An inactive parameter has its default.
 * @throws Error for a grid of more than `maxEnumeratedConfigurations` cells
 */
export function enumerateConfigurations(space: SearchSpace): Configuration[] {
  const size = countGridCells(space)
  if (size > maxEnumeratedConfigurations)
    throw new Error(
      `a space of ${size} configurations cannot be enumerated (limit ${maxEnumeratedConfigurations}); sample it instead`,
    )
  if (space.listed)
    return space.listed.filter((configuration) => satisfiesConstraints(space, configuration))
  let partial: Record<string, number | string>[] = [{}]
  for (const parameter of space.parameters) {
    const values = listParameterValues(parameter)!
    partial = partial.flatMap((before) =>
      (isActive(parameter, before) ? values : [getDefaultValue(parameter)]).map((value) => ({
        ...before,
        [parameter.name]: value,
      })),
    )
  }
  return partial.filter((configuration) => satisfiesConstraints(space, configuration))
}

export const isActive = (parameter: Parameter, configuration: Configuration): boolean =>
  parameter.when === undefined || parameter.when.holds(configuration)

/** Whether a configuration satisfies all constraints of the space. */
export const satisfiesConstraints = (space: SearchSpace, configuration: Configuration): boolean =>
  space.constraints.every((constraint) => constraint.holds(configuration))

/** Creates a unique key of a configuration, independent of the order of its fields. */
export const configurationKey = (configuration: Configuration): string =>
  JSON.stringify(Object.entries(configuration).sort(([a], [b]) => (a < b ? -1 : 1)))

/** Creates a key without some parameters: equal for configurations that differ in these alone. */
export const createKeyWithout = (
  configuration: Configuration,
  names: ReadonlySet<string>,
): string =>
  configurationKey(
    Object.fromEntries(Object.entries(configuration).filter(([name]) => !names.has(name))),
  )

/**
 * Decodes the configuration at a point of the unit cube, with one coordinate for each parameter.
 * Log scales are uniform in ln value; inactive parameters have their default. Constraints may be
 * violated.
 */
export function decodeConfiguration(space: SearchSpace, unit: ArrayLike<number>): Configuration {
  const configuration: Record<string, number | string> = {}
  for (const [i, parameter] of space.parameters.entries())
    configuration[parameter.name] = isActive(parameter, configuration)
      ? decodeValue(parameter, unit[i]!)
      : getDefaultValue(parameter)
  return configuration
}

function decodeValue(parameter: Parameter, u: number): number | string {
  if (parameter.kind === 'ordinal' || parameter.kind === 'categorical')
    return parameter.values[
      Math.min(parameter.values.length - 1, Math.floor(u * parameter.values.length))
    ]!
  const { min, max } = parameter
  const isLogarithmic = parameter.scale === 'log' && min > 0
  const raw = isLogarithmic
    ? Math.exp(Math.log(min) + u * (Math.log(max) - Math.log(min)))
    : min + u * (max - min)
  return snap(parameter, raw)
}

/** Finds the nearest permitted value of a range parameter. */
export function snap(parameter: RangeParameter, value: number): number {
  const step = resolveStep(parameter)
  const clamped = Math.min(parameter.max, Math.max(parameter.min, value))
  if (step === undefined) return clamped
  const last = Math.floor((parameter.max - parameter.min) / step + 1e-9)
  return dropRoundingError(
    parameter.min + Math.min(last, Math.round((clamped - parameter.min) / step)) * step,
  )
}
