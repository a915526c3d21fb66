import { createSampler } from '../index.ts'
import type { Sampler } from '../types.ts'
import { plainReference } from './plain-reference.ts'

/** Samplers that the benchmark can run. */
export const variants: Readonly<Record<string, Sampler>> = {
  gp: createSampler('gp'),
  reference: plainReference,
  random: createSampler('random'),
  grid: createSampler('grid'),
  halton: createSampler('halton'),
}
