import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { loadTarget } from '../../reports/specs/index.ts'
import { defaultPriceBook } from '../../trials/prices/book.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { loadExperiment } from '../config/load-experiment.ts'
import type { ExperimentInput } from '../config/schema/experiment-schema.ts'
import { tune } from '../library/tune-experiment.ts'
import { createProblem } from '../problem/problem.ts'
import { renderStageSpecs, resolveStageServings } from './stage-servings.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-stage-servings-'))
afterAll(() => rmSync(folder, { recursive: true }))

const gpu = { gpu: 'T4', gpuMemoryPercent: 100 }
const simulated = {
  name: 'shop',
  slo: '150ms',
  demand: '300 rps',
  headroom: 0,
  backend: 'simulated',
  history: false,
  confirm: false,
  budget: { maxTrials: 2 },
  stages: {
    embed: { model: 'bert', calls: ['ocr'], space: { cpuCores: 1, ...gpu, batchSize: 8 } },
    ocr: { model: 'resnet50', replicas: [2, 3], space: { cpuCores: 4, ...gpu, batchSize: 8 } },
  },
} as const satisfies ExperimentInput

/** The same stages as commands, of which nothing was measured. */
const commands = {
  ...simulated,
  backend: 'local',
  stages: {
    embed: {
      model: 'bert',
      predictor: {
        command: ['serve', '--port', '${port}', '--ocr', '${stages.ocr.url}'],
        protocol: 'json',
        path: '/embed',
      },
      calls: ['ocr'],
      space: { cpuCores: 1, ...gpu, batchSize: { values: [8], category: 'env' } },
    },
    ocr: {
      ...simulated.stages.ocr,
      predictor: { command: ['ocr', '${port}'], protocol: 'json', path: '/ocr' },
      space: { cpuCores: 4, ...gpu, batchSize: { values: [8], category: 'env' } },
    },
  },
} as const satisfies ExperimentInput

describe('the stages of a recommended pipeline', async () => {
  const load = (given: ExperimentInput) =>
    loadExperiment({ given, cwd: folder, machine: { cpuCores: 8, gpus: ['T4'] } })
  const { recommendation, trials } = await tune({
    experiment: { ...simulated, db: join(folder, 'tune.db') },
  })
  const resolve = async (given: ExperimentInput, target: 'kubernetes' | 'compose' | 'kserve') => {
    const experiment = load(given)
    return resolveStageServings({
      experiment,
      stages: experiment.stages!,
      recommendation,
      candidate: recommendation.best!,
      trials: trials as readonly FinishedTrial[],
      pricePerHour: createProblem(experiment, defaultPriceBook).pricePerHour,
      target: await loadTarget(target),
    })
  }

  test('have names, replicas and capacities of their own', async () => {
    const servings = await resolve(simulated, 'kubernetes')
    expect([...servings.keys()]).toEqual(['embed', 'ocr'])
    const [embed, ocr] = [servings.get('embed')!, servings.get('ocr')!]
    expect([embed.name, ocr.name]).toEqual(['shop-embed', 'shop-ocr'])
    const { capacityRps, configuration } = recommendation.best!
    const replicas = Number(configuration['ocr.replicas'])
    expect(embed.perReplicaRps).toBeCloseTo(capacityRps)
    expect(ocr.perReplicaRps).toBeCloseTo(capacityRps / replicas)
    expect(ocr.replicas).toBe(Math.ceil(300 / (capacityRps / replicas)))
    expect(embed.configuration).toEqual({ cpuCores: 1, ...gpu, batchSize: 8 })
  })

  test.each([
    ['kubernetes', 'http://shop-ocr'],
    ['compose', 'http://shop-ocr:8000'],
  ] as const)('of %s receive the addresses that they call: %s', async (target, url) => {
    const servings = await resolve(commands, target)
    expect(servings.get('embed')!.container.command).toEqual([
      'serve',
      '--port',
      '8000',
      '--ocr',
      url,
    ])
    const files = await renderStageSpecs(target, servings)
    expect(files.map(({ name }) => name)).toEqual(
      target === 'kubernetes'
        ? ['embed-deployment.yaml', 'ocr-deployment.yaml']
        : ['embed-compose.yaml', 'ocr-compose.yaml'],
    )
    expect(files[1]!.text).toContain('verify it at the entry, shop-embed')
  })

  test('are refused by a target that deploys no pipelines', async () => {
    await expect(resolve(simulated, 'kserve')).rejects.toThrow('KServe deploys no pipelines')
  })
})
