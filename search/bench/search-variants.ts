import { createSampler } from '../index.ts'
import { createGpSampler } from '../samplers/gp.ts'
import type { Parameter, Problem, Sampler } from '../types.ts'
import { plainReference } from './plain-reference.ts'

const gp = createSampler('gp')

/** The default sampler on the problem with something taken from its parameters. */
function withoutKnowledge(name: string, strip: (parameter: Parameter) => Parameter): Sampler {
  const stripped = new WeakMap<Problem, Problem>()
  return {
    name,
    suggest(problem, ...rest) {
      const less = stripped.get(problem) ?? {
        ...problem,
        space: { ...problem.space, parameters: problem.space.parameters.map(strip) },
      }
      stripped.set(problem, less)
      return gp.suggest(less, ...rest)
    },
  }
}

/** What constants and parts are chosen from, by --leave-out. */
export const candidates = ['gp', 'gp-undoubting', 'gp-unshaken', 'gp-without-bounds'] as const

/**
 * What the benchmark can run: the samplers, and the default one with a part taken out or put in.
 */
export const variants: Readonly<Record<string, Sampler>> = {
  gp,
  reference: plainReference,
  random: createSampler('random'),
  grid: createSampler('grid'),
  halton: createSampler('halton'),
  'gp-without-bounds': createGpSampler({ withoutBounds: true }),
  'gp-unshaken': createGpSampler({ unshaken: true }),
  'gp-undoubting': createGpSampler({ undoubting: true }),
  'gp-without-features': withoutKnowledge('gp-without-features', (p) =>
    p.kind === 'categorical' ? { ...p, features: undefined } : p,
  ),
  'gp-without-concurrency': withoutKnowledge('gp-without-concurrency', (p) => ({
    ...p,
    concurrency: false,
  })),
  'gp-5-starts': createGpSampler({ starts: 5 }),
}
