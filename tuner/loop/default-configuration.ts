/** The yardstick of the gain: what an engineer would deploy without tuning. */
import { defaultValue, satisfiesConstraints, snap } from '../../search/index.ts'
import type { Configuration, Parameter, Problem, SearchSpace } from '../../search/types.ts'
import { poolParameters } from '../../trials/resources.ts'

/**
 * One whole GPU of the cheapest model in the space, batch 1, everything else at the middle of its
 * range (a lower price per hour makes a harder yardstick, so the gain is not flattered). Undefined
 * when the space holds nothing of the kind.
 */
export function defaultConfiguration(problem: Problem): Configuration | undefined {
  const { space } = problem
  const gpu = space.parameters.find((p) => p.name === 'gpu')
  const models = gpu?.kind === 'categorical' ? gpu.values : [undefined]
  const candidates = models
    .map((model) => configurationWith(space, model))
    .filter((c) => satisfiesConstraints(space, c) && !problem.cannotServe?.(c))
  return candidates.reduce<Configuration | undefined>(
    (best, c) =>
      best === undefined || problem.pricePerHour(c) < problem.pricePerHour(best) ? c : best,
    undefined,
  )
}

/** A parameter whose `when` does not hold keeps its default. */
function configurationWith({ parameters }: SearchSpace, gpu: string | undefined): Configuration {
  const chosen: Record<string, number | string> = {}
  for (const parameter of parameters) {
    const applies = parameter.when?.holds(chosen) ?? true
    chosen[parameter.name] = !applies
      ? defaultValue(parameter)
      : parameter.name === 'gpu' && gpu
        ? gpu
        : typical(parameter)
  }
  return chosen
}

/**
 * Batch 1 or the least there is, one server for prompts and answers, all of the GPU or the most
 * there is, and the middle of the rest; of names the first.
 */
function typical(parameter: Parameter): number | string {
  if (parameter.kind === 'categorical') return parameter.values[0]!
  const [least, middle, most] = spanOf(parameter)
  return fewest.has(parameter.name) ? least : parameter.name === 'gpuMemoryPercent' ? most : middle
}

const fewest: ReadonlySet<string> = new Set(['batchSize', ...poolParameters])

/** Values that it may take; of an even number of them the lower of the middle two. */
function spanOf(
  parameter: Exclude<Parameter, { kind: 'categorical' }>,
): readonly [least: number, middle: number, most: number] {
  if (parameter.kind === 'ordinal') {
    const { values } = parameter
    return [values[0]!, values[Math.floor((values.length - 1) / 2)]!, values.at(-1)!]
  }
  const { min, max, scale } = parameter
  const middle = scale === 'log' ? Math.sqrt(min * max) : (min + max) / 2
  return [min, snap(parameter, middle), snap(parameter, max)]
}
