import type { Configuration, Parameter, SearchSpace } from '../types.ts'
import { configurationKey, defaultValue, isActive, satisfies, snap, stepsOf } from './space.ts'

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
