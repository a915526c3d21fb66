import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { describeExperiment } from './describe-experiment.ts'
import type { FlagValues } from './flags/flags.ts'
import { loadExperiment, loadExperimentDocument } from './load-experiment.ts'
import { ConfigError } from './types.ts'

const fixtures = fileURLToPath(new URL('fixtures/', import.meta.url))
const machine = { cpuCores: 2, gpus: [] }
const slo = { slo: '50ms', maxPrice: '$20' }
const importFile = (file: string, flags: FlagValues = slo) =>
  loadExperiment({ cwd: fixtures, machine, file, flags })

let cwd: string
beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), 'tune-morphling-'))
})
afterAll(() => rmSync(cwd, { recursive: true }))

/** The mnist example with something in it replaced. */
const changed = (from: string | RegExp, to: string): string => {
  const text = readFileSync(join(fixtures, 'experiment-mnist-grid.yaml'), 'utf8')
  const other = text.replace(from, to)
  expect(other).not.toBe(text)
  writeFileSync(join(cwd, 'pe.yaml'), other)
  return join(cwd, 'pe.yaml')
}
const problemsOf = (file: string, flags?: FlagValues) => {
  try {
    importFile(file, flags)
  } catch (error) {
    if (error instanceof ConfigError)
      return error.problems.map(({ where, what }) => `${where.replace(/^.*\//, '')} ${what}`)
    throw error
  }
  throw new Error('was accepted')
}

describe('examples of Morphling', () => {
  test('mnist: what is tuned, how, how often, and what the pod holds beside it', () => {
    const experiment = importFile('experiment-mnist-grid.yaml')
    expect(experiment).toMatchObject({
      name: 'mnist-experiment-grid',
      model: { name: 'mnist' },
      backend: 'kubernetes',
      sampler: 'grid',
      parallel: 1,
      budget: { maxTrials: 4 },
      objective: { kind: 'max-rate', maxPricePerHour: 20 },
      pins: { memoryMiB: 1800 },
      kubernetes: { container: 'service-container', port: 8500 },
    })
    expect(experiment.space.parameters).toMatchObject([
      { name: 'cpuCores', values: [0.5, 2], category: 'resource' },
      { name: 'memoryMiB', values: [1800] },
      { name: 'BATCH_SIZE', values: [1, 2], category: 'env' },
    ])
    expect(experiment.kubernetes?.pod).toMatchObject({
      spec: { containers: [{ image: 'kubedl/morphling-tf-model:demo' }] },
    })
    expect(experiment.notices).toEqual([
      expect.stringContaining('clientTemplate'),
      expect.stringContaining('no latency SLO'),
    ])
    const origin = (path: string) =>
      describeExperiment(experiment).find((row) => row.path === path)?.origin
    expect(origin('space.cpuCores')).toBe('experiment-mnist-grid.yaml:21:13')
    expect(origin('budget.maxTrials')).toBe('experiment-mnist-grid.yaml:13:17')
  })

  test('the legacy group, ranges, a namespace', () => {
    const experiment = importFile('legacy-experiment-resnet50-grid.yaml')
    expect(experiment.space.parameters).toMatchObject([
      { name: 'cpuCores', kind: 'int', min: 1, max: 4, step: 1 },
      { name: 'BATCH_SIZE', values: [1, 2, 4, 8, 16, 32, 64, 128] },
    ])
    expect(experiment.kubernetes?.namespace).toBe('morphling-system')
    expect(experiment.notices.join()).toContain('requestTemplate is not used')
  })

  test('names, and a GPU whose model a pod does not say', () => {
    expect(problemsOf('experiment-grid.yaml')).toEqual([
      'experiment-grid.yaml:77:7 the pod requests a GPU, but its model is unknown',
    ])
    const experiment = importFile('experiment-grid.yaml', { ...slo, gpus: 'T4' })
    expect(experiment.model.name).toBe('Phi-1_5')
    expect(experiment.pins).toEqual({ memoryMiB: 32768, gpus: 1 })
    expect(experiment.space.parameters.map((p) => [p.name, 'values' in p ? p.values : []])).toEqual(
      [
        ['cpuCores', [15, 30]],
        ['memoryMiB', [32768]],
        ['gpu', ['T4']],
        ['gpus', [1]],
        ['BATCH_SIZE', [1, 4]],
        ['INFERENCE_FRAMEWORK', ['torch', 'vllm']],
        ['INPUT_LENGTH', ['short', 'middle', 'long']],
        ['DTYPE', ['int8', 'fp16']],
      ],
    )
  })

  test.each(['experiment-mnist-grid.yaml', 'legacy-experiment-resnet50-grid.yaml'])(
    '%s is resumed as it was',
    (file) => {
      const { document, origins: _, notices: __, ...first } = importFile(file)
      const again = loadExperimentDocument(JSON.parse(JSON.stringify(document)), 'x', {
        cwd: fixtures,
        machine,
      })
      expect(JSON.parse(JSON.stringify(again))).toMatchObject(JSON.parse(JSON.stringify(first)))
    },
  )
})

describe('what Morphling gets wrong is refused', () => {
  test('without an SLO and a price there is nothing to decide by', () => {
    expect(problemsOf('experiment-mnist-grid.yaml', {})).toEqual([
      'experiment-mnist-grid.yaml no SLO',
      'experiment-mnist-grid.yaml:8:5 max-rate needs a price bound',
    ])
  })

  test.each([
    ['name: "cpu"', 'name: "cpus"', "pe.yaml:19:17 the resource 'cpus' cannot be tuned"],
    [
      'name: "cpu"',
      'name: "nvidia.com/gpumem"',
      "pe.yaml:19:17 the resource 'nvidia.com/gpumem' cannot be tuned",
    ],
    ['name: "cpu"', 'name: "storage"', "pe.yaml:19:17 the resource 'storage' cannot be tuned"],
    ['"500m"', '"half"', "pe.yaml:22:17 'half' is not a quantity of cpu"],
    ['algorithmName: grid', 'algorithmName: gird', "pe.yaml:11:20 unknown algorithm 'gird'"],
    ['category: "resource"', 'category: "ressource"', "pe.yaml:16:17 unknown category 'ressource'"],
    [
      'parameterType: discrete',
      'parameterType: discreet',
      "pe.yaml:18:26 unknown parameterType 'discreet'",
    ],
    [
      'maxNumTrials: 4',
      'maxNumTrails: 4',
      "pe.yaml:13:3 unknown field 'spec.maxNumTrails' of a ProfilingExperiment",
    ],
    ['maxNumTrials: 4', 'maxNumTrials: 0', 'pe.yaml:13:17 budget.maxTrials: 0 is less than 1'],
    [
      'morphling.kubedl.io/v1alpha1',
      'morphling.kubedl.io/v2',
      'pe.yaml:2:13 a ProfilingExperiment of morphling.kubedl.io/v2',
    ],
    [
      /servicePodTemplate:[\s\S]*/,
      'servicePodTemplate: {}',
      'no servicePodTemplate with a named container',
    ],
  ])('%s → %s', (from, to, problem) => {
    expect(problemsOf(changed(from, to), slo).join('\n')).toContain(problem)
  })

  test('an objective that only its client knows is named', () => {
    const experiment = importFile(
      changed('objectiveMetricName: qps', 'objectiveMetricName: GPUMemConsumptionPerQPS'),
      { slo: '50ms' },
    )
    expect(experiment.objective.kind).toBe('price-per-request')
    expect(experiment.notices.join()).toContain('GPUMemConsumptionPerQPS')
  })

  test('args are appended bare, env names uppercased with _ for .', () => {
    const args = importFile(changed(/- category: "env"/, '- category: "args"'))
    expect(args.predictor).toMatchObject({ argFormat: ['$' + '{value}'] })
    const env = importFile(changed('name: "BATCH_SIZE"', 'name: "server.maxBatch"'))
    expect(env.space.parameters.at(-1)).toMatchObject({ name: 'server_maxBatch', category: 'env' })
    expect(env.predictor).toMatchObject({ envNames: { server_maxBatch: 'SERVER_MAXBATCH' } })
  })
})
