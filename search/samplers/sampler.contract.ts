import { describe, expect, test } from 'vitest'
import { createRng } from '../rng.ts'
import { configurationKey, enumerateConfigurations } from '../space/space.ts'
import { validateConfiguration } from '../space/validation.ts'
import type { Configuration, Observation, Problem, Sampler, SearchSpace } from '../types.ts'

const space: SearchSpace = {
  parameters: [
    {
      name: 'cpuCores',
      category: 'resource',
      kind: 'int',
      min: 1,
      max: 4,
      scale: 'linear',
      monotone: 'up',
    },
    { name: 'batchSize', category: 'server', kind: 'ordinal', values: [1, 2, 4, 8], scale: 'log' },
    {
      name: 'gpuModel',
      category: 'resource',
      kind: 'categorical',
      values: ['T4', 'V100'],
      features: { T4: [5.7, 2], V100: [6.8, 2.6] },
    },
    { name: 'loop', category: 'server', kind: 'categorical', values: ['sync', 'async'] },
    {
      name: 'queue',
      category: 'server',
      kind: 'ordinal',
      values: [8, 16],
      scale: 'log',
      when: { text: 'loop = async', holds: (c) => c.loop === 'async' },
    },
  ],
  constraints: [
    {
      text: 'batchSize <= 2 * cpuCores',
      holds: (c) => Number(c.batchSize) <= 2 * Number(c.cpuCores),
    },
  ],
}
const problem: Problem = {
  space,
  objective: { kind: 'price-per-request' },
  constraintLimit: 50,
  pricePerHour: (c) => 0.05 * Number(c.cpuCores) + (c.gpuModel === 'T4' ? 0.3 : 1),
  cannotServe: (c) => c.gpuModel === 'T4' && c.batchSize === 8 && c.cpuCores === 4,
}

/** A made-up server: pre-processing bound by cores, batches on a GPU. */
export function measure(configuration: Configuration): Observation {
  const batch = Number(configuration.batchSize)
  if (configuration.gpuModel === 'T4' && batch === 8)
    return { configuration, state: 'infeasible', reason: 'out-of-memory' }
  const gpuMs = (4 + 3 * batch) * (configuration.gpuModel === 'T4' ? 2 : 1)
  const cpuMs = (6 * batch) / Number(configuration.cpuCores)
  const ms = gpuMs + cpuMs
  return {
    configuration,
    state: 'complete',
    rate: { value: (1000 * batch) / Math.max(gpuMs, cpuMs) },
    constraint: { value: ms },
  }
}

/** What every sampler must keep to. */
export function samplerContract(sampler: Sampler): void {
  describe(`${sampler.name} sampler`, () => {
    const run = (on: Problem, trials: number, seed = 1) => {
      const observations: Observation[] = []
      for (let i = 0; i < trials; i++) {
        const suggestion = sampler.suggest(on, observations, [], createRng(seed))
        if (!suggestion) break
        observations.push(measure(suggestion.configuration))
      }
      return observations
    }

    test('suggests only valid configurations, each once, until nothing is left', () => {
      const allowed = enumerateConfigurations(space).filter((c) => !problem.cannotServe!(c))
      const keys = run(problem, allowed.length + 5).map((o) => {
        expect(validateConfiguration(space, o.configuration)).toEqual([])
        return configurationKey(o.configuration)
      })
      expect(keys.sort()).toEqual(allowed.map(configurationKey).sort())
    })

    test('is deterministic: the same trials and seed give the same suggestion', () => {
      const observations = run(problem, 7)
      const again = sampler.suggest(problem, observations, [], createRng(1))
      expect(again).toEqual(
        sampler.suggest(problem, structuredClone(observations), [], createRng(1)),
      )
      expect(run(problem, 8).slice(0, 7)).toEqual(observations)
    })

    test('never suggests what is pending, up to 16 at once', () => {
      const observations = run(problem, 4)
      const pending: Configuration[] = []
      for (let i = 0; i < 16; i++)
        pending.push(sampler.suggest(problem, observations, pending, createRng(1))!.configuration)
      expect(
        new Set([...pending, ...observations.map((o) => o.configuration)].map(configurationKey))
          .size,
      ).toBe(20)
    })

    test('starts with pending trials only', () => {
      const pending = [sampler.suggest(problem, [], [], createRng(3))!.configuration]
      expect(sampler.suggest(problem, [], pending, createRng(3))).toBeDefined()
    })

    test('continues after infeasible trials only', () => {
      const observations = enumerateConfigurations(space)
        .slice(0, 6)
        .map(
          (configuration): Observation => ({
            configuration,
            state: 'infeasible',
            reason: 'crashed',
          }),
        )
      expect(sampler.suggest(problem, observations, [], createRng(1))).toBeDefined()
    })

    test('handles a continuous space', () => {
      const continuous: Problem = {
        ...problem,
        cannotServe: undefined,
        space: {
          parameters: [
            ...space.parameters.slice(1),
            {
              name: 'cpuCores',
              category: 'resource',
              kind: 'float',
              min: 0.5,
              max: 4,
              scale: 'log',
            },
          ],
          constraints: space.constraints,
        },
      }
      const seen = run(continuous, 9)
      for (const o of seen)
        expect(validateConfiguration(continuous.space, o.configuration)).toEqual([])
      expect(new Set(seen.map((o) => configurationKey(o.configuration))).size).toBe(9)
    })

    test.each([
      { kind: 'price' },
      { kind: 'price-for-demand', demandRps: 500, headroom: 0.2 },
      { kind: 'max-rate', maxPricePerHour: 1.1 },
      { kind: 'min-latency', maxPricePerHour: 1.1 },
    ] as const)('serves objective $kind', (objective) => {
      expect(run({ ...problem, objective }, 8)).toHaveLength(8)
    })
  })
}
