import { createSampler } from '../index.ts'
import { createGpSampler } from '../samplers/gp.ts'
import type { Parameter, Problem, Sampler } from '../types.ts'
import { plainReference } from './plain-reference.ts'

const gp = createSampler('gp')

/** The default sampler on a problem whose parameters lack some prior information. */
function createWithoutPriorInformation(
  name: string,
  strip: (parameter: Parameter) => Parameter,
): Sampler {
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

/** Variants among which --leave-out chooses. */
export const candidates = ['gp', 'gp-one-model', 'gp-no-poll', 'gp-without-bounds'] as const

/** Samplers that the benchmark can run, with ablations of the default one. */
export const variants: Readonly<Record<string, Sampler>> = {
  gp,
  reference: plainReference,
  random: createSampler('random'),
  grid: createSampler('grid'),
  halton: createSampler('halton'),
  'gp-without-bounds': createGpSampler({ withoutBounds: true }),
  'gp-no-poll': createGpSampler({ noLocalPoll: true }),
  'gp-one-model': createGpSampler({ noNuggetModel: true }),
  'gp-without-features': createWithoutPriorInformation('gp-without-features', (p) =>
    p.kind === 'categorical' ? { ...p, features: undefined } : p,
  ),
  'gp-without-concurrency': createWithoutPriorInformation('gp-without-concurrency', (p) => ({
    ...p,
    concurrency: false,
  })),
  'gp-5-initial-trials': createGpSampler({ initialTrials: 5 }),
}
