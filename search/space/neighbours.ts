import type { Configuration, OrdinalParameter, Parameter, SearchSpace } from '../types.ts'
import {
  configurationKey,
  getDefaultValue,
  isActive,
  resolveStep,
  satisfiesConstraints,
  snap,
} from './space.ts'

/**
 * Finds configurations that differ in one parameter, for local search: two values on either side of
 * an ordered one, fixed shares of a range, and every other name of a categorical.
 */
export const findNeighbours = (space: SearchSpace, configuration: Configuration): Configuration[] =>
  varyOne(space, configuration, (parameter, value) => listNearbyValues(parameter, value, 2)).filter(
    (c) => satisfiesConstraints(space, c),
  )

/**
 * Positions along an ordered list that are searched for the next value that the space contains.
 * Assumed. Without a search, the family cherrypick takes 12.6 trials, not 10.8
 * (docs/research/search.md, tried without gain).
 */
const maxSkippedValues = 8
/** Steps along a range, as shares of it. Assumed. */
const rangeSteps = [0.01, 0.05, 0.2]

/**
 * Finds configurations at most two steps away, in one parameter or in two at once, so that one
 * resource can replace another. This is the poll step of a direct search (Audet and Dennis, 'Mesh
 * adaptive direct search algorithms', 2006). The last step along an ordered list continues to the
 * next value that the space contains, because a recorded table or a constrained space has gaps.
 */
export function findPollPoints(space: SearchSpace, configuration: Configuration): Configuration[] {
  const isAllowed = (c: Configuration) => satisfiesConstraints(space, c)
  const stepToNextAllowed = (c: Configuration) =>
    varyOne(space, c, (parameter, value) =>
      parameter.kind === 'ordinal'
        ? findNextAllowed(space, c, parameter, value as number)
        : listNearbyValues(parameter, value, 1),
    ).filter(isAllowed)
  const firstSteps = varyOne(space, configuration, (parameter, value) =>
    listNearbyValues(parameter, value, 1),
  )
  const points = new Map(
    [
      ...stepToNextAllowed(configuration),
      ...firstSteps.filter(isAllowed),
      ...firstSteps.flatMap(stepToNextAllowed),
    ].map((c) => [configurationKey(c), c]),
  )
  points.delete(configurationKey(configuration))
  return [...points.values()]
}

/** Finds the next value below and above along an ordered list that the space contains. */
function findNextAllowed(
  space: SearchSpace,
  configuration: Configuration,
  { name, values }: OrdinalParameter,
  value: number,
): number[] {
  const position = values.indexOf(value)
  const below = values.slice(Math.max(0, position - maxSkippedValues), position).reverse()
  const above = values.slice(position + 1, position + 1 + maxSkippedValues)
  const isAllowed = (v: number) =>
    satisfiesConstraints(space, resetInactive(space, { ...configuration, [name]: v }))
  return [below.find(isAllowed), above.find(isAllowed)].flatMap((v) => v ?? [])
}

/** Sets one active parameter at a time to each of its values from `listValues`. */
function varyOne(
  space: SearchSpace,
  configuration: Configuration,
  listValues: (parameter: Parameter, value: number | string) => (number | string)[],
): Configuration[] {
  return space.parameters
    .filter((parameter) => isActive(parameter, configuration))
    .flatMap((parameter) =>
      listValues(parameter, configuration[parameter.name]!).map((value) =>
        resetInactive(space, { ...configuration, [parameter.name]: value }),
      ),
    )
}

/**
 * Lists values near a value: along an ordered list up to `maxDistance` positions away; on a range
 * `rangeSteps` away, and one step.
 */
function listNearbyValues(
  parameter: Parameter,
  value: number | string,
  maxDistance: 1 | 2,
): (number | string)[] {
  if (parameter.kind === 'categorical') return parameter.values.filter((v) => v !== value)
  if (parameter.kind === 'ordinal') {
    const position = parameter.values.indexOf(value as number)
    const offsets = maxDistance === 1 ? [-1, 1] : [-2, -1, 1, 2]
    return offsets.flatMap((offset) => parameter.values[position + offset] ?? [])
  }
  const { min, max } = parameter
  const isLogarithmic = parameter.scale === 'log' && min > 0
  const nearby = rangeSteps
    .flatMap((share) => [-share, share])
    .map((share) =>
      isLogarithmic
        ? (value as number) * (max / min) ** share
        : (value as number) + share * (max - min),
    )
  const step = resolveStep(parameter)
  if (step !== undefined) nearby.push((value as number) - step, (value as number) + step)
  return [...new Set(nearby.map((v) => snap(parameter, v)))].filter((v) => v !== value)
}

/** Resets every inactive parameter to its default. */
function resetInactive(space: SearchSpace, configuration: Configuration): Configuration {
  const reset: Record<string, number | string> = {}
  for (const parameter of space.parameters)
    reset[parameter.name] = isActive(parameter, reset)
      ? configuration[parameter.name]!
      : getDefaultValue(parameter)
  return reset
}
