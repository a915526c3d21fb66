import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { computeCost } from '../../search/objective.ts'
import { enumerateConfigurations } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import { defaultPriceBook } from '../../trials/prices/book.ts'
import { backendContract } from '../backends/backend.contract.ts'
import { createSimulatedBackend } from '../backends/simulated-backend.ts'
import { loadExperiment } from '../config/load-experiment.ts'
import type { ExperimentInput } from '../config/schema/experiment-schema.ts'
import { tune } from '../library/tune-experiment.ts'
import { choosePipelineDefault } from './pipeline-model.ts'
import { createProblem } from './problem.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-pipeline-'))
afterAll(() => rmSync(folder, { recursive: true }))

const gpu = { gpu: 'T4', gpuMemoryPercent: 100 }
const given = {
  slo: '100ms',
  backend: 'simulated',
  stages: {
    embed: {
      model: 'bert',
      calls: ['classify'],
      space: { cpuCores: 1, gpu: ['T4', 'L4'], gpuMemoryPercent: 100, batchSize: [1, 8] },
    },
    classify: {
      model: 'resnet50',
      calls: { ocr: '30%' },
      replicas: [1, 2],
      space: { cpuCores: [2, 4, 8], ...gpu, batchSize: [1, 8] },
    },
    ocr: { model: 'resnet50', space: { cpuCores: [2, 4], ...gpu, batchSize: 4 } },
  },
} as const satisfies ExperimentInput

const experiment = loadExperiment({
  given,
  cwd: folder,
  machine: { cpuCores: 2, gpus: [] },
})
const problem = createProblem(experiment, defaultPriceBook)
const one = {
  'embed.replicas': 1,
  'embed.cpuCores': 1,
  'embed.gpu': 'T4',
  'embed.gpuMemoryPercent': 100,
  'embed.batchSize': 8,
  'classify.replicas': 2,
  'classify.cpuCores': 4,
  'classify.gpu': 'T4',
  'classify.gpuMemoryPercent': 100,
  'classify.batchSize': 8,
  'ocr.replicas': 1,
  'ocr.cpuCores': 2,
  'ocr.gpu': 'T4',
  'ocr.gpuMemoryPercent': 100,
  'ocr.batchSize': 4,
}

backendContract('a pipeline in virtual time', {
  open: async () => ({ backend: createSimulatedBackend(experiment), configuration: one }),
  openMortal: { skip: 'a server in virtual time does not end' },
  leftovers: () => [],
})

test('the price is the sum over stages of replicas × price', () => {
  const price = (configuration: Configuration) => problem.pricePerHour(configuration)
  const stage = (cpuCores: number) => price({ cpuCores, ...gpu })
  expect(price(one)).toBeCloseTo(stage(1) + 2 * stage(4) + stage(2))
  expect(problem.pricePerHour.bundles?.(one)).toBeUndefined()
})

test('the baseline has one replica of the baseline of each stage', () => {
  expect(choosePipelineDefault(problem, experiment.stages!, problem.pricePerHour)).toEqual({
    ...one,
    'embed.batchSize': 1,
    'classify.replicas': 1,
    'classify.batchSize': 1,
  })
})

test('a stage whose memory does not suffice is named', async () => {
  const { launcher } = createSimulatedBackend(experiment)
  await expect(
    launcher.launch({ ...one, 'ocr.gpuMemoryPercent': 1 }, 1, new AbortController().signal),
  ).rejects.toMatchObject({
    reason: 'out-of-memory',
    message: expect.stringMatching(/^stage ocr: .*need/),
  })
})

describe('beside a simulation of every configuration', () => {
  const all = enumerateConfigurations(problem.space)
  const capacities = Promise.all(
    all.map(async (configuration) => {
      const { launcher, measure } = createSimulatedBackend(experiment)
      const { signal } = new AbortController()
      const predictor = await launcher.launch(configuration, 1, signal)
      const options = { number: 1, onStep: () => {} }
      const { capacityRps } = await measure(predictor, { kind: 'trial' }, options, signal)
      return capacityRps
    }),
  )
  const key = (configuration: Configuration) => JSON.stringify(Object.entries(configuration).sort())
  const costs = capacities.then(
    (found) =>
      new Map(
        all.map((configuration, i) => [
          key(configuration),
          computeCost(problem.objective, {
            pricePerHour: problem.pricePerHour(configuration),
            capacityRps: found[i]!,
            unloadedMs: 1,
          }),
        ]),
      ),
  )

  test('the prior is within 3 % for half of them and within 6 % for nine of ten', async () => {
    const errors = (await capacities)
      .map((rps, i) => Math.abs(Math.exp(problem.priorLogRate!(all[i]!)!) / rps - 1))
      .sort((a, b) => a - b)
    expect(errors[Math.floor(0.5 * errors.length)]).toBeLessThan(0.03)
    expect(errors[Math.floor(0.9 * errors.length)]).toBeLessThan(0.06)
  })

  test.each([1, 2, 3])('seed %d finds one within a twentieth of the cheapest', async (seed) => {
    const { recommendation, trials } = await tune({
      experiment: {
        ...given,
        seed,
        history: false,
        confirm: false,
        budget: { maxTrials: 20 },
        db: join(folder, `${seed}.db`),
        out: join(folder, `out-${seed}`),
      },
    })
    const found = await costs
    const cheapest = Math.min(...found.values())
    expect(found.get(key(recommendation.best!.configuration))! / cheapest).toBeLessThan(1.05)
    expect(trials.length).toBeLessThan(all.length / 3)
  })
})
