import { createSampler } from '../index.ts'
import { createGpSampler } from '../samplers/gp.ts'
import type { Sampler } from '../types.ts'

/** What the benchmark can run: the samplers, and the default one with a part taken out or put in. */
export const variants: Readonly<Record<string, Sampler>> = {
  gp: createSampler('gp'),
  random: createSampler('random'),
  grid: createSampler('grid'),
  halton: createSampler('halton'),
  'gp-bilog': createGpSampler({ bilog: true }),
  'gp-without-price': createGpSampler({ withoutPrice: true }),
  'gp-without-history': createGpSampler({ withoutHistory: true }),
  'gp-5-starts': createGpSampler({ starts: 5 }),
}
