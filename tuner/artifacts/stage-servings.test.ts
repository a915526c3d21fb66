import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import type { SpecTargetName } from '../../reports/specs/index.ts'
import { defaultPriceBook } from '../../trials/prices/book.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { loadExperiment } from '../config/load-experiment.ts'
import type { ExperimentInput } from '../config/schema/experiment-schema.ts'
import { tune } from '../library/tune-experiment.ts'
import { createProblem } from '../problem/problem.ts'
import { renderStageSpecs } from './stage-servings.ts'

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

/** The objects of a spec by kind and name. */
const readObjects = (text: string) =>
  new Map(
    parseAllDocuments(text).map((document) => {
      const object = document.toJS()
      return [`${object.kind} ${object.metadata.name}`, object]
    }),
  )

describe('the stages of a recommended pipeline', async () => {
  const load = (given: ExperimentInput) =>
    loadExperiment({ given, cwd: folder, machine: { cpuCores: 8, gpus: ['T4'] } })
  const { recommendation, trials } = await tune({
    experiment: { ...simulated, db: join(folder, 'tune.db') },
  })
  const render = async (given: ExperimentInput, target: SpecTargetName, options = {}) => {
    const experiment = load(given)
    return renderStageSpecs(target, {
      experiment,
      stages: experiment.stages!,
      recommendation,
      candidate: recommendation.best!,
      trials: trials as readonly FinishedTrial[],
      pricePerHour: createProblem(experiment, defaultPriceBook).pricePerHour,
      ...options,
    })
  }
  const { capacityRps, configuration } = recommendation.best!
  const ocrRps = capacityRps / Number(configuration['ocr.replicas'])

  test('have names and replicas of their own, in one file', async () => {
    const { name, text } = await render(simulated, 'kubernetes')
    expect(name).toBe('deployment.yaml')
    const objects = readObjects(text)
    expect(objects.get('Deployment shop-embed').spec.replicas).toBe(Math.ceil(300 / capacityRps))
    expect(objects.get('Deployment shop-ocr').spec.replicas).toBe(Math.ceil(300 / ocrRps))
    expect(objects.get('Service shop-ocr').spec.selector).toEqual({
      'app.kubernetes.io/name': 'shop-ocr',
    })
    expect(text).toContain("the pipeline's")
  })

  test('are verified once, at the entry and the rate that all of them serve', async () => {
    const { text } = await render(simulated, 'kubernetes')
    const commands = text.match(/tune verify --url.*/g)!
    const rateRps = Math.min(
      capacityRps * Math.ceil(300 / capacityRps),
      ocrRps * Math.ceil(300 / ocrRps),
    )
    // In the header, and as an annotation of the entry.
    expect(commands).toHaveLength(2)
    expect(new Set(commands)).toEqual(
      new Set([
        `tune verify --url http://shop-embed --model bert --rate ${Math.floor(rateRps)}rps --slo 'p99<150ms'`,
      ]),
    )
  })

  test.each([
    ['kubernetes', 'http://shop-ocr'],
    ['kserve', 'http://shop-ocr-predictor'],
    ['compose', 'http://shop-ocr:8000'],
  ] as const)('of %s receive the addresses that they call: %s', async (target, url) => {
    const { text } = await render(commands, target)
    expect(text).toMatch(new RegExp(`- --ocr\\n +- ${url}\\n`))
    expect(text).not.toContain('calls no other stage')
    expect(text).not.toContain('kind: InferenceGraph')
  })

  test('that call no other are completed by an InferenceGraph, or the spec says so', async () => {
    expect((await render(simulated, 'kserve')).text).toContain('kind: InferenceGraph')
    expect((await render(simulated, 'kubernetes')).text).toContain(
      'INCOMPLETE: stage embed: the built-in predictor calls no other stage. Deploy a server that calls http://shop-ocr.',
    )
    const fanOut = {
      ...simulated,
      stages: { ...simulated.stages, embed: { ...simulated.stages.embed, calls: { ocr: 2 } } },
    }
    const { text } = await render(fanOut, 'kserve')
    expect(text).not.toContain('kind: InferenceGraph')
    expect(text).toContain('calls no other stage')
  })

  test('have images of their own', async () => {
    const stageOptions = new Map([['ocr', { image: 'registry.example/ocr:1' }]])
    const { text } = await render(commands, 'kubernetes', { stageOptions })
    expect(text).toContain('image: registry.example/ocr:1')
    expect(text).toContain('INCOMPLETE: stage embed: no container image.')
  })

  test('are refused by a target that deploys no pipelines', async () => {
    await expect(render(simulated, 'seldon')).rejects.toThrow('Seldon Core v1 deploys no pipelines')
  })
})
