/** Runs with a metric of the server as objective and the GP sampler. */
import { expect, test } from 'vitest'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { assessStop, createRng, createSampler } from '../../search/index.ts'
import { enumerateConfigurations } from '../../search/space/space.ts'
import type { Configuration, Problem } from '../../search/types.ts'
import { runFakes } from '../testing/fake-run.ts'
import { fakeLauncher, fakePredictor, measurement } from '../testing/fakes.ts'

const values = [1, 2, 3, 4, 5, 6]
const problemOf = (kind: 'min-metric' | 'max-metric'): Problem => ({
  space: {
    parameters: ['depth', 'width'].map((name) => ({
      kind: 'ordinal',
      name,
      category: 'server',
      values,
      scale: 'linear',
    })),
    constraints: [],
  },
  objective: { kind, metric: 'skill' },
  // The price falls with the width, so that the price alone misleads.
  pricePerHour: ({ width }) => 7 - Number(width),
  constraintLimit: 50,
})

/** Increases with depth and width, from negative to positive. The largest are too slow. */
const skillOf = ({ depth, width }: Configuration) => 3 * Number(depth) + 2 * Number(width) - 17
const isSlow = ({ depth, width }: Configuration) => Number(depth) + Number(width) > 9

async function tuned(kind: 'min-metric' | 'max-metric', seed: number) {
  const problem = problemOf(kind)
  const measured = new Map<string, Configuration>()
  const read = (rps: number, configuration: Configuration): Measurement =>
    isSlow(configuration)
      ? { ...measurement(0), unloaded: { ...measurement(0).unloaded, p50Ms: 80, p99Ms: 90 } }
      : { ...measurement(rps), metrics: [{ name: 'skill', value: skillOf(configuration) }] }
  const launcher = fakeLauncher(async (configuration) => {
    const isolation = JSON.stringify(configuration)
    measured.set(isolation, configuration)
    return fakePredictor({ isolation })
  })
  const { result } = await runFakes(
    {
      problem,
      spaceSize: 36,
      sampler: createSampler('gp'),
      assessStop,
      rng: createRng(seed),
      backend: {
        launcher,
        measure: async ({ isolation }, task) =>
          read(
            task.kind === 'trial' ? 900 / Number(measured.get(isolation)!.depth) : task.rateRps,
            measured.get(isolation)!,
          ),
        close: async () => undefined,
      },
    },
    { objective: problem.objective, budget: { maxTrials: 20 } },
  )
  return { result, tried: measured.size }
}

const served = enumerateConfigurations(problemOf('min-metric').space).filter((c) => !isSlow(c))

test.each([
  ['max-metric', Math.max(...served.map(skillOf))],
  ['min-metric', Math.min(...served.map(skillOf))],
] as const)(
  '%s finds and confirms the optimum %d without trying all configurations',
  async (kind, best) => {
    for (const seed of [1, 2, 3]) {
      const { result, tried } = await tuned(kind, seed)
      expect(result.recommendation.best?.metrics).toEqual({ skill: best })
      expect(result.recommendation.conclusion).toBe('confirmed')
      expect(tried).toBeLessThan(36)
    }
  },
)
