import { createSampler } from '../index.ts'
import type { Sampler } from '../types.ts'

/** What the benchmark can run: the samplers, and the default one with parts taken out. */
export const variants: Readonly<Record<string, Sampler>> = {
  gp: createSampler('gp'),
  random: createSampler('random'),
  grid: createSampler('grid'),
  halton: createSampler('halton'),
}
