import { mkdirSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { CommandTemplate } from '../../trials/launchers/template.ts'
import { describeExperiment } from './describe-experiment.ts'
import { loadExperimentDocument } from './load-experiment.ts'
import { machine, problemLines, useWorkspace, valuesOf } from './testing/workspace.ts'

const { loadFile, path, write } = useWorkspace()

/** In the form of Model Analyzer's example: repeated inputs, and steps in a list. */
const step = (model: string, from: string, to: string) => `    {
      model_name: "${model}"
      model_version: -1
      input_map { key: "IN" value: "${from}" }
      output_map { key: "OUT" value: "${to}" }
    }`
const ensemble = (name: string, ...steps: string[]) => `name: "${name}"
platform: "ensemble"
max_batch_size: 8
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
ensemble_scheduling {
  step [
${steps.map((model, i) => step(model, i === 0 ? 'IN' : `t${i}`, i === steps.length - 1 ? 'OUT' : `t${i + 1}`)).join(',\n')}
  ]
}
`
const model = (name: string, more = 'max_batch_size: 8\n') => `name: "${name}"
backend: "python"
${more}input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
`
/** Writes a model repository. */
const writeModels = (configs: Readonly<Record<string, string | undefined>>) => {
  for (const [name, text] of Object.entries(configs)) {
    mkdirSync(path(`models/${name}/1`), { recursive: true })
    if (text !== undefined) write(`models/${name}/config.pbtxt`, text)
  }
}
const head = `slo: 50ms
predictor: {server: triton}
`
const search = `${head}model: models/search
space: {cpuCores: [1, 2], instances: [1, 2]}
`
const listNames = (text: string) => loadFile(text).space.parameters.map(({ name }) => name)
const listModels = (text: string) =>
  (loadFile(text).predictor as CommandTemplate).server!.models!.map(
    ({ config: _, ...described }) => described,
  )

describe('an ensemble', () => {
  test('has each model that it calls as a stage, though the user names only the ensemble', () => {
    writeModels({
      search: ensemble('search', 'tokenise', 'embed', 'rank'),
      tokenise: model('tokenise'),
      embed: model('embed'),
      rank: undefined,
    })
    expect(listNames(search)).toEqual([
      'cpuCores',
      'tokenise.instances',
      'embed.instances',
      'rank.instances',
    ])
    expect(listModels(search)).toEqual([
      { name: 'search', steps: ['tokenise', 'embed', 'rank'] },
      { name: 'tokenise', stage: 'tokenise' },
      { name: 'embed', stage: 'embed' },
      { name: 'rank', stage: 'rank' },
    ])
  })

  test('tunes a stage with a space of its own by this alone, and conditions join stages', () => {
    writeModels({
      search: ensemble('search', 'a', 'b-1.5'),
      a: model('a'),
      'b-1.5': model('b-1.5'),
    })
    const experiment = loadFile(`${search}stages:
  a: {space: {batchSize: 2..8, maxDelayMs: [0, 2ms], instanceKind: [KIND_CPU, KIND_GPU]}, constraints: maxDelayMs == 0 or batchSize > 2}
constraints: a.batchSize <= 4 or cpuCores > 1
`)
    expect(valuesOf(experiment, 'a.batchSize')).toEqual([2, 4, 8])
    expect(valuesOf(experiment, 'a.maxDelayMs')).toEqual([0, 2])
    expect(experiment.space.parameters.map(({ name, category }) => [name, category])).toEqual([
      ['cpuCores', 'resource'],
      ['a.batchSize', 'server'],
      ['a.maxDelayMs', 'server'],
      ['a.instanceKind', 'server'],
      ['b-1_5.instances', 'server'],
    ])
    expect((experiment.predictor as CommandTemplate).server!.models![1]).toMatchObject({
      name: 'a',
      minBatchSize: 2,
    })
    const [own, joint] = experiment.space.constraints
    expect(own!.holds({ 'a.maxDelayMs': 2, 'a.batchSize': 2 })).toBe(false)
    expect(joint!.holds({ 'a.batchSize': 8, cpuCores: 1 })).toBe(false)
  })

  test('is the same again from the store, also without its files', () => {
    writeModels({ search: ensemble('search', 'a', 'b'), a: model('a'), b: model('b') })
    const text = `${search}pin: {batchSize: 4}
stages: {b: {space: {batchSize: [1, 8]}}}
`
    const given = loadFile(text)
    const host = { cwd: path(), machine }
    const stored = loadExperimentDocument(given.document, 'search-1', host)
    expect(stored.space.parameters).toEqual(given.space.parameters)
    expect(stored.document).toEqual(given.document)
    expect(stored.predictor).toEqual(given.predictor)
    const moved = JSON.parse(JSON.stringify(given.document).replaceAll('/models/', '/gone/'))
    const shown = loadExperimentDocument(moved, 'search-1', { ...host, isReadOnly: true })
    expect(shown.space.parameters).toEqual(given.space.parameters)
    const rows = describeExperiment(given).map(({ path, value }) => `${path} ${value}`)
    expect(rows).toContain('stages.b.space.batchSize 1, 8 (ordinal, server, log)')
  })

  test('may call others, more than four models, and one twice', () => {
    writeModels({
      search: ensemble('search', 'vision', 'c', 'd', 'e', 'a'),
      vision: ensemble('vision', 'a', 'b'),
      ...Object.fromEntries(['a', 'b', 'c', 'd', 'e'].map((name) => [name, model(name)])),
    })
    expect(listModels(search).map(({ name }) => name)).toEqual([
      'search',
      'vision',
      'b',
      'c',
      'd',
      'e',
      'a',
    ])
    expect(listNames(search)).toHaveLength(6)
  })
})

test('a BLS model names the models that it calls, ensembles among them, and is a stage itself', () => {
  writeModels({
    route: model('route', 'instance_group [{ kind: KIND_CPU }]\n'),
    vision: ensemble('vision', 'a', 'b'),
    a: model('a'),
    b: model('b'),
    c: model('c'),
  })
  const text = `${head}model: models/route
space: {cpuCores: 1, instances: [1, 4], batchSize: [1, 8]}
stages: {vision: {}, c: {pin: {batchSize: 2}}}
`
  const given = loadFile(text)
  const stored = loadExperimentDocument(given.document, 'route-1', { cwd: path(), machine })
  expect(stored.predictor).toEqual(given.predictor)
  expect(listModels(text).map(({ name, stage }) => [name, stage])).toEqual([
    ['route', 'route'],
    ['vision', undefined],
    ['a', 'a'],
    ['b', 'b'],
    ['c', 'c'],
  ])
  // The inputs of `route` have no batch dimension, so it only has instances to tune.
  expect(listNames(text)).toEqual([
    'cpuCores',
    'route.instances',
    'a.batchSize',
    'a.instances',
    'b.batchSize',
    'b.instances',
    'c.batchSize',
  ])
})

describe('what is wrong is reported at its line', () => {
  const configs = { search: ensemble('search', 'a', 'b'), a: model('a'), b: model('b') }
  const stages = (text: string) => `${search}stages:\n${text}`
  test.each<[string, Readonly<Record<string, string>>, string, string[]]>([
    [
      'a model that the repository does not have',
      { search: ensemble('search', 'a', 'ranker'), a: model('a') },
      search,
      ["models/search/config.pbtxt:15 the model repository models has no model 'ranker'"],
    ],
    [
      'a named model that it does not have',
      configs,
      stages('  c: {}\n'),
      ["e.yaml:6:6 the model repository models has no model 'c'"],
    ],
    [
      'a circle',
      { ...configs, b: ensemble('b', 'search') },
      search,
      ['models/b/config.pbtxt:9 models call each other in a circle: search → b → search'],
    ],
    [
      'a file that is not in text format',
      { ...configs, b: 'name: "b"\nmax_batch_size = 8\n' },
      search,
      ['models/b/config.pbtxt:2 line 2 is not in protocol buffer text format'],
    ],
    [
      'smaller batches than those of the ensemble',
      { ...configs, b: model('b', 'max_batch_size: 4\n') },
      search,
      [
        'models/b/config.pbtxt:3 b takes batches of up to 4, but its ensemble search allows 8 (models/search/config.pbtxt:3)',
      ],
    ],
    [
      'batches of a model without them',
      { ...configs, b: model('b', '') },
      stages('  b:\n    space: {batchSize: [1, 8]}\n'),
      [
        'e.yaml:7:24 stage b: batchSize: b takes no batches: its inputs are written without max_batch_size (models/b/config.pbtxt:3)',
      ],
    ],
    [
      'dynamic batches of a model with sequences',
      { ...configs, b: model('b', 'max_batch_size: 8\nsequence_batching { }\n') },
      stages('  b:\n    space: {maxDelayMs: [0, 1]}\n'),
      [
        'e.yaml:7:25 stage b: maxDelayMs: b batches sequences (models/b/config.pbtxt:4), which excludes dynamic batching',
      ],
    ],
    [
      'settings of an ensemble',
      { ...configs, b: ensemble('b', 'a') },
      stages('  b:\n    space: {instances: [1, 2]}\n'),
      [
        'e.yaml:7:24 stage b: instances: b is an ensemble (models/b/config.pbtxt:6), which has neither batches nor instances',
      ],
    ],
    [
      'a server of a stage',
      configs,
      stages('  a:\n    replicas: 2\n    space: {instances: 2}\n'),
      ['e.yaml:7:15 stage a: replicas: a model of a Triton server has no replicas of its own'],
    ],
    [
      'resources and unknown settings of a stage',
      configs,
      stages('  a:\n    space: {cpuCores: 2, frames: 2, instanceKind: CPU}\n'),
      [
        'e.yaml:7:23 stage a: cpuCores: the models of a server share its resources',
        'e.yaml:7:34 stage a: frames: Triton has no such setting of a model',
        "e.yaml:7:51 stage a: instanceKind: 'CPU' is not a kind of instances",
      ],
    ],
    [
      'a backend that starts no server',
      configs,
      `${search}backend: kubernetes\n`,
      ['e.yaml:5:10 the models of one Triton server are not tuned on the backend kubernetes yet'],
    ],
  ])('%s', (_what, files, text, expected) => {
    writeModels(files)
    expect(problemLines(() => loadFile(text))).toEqual(expected)
  })
})
