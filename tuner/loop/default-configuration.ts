/** The yardstick of the gain: what an engineer would deploy without tuning. */
import { defaultValue, satisfies } from '../../search/index.ts'
import type { Configuration, Parameter, Problem, SearchSpace } from '../../search/types.ts'

/**
 * One whole GPU of the cheapest model in the space, batch 1, everything else at the middle of its range (a lower price per hour makes a
 * harder yardstick, so the gain is not flattered). Undefined when the space holds nothing of the kind.
 */
export function defaultConfiguration(problem: Problem): Configuration | undefined {
  const { space } = problem
  const gpu = space.parameters.find((p) => p.name === 'gpu')
  const models = gpu?.kind === 'categorical' ? gpu.values : [undefined]
  const candidates = models.map((model) => configurationWith(space, model)).filter((c) => satisfies(space, c) && !problem.cannotServe?.(c))
  return candidates.reduce<Configuration | undefined>(
    (best, c) => (best === undefined || problem.pricePerHour(c) < problem.pricePerHour(best) ? c : best),
    undefined,
  )
}

/** A parameter whose `when` does not hold keeps its default. */
function configurationWith({ parameters }: SearchSpace, gpu: string | undefined): Configuration {
  const chosen: Record<string, number | string> = {}
  for (const parameter of parameters) {
    const applies = parameter.when?.holds(chosen) ?? true
    chosen[parameter.name] = !applies ? defaultValue(parameter) : parameter.name === 'gpu' && gpu ? gpu : typical(parameter)
  }
  return chosen
}

function typical(parameter: Parameter): number | string {
  if (parameter.kind === 'categorical') return parameter.values[0]!
  const values = parameter.kind === 'ordinal' ? [...parameter.values].sort((a, b) => a - b) : undefined
  if (parameter.name === 'batchSize') return values?.[0] ?? (parameter.kind === 'ordinal' ? 1 : parameter.min)
  if (parameter.name === 'gpuMemoryPercent') return values?.at(-1) ?? (parameter.kind === 'ordinal' ? 100 : parameter.max)
  if (values) return values[Math.floor((values.length - 1) / 2)]!
  if (parameter.kind === 'ordinal') throw new RangeError(`parameter ${parameter.name} has no values`)
  const middle =
    parameter.scale === 'log' && parameter.min > 0 ? Math.sqrt(parameter.min * parameter.max) : (parameter.min + parameter.max) / 2
  const stepped = parameter.step ? parameter.min + Math.round((middle - parameter.min) / parameter.step) * parameter.step : middle
  return parameter.kind === 'int' ? Math.round(stepped) : stepped
}
