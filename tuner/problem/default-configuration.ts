/** The baseline: the configuration that an engineer would deploy without tuning. */
import { getDefaultValue, satisfiesConstraints, snap } from '../../search/index.ts'
import type { Configuration, Parameter, Problem, SearchSpace } from '../../search/types.ts'
import { poolParameters } from '../../trials/resources.ts'

/**
 * Chooses one whole GPU of the cheapest model in the space, batch 1, and the middle of other
 * ranges, except GPU memory: its maximum. The cheapest GPU makes the baseline hard to beat, so that
 * the gain is not exaggerated. Undefined where the space has no such configuration.
 */
export function chooseDefaultConfiguration(problem: Problem): Configuration | undefined {
  const { space } = problem
  const gpu = space.parameters.find(({ name }) => name === 'gpu')
  const gpuModels = gpu?.kind === 'categorical' ? gpu.values : [undefined]
  const candidates = gpuModels
    .map((model) => chooseConfiguration(space, model))
    .filter((c) => satisfiesConstraints(space, c) && !problem.cannotServe?.(c))
  return candidates.reduce<Configuration | undefined>(
    (best, c) =>
      best === undefined || problem.pricePerHour(c) < problem.pricePerHour(best) ? c : best,
    undefined,
  )
}

/** Chooses typical values. A parameter whose `when` condition does not hold has its default. */
function chooseConfiguration({ parameters }: SearchSpace, gpu: string | undefined): Configuration {
  const configuration: Record<string, number | string> = {}
  for (const parameter of parameters) {
    const isActive = parameter.when?.holds(configuration) ?? true
    configuration[parameter.name] = !isActive
      ? getDefaultValue(parameter)
      : parameter.name === 'gpu' && gpu
        ? gpu
        : chooseTypicalValue(parameter)
  }
  return configuration
}

/** Parameters with the minimum as typical value: batches of one, one server for all phases. */
const minimisedParameters: ReadonlySet<string> = new Set(['batchSize', ...poolParameters])
/** Parameters with the maximum as typical value. */
const maximisedParameters: ReadonlySet<string> = new Set(['gpuMemoryPercent'])

/** Chooses the first name, or the middle of a numeric range: the lower one of two middle values. */
function chooseTypicalValue(parameter: Parameter): number | string {
  if (parameter.kind === 'categorical') return parameter.values[0]!
  const isMinimised = minimisedParameters.has(parameter.name)
  const isMaximised = maximisedParameters.has(parameter.name)
  if (parameter.kind === 'ordinal') {
    const { values } = parameter
    if (isMinimised) return values[0]!
    return isMaximised ? values.at(-1)! : values[Math.floor((values.length - 1) / 2)]!
  }
  const { min, max, scale } = parameter
  if (isMinimised) return min
  if (isMaximised) return snap(parameter, max)
  return snap(parameter, scale === 'log' ? Math.sqrt(min * max) : (min + max) / 2)
}
