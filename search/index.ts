/** The search: pure functions from what was measured to what to measure next, and whether to stop. */
import { gpSampler } from './samplers/gp.ts'
import { gridSampler } from './samplers/grid.ts'
import { haltonSampler, sobolSampler } from './samplers/quasi-random.ts'
import { randomSampler } from './samplers/random.ts'
import type { Sampler } from './types.ts'

const samplers: readonly Sampler[] = [gpSampler, randomSampler, gridSampler, sobolSampler, haltonSampler]

/** Names `createSampler` knows; the first is the default. */
export const samplerNames: readonly string[] = samplers.map((s) => s.name)

/**
 * The sampler of a name.
 * @throws RangeError for an unknown name, listing the known ones.
 */
export function createSampler(name = 'gp'): Sampler {
  const sampler = samplers.find((s) => s.name === name)
  if (!sampler) throw new RangeError(`unknown sampler '${name}'; known are ${samplerNames.join(', ')}`)
  return sampler
}

export { paretoFront } from './non-dominated.ts'
export { logCost } from './objective.ts'
export { bestObservation, meetsConstraint, observedLogCost } from './observed-cost.ts'
export { createRng } from './rng.ts'
export * from './space.ts'
export { assessStop, type StopOptions } from './stopping.ts'
export type * from './types.ts'
