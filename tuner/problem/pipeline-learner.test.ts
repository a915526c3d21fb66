import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { assessStop, createRng, createSampler } from '../../search/index.ts'
import { computeCost } from '../../search/objective.ts'
import { configurationKey, enumerateConfigurations } from '../../search/space/space.ts'
import type { Configuration, Observation } from '../../search/types.ts'
import {
  batches,
  simulateTrial,
  visits,
} from '../../trials/launchers/simulated/testing/virtual-pipeline.ts'
import { defaultPriceBook } from '../../trials/prices/book.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { loadExperiment } from '../config/load-experiment.ts'
import type { ExperimentInput } from '../config/schema/experiment-schema.ts'
import { createPipelineLearner } from './pipeline-model.ts'
import { createProblem } from './problem.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-pipeline-learner-'))
afterAll(() => rmSync(folder, { recursive: true }))

const serve = (...urls: readonly string[]) => ({
  command: ['serve', '${port}', ...urls],
  protocol: 'json' as const,
  path: '/',
})
const given: ExperimentInput = {
  slo: '100ms',
  stages: {
    tokenise: {
      model: 'tokeniser',
      predictor: serve('${stages.embed.url}'),
      calls: ['embed'],
      space: { cpuCores: [0.25, 0.5] },
    },
    embed: {
      model: 'embedder',
      predictor: serve('${stages.rank.url}'),
      calls: { rank: '30%' },
      space: { cpuCores: [0.5, 1], maxBatch: { values: [1, 4, 16], category: 'env' } },
    },
    rank: {
      model: 'ranker',
      predictor: serve(),
      replicas: [1, 2],
      space: { cpuCores: 0.25 },
    },
  },
}
const experiment = loadExperiment({
  given,
  cwd: folder,
  machine: { cpuCores: 4, gpus: [] },
})
const stages = experiment.stages!
const base = createProblem(experiment, defaultPriceBook)

const physics = (stage: string, { cpuCores, maxBatch }: Configuration) => {
  const cores = Number(cpuCores)
  if (stage === 'tokenise') return visits({ cpuMs: 0.8, cores, jitter: 0.3 })
  if (stage === 'rank') return visits({ cpuMs: 1.2, cores, jitter: 0.1 })
  return batches({ fixedMs: 3, perItemMs: 0.8, cores, maxBatch: Number(maxBatch) })
}
const measured = new Map<string, ReturnType<typeof simulateTrial>>()
const run = (configuration: Configuration) => {
  const key = configurationKey(configuration)
  const result =
    measured.get(key) ?? simulateTrial({ stages }, physics, experiment.slo, configuration)
  measured.set(key, result)
  return result
}
const computeTrueCost = (configuration: Configuration): number =>
  computeCost(base.objective, {
    pricePerHour: base.pricePerHour(configuration),
    capacityRps: run(configuration).capacityRps,
    unloadedMs: 1,
  })

/** Searches as the loop does. */
function search(seed: number): { readonly trials: number; readonly cost: number } {
  const learn = createPipelineLearner(experiment, stages, [])!
  const sampler = createSampler('gp')
  const rng = createRng(seed)
  const trials: FinishedTrial[] = []
  const observations: Observation[] = []
  for (;;) {
    const problem = learn(base, trials)
    const next = sampler.suggest(problem, observations, [], rng)
    if (next === undefined) break
    const { trial, capacityRps } = run(next.configuration)
    trials.push(trial)
    observations.push({
      configuration: next.configuration,
      state: 'complete',
      rate: { value: capacityRps, logSd: 0.02 },
    })
    if (assessStop(learn(base, trials), observations, rng).stop) break
  }
  return {
    trials: trials.length,
    cost: Math.min(...observations.map(({ configuration }) => computeTrueCost(configuration))),
  }
}

test('a pipeline of unknown servers is found with few trials, which measure all its stages', () => {
  const cheapest = Math.min(...enumerateConfigurations(base.space).map(computeTrueCost))
  const runs = [1, 2, 3].map(search)
  for (const { trials, cost } of runs) {
    expect(cost / cheapest).toBeLessThan(1.05)
    expect(trials).toBeLessThanOrEqual(6)
  }
})

test('nothing is predicted before a trial', () => {
  expect(createPipelineLearner(experiment, stages, [])!(base, [])).toBe(base)
})

test('trials of an earlier experiment predict the first one', () => {
  const all = enumerateConfigurations(base.space)
  const earlier = [run(all[0]!).trial, run(all.at(-1)!).trial]
  const { priorLogRate } = createPipelineLearner(experiment, stages, earlier)!(base, [])
  const other = all[10]!
  expect(Math.exp(priorLogRate!(other)!) / run(other).capacityRps).toBeCloseTo(1, 0.7)
})
