import type { Configuration, Parameter, RangeParameter, SearchSpace } from './types.ts'

/**
 * Grids up to this many configurations are enumerated and scored whole; larger ones are sampled.
 */
export const GRID_LIMIT = 100_000

const stepsOf = (p: RangeParameter): number | undefined =>
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

const isActive = (parameter: Parameter, configuration: Configuration): boolean =>
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

/**
 * Configurations that differ in one parameter: the next values either side of an ordered one, every
 * other name of a categorical.
 */
export const neighbours = (space: SearchSpace, configuration: Configuration): Configuration[] =>
  moved(space, configuration, (parameter, value) => nearbyValues(parameter, value, 2)).filter((c) =>
    satisfies(space, c),
  )

/** Values that may be missing on the way to the next one, and one. */
const FARTHEST = 8

/**
 * What is two steps at most from a configuration in all: the values beside its own, in one
 * parameter or in two at once, so that one resource can be had for another, whatever lies between.
 * The last step along an ordered list goes on to the next value that the space has: of recorded
 * configurations, or of what constraints leave, few may be side by side. The poll of a direct
 * search (Audet and Dennis, 'Mesh adaptive direct search algorithms', 2006).
 */
export function around(space: SearchSpace, configuration: Configuration): Configuration[] {
  const fits = (c: Configuration) => satisfies(space, c)
  const onwards = (c: Configuration) =>
    moved(space, c, (parameter, value) => {
      if (parameter.kind !== 'ordinal') return nearbyValues(parameter, value, 1)
      const at = parameter.values.indexOf(value as number)
      const there = (v: number) => fits(repair(space, { ...c, [parameter.name]: v }))
      const below = parameter.values.slice(Math.max(0, at - FARTHEST), at).reverse()
      return [
        below.find(there),
        parameter.values.slice(at + 1, at + 1 + FARTHEST).find(there),
      ].flatMap((v) => v ?? [])
    }).filter(fits)
  const first = moved(space, configuration, (parameter, value) => nearbyValues(parameter, value, 1))
  const found = new Map(
    [...onwards(configuration), ...first.filter(fits), ...first.flatMap(onwards)].map((c) => [
      configurationKey(c),
      c,
    ]),
  )
  found.delete(configurationKey(configuration))
  return [...found.values()]
}

/** A configuration with each active parameter moved to each of some values. */
function moved(
  space: SearchSpace,
  configuration: Configuration,
  to: (parameter: Parameter, value: number | string) => (number | string)[],
): Configuration[] {
  return space.parameters
    .filter((parameter) => isActive(parameter, configuration))
    .flatMap((parameter) =>
      to(parameter, configuration[parameter.name]!).map((value) =>
        repair(space, { ...configuration, [parameter.name]: value }),
      ),
    )
}

function nearbyValues(
  parameter: Parameter,
  value: number | string,
  reach: 1 | 2,
): (number | string)[] {
  if (parameter.kind === 'categorical') return parameter.values.filter((v) => v !== value)
  if (parameter.kind === 'ordinal') {
    const at = parameter.values.indexOf(value as number)
    return (reach === 1 ? [at - 1, at + 1] : [at - 2, at - 1, at + 1, at + 2]).flatMap(
      (i) => parameter.values[i] ?? [],
    )
  }
  const { min, max } = parameter
  const logarithmic = parameter.scale === 'log' && min > 0
  const strides = [0.01, 0.05, 0.2].flatMap((s) => [-s, s])
  const moved = strides.map((s) =>
    logarithmic ? (value as number) * (max / min) ** s : (value as number) + s * (max - min),
  )
  const step = stepsOf(parameter)
  if (step !== undefined) moved.push((value as number) - step, (value as number) + step)
  return [...new Set(moved.map((v) => snap(parameter, v)))].filter((v) => v !== value)
}

/** Gives every inactive parameter its default. */
function repair(space: SearchSpace, configuration: Configuration): Configuration {
  const repaired: Record<string, number | string> = {}
  for (const parameter of space.parameters)
    repaired[parameter.name] = isActive(parameter, repaired)
      ? configuration[parameter.name]!
      : defaultValue(parameter)
  return repaired
}

/** What is wrong with a space, all of it, in words; empty when nothing is. */
export function validateSpace(space: SearchSpace): string[] {
  const wrong: string[] = []
  if (space.parameters.length === 0) wrong.push('the search space has no parameters')
  const names = new Set<string>()
  for (const p of space.parameters) {
    if (names.has(p.name)) wrong.push(`parameter ${p.name} is declared twice`)
    names.add(p.name)
    wrong.push(...parameterFaults(p).map((fault) => `parameter ${p.name}: ${fault}`))
  }
  if (wrong.length === 0 && gridSize(space) <= GRID_LIMIT && enumerate(space).length === 0)
    wrong.push(
      `no configuration satisfies ${space.constraints.map((c) => `'${c.text}'`).join(' and ')}`,
    )
  return wrong
}

function parameterFaults(p: Parameter): string[] {
  if (p.kind === 'ordinal' || p.kind === 'categorical') {
    const faults: string[] = []
    if (p.values.length === 0) faults.push('has no values')
    if (new Set<number | string>(p.values).size < p.values.length)
      faults.push('lists a value twice')
    if (p.kind === 'ordinal') {
      if (p.values.some((v) => !Number.isFinite(v)))
        faults.push('has a value that is not a finite number')
      if (p.values.some((v, i) => i > 0 && v < p.values[i - 1]!)) faults.push('values must ascend')
    } else if (p.features) {
      const widths = new Set(p.values.map((v) => p.features?.[v]?.length ?? -1))
      if (widths.has(-1))
        faults.push(`has no features for ${p.values.filter((v) => !p.features?.[v]).join(', ')}`)
      else if (widths.size > 1) faults.push('has values with different numbers of features')
      else if (p.values.some((v) => p.features?.[v]?.some((f) => !Number.isFinite(f))))
        faults.push('has a feature that is not a finite number')
    }
    return faults
  }
  const faults: string[] = []
  if (!Number.isFinite(p.min) || !Number.isFinite(p.max))
    faults.push('min and max must be finite numbers')
  else if (p.min > p.max) faults.push(`min ${p.min} exceeds max ${p.max}`)
  if (p.step !== undefined && !(p.step > 0)) faults.push(`step ${p.step} must be positive`)
  if (p.scale === 'log' && p.min <= 0) faults.push(`a log scale needs min > 0, not ${p.min}`)
  if (p.kind === 'int' && ![p.min, p.max, p.step ?? 1].every(Number.isInteger))
    faults.push('min, max and step of an int must be whole numbers')
  return faults
}

/** What is wrong with a configuration of a space, in words; empty when nothing is. */
export function validateConfiguration(space: SearchSpace, configuration: Configuration): string[] {
  const wrong: string[] = []
  for (const p of space.parameters) {
    const value = configuration[p.name]
    if (value === undefined) wrong.push(`${p.name} is missing`)
    else if (!isActive(p, configuration)) {
      if (value !== defaultValue(p))
        wrong.push(`${p.name} = ${value}, but it must be ${defaultValue(p)} unless ${p.when?.text}`)
    } else if (!takes(p, value)) wrong.push(`${p.name} cannot be ${value}`)
  }
  for (const constraint of space.constraints)
    if (!constraint.holds(configuration)) wrong.push(`breaks '${constraint.text}'`)
  return wrong
}

function takes(p: Parameter, value: number | string): boolean {
  if (p.kind === 'ordinal') return typeof value === 'number' && p.values.includes(value)
  if (p.kind === 'categorical') return typeof value === 'string' && p.values.includes(value)
  return (
    typeof value === 'number' &&
    value >= p.min &&
    value <= p.max &&
    Math.abs(snap(p, value) - value) <= 1e-9 * Math.max(1, Math.abs(value))
  )
}
