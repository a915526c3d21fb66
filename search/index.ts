/** The search: pure functions from observations to the next configuration and the stop decision. */
import { gpSampler } from './samplers/gp.ts'
import { gridSampler } from './samplers/grid.ts'
import { haltonSampler, sobolSampler } from './samplers/quasi-random.ts'
import { randomSampler } from './samplers/random.ts'
import { type SamplerName, samplerNames } from './samplers/sampler-names.ts'
import type { Sampler } from './types.ts'

const samplers: Readonly<Record<SamplerName, Sampler>> = {
  gp: gpSampler,
  random: randomSampler,
  grid: gridSampler,
  sobol: sobolSampler,
  halton: haltonSampler,
}

/**
 * Creates the sampler with a name, by default `gp`.
 * @throws RangeError for an unknown name; the message lists the known names
 */
export function createSampler(name: string = samplerNames[0]): Sampler {
  const sampler = samplerNames.find((known) => known === name)
  if (!sampler)
    throw new RangeError(`unknown sampler '${name}'; known are ${samplerNames.join(', ')}`)
  return samplers[sampler]
}

export { computeLogCost } from './objective.ts'
export { computeObservedLogCost, findBestObservation, meetsConstraint } from './observed-cost.ts'
export { createRng } from './rng.ts'
export * from './space/space.ts'
export { validateConfiguration, validateSpace } from './space/validation.ts'
export { assessStop, type StopOptions } from './stopping/stop-rule.ts'
export type * from './types.ts'
