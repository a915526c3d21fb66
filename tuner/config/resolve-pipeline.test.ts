import { describe, expect, test } from 'vitest'
import { computeVisitRatios } from '../../trials/pipeline/pipeline.ts'
import { describeExperiment } from './describe-experiment.ts'
import { loadExperimentDocument } from './load-experiment.ts'
import { findOrigin, machine, problemLines, problemsOf, useWorkspace } from './testing/workspace.ts'

const { load, loadFile, path } = useWorkspace()

const pipeline = `slo: 150ms
backend: simulated
stages:
  embed:
    model: bert
    calls: [classify]
    replicas: 1..3
    space: {cpuCores: [1, 2], gpu: [T4, none], gpuMemoryPercent: [50, 100], batchSize: [1, 8]}
    constraints: batchSize <= 4 or cpuCores > 1
  classify:
    model: resnet50
    calls: {ocr: 30%}
    space: {cpuCores: [2, 4], gpu: T4, gpuMemoryPercent: 100, batchSize: [1, 8]}
  ocr:
    model: resnet50
    pin: {cpuCores: 4}
    space: {gpu: T4, gpuMemoryPercent: 100, batchSize: 4}
constraints: embed.batchSize <= classify.batchSize
`

describe('a pipeline', () => {
  test('has the parameters of all stages under their names', () => {
    const { space, name } = loadFile(pipeline)
    expect(name).toBe('embed-classify-ocr')
    expect(space.parameters.map((one) => one.name)).toEqual([
      'embed.replicas',
      'embed.cpuCores',
      'embed.gpu',
      'embed.gpuMemoryPercent',
      'embed.batchSize',
      'classify.replicas',
      'classify.cpuCores',
      'classify.gpu',
      'classify.gpuMemoryPercent',
      'classify.batchSize',
      'ocr.replicas',
      'ocr.cpuCores',
      'ocr.gpu',
      'ocr.gpuMemoryPercent',
      'ocr.batchSize',
    ])
    const [replicas] = space.parameters
    expect(replicas).toMatchObject({ category: 'resource', monotone: 'up' })
  })

  test('keeps conditions within stages and across them', () => {
    const { space } = loadFile(pipeline)
    const configuration = {
      'embed.cpuCores': 2,
      'embed.gpu': 'T4',
      'embed.batchSize': 8,
      'classify.batchSize': 8,
    }
    const holds = (other: Record<string, number | string>) =>
      space.constraints.every((one) => one.holds({ ...configuration, ...other }))
    expect(holds({})).toBe(true)
    expect(holds({ 'embed.cpuCores': 1 })).toBe(false)
    expect(holds({ 'classify.batchSize': 1 })).toBe(false)
    const share = space.parameters.find((one) => one.name === 'embed.gpuMemoryPercent')
    expect(share?.when?.holds({ 'embed.gpu': 'T4' })).toBe(true)
    expect(share?.when?.holds({ 'embed.gpu': 'none' })).toBe(false)
  })

  test('sorts stages by their calls', () => {
    const { stages } = loadFile(pipeline)
    expect(Object.fromEntries(computeVisitRatios({ stages: stages! }))).toEqual({
      embed: 1,
      classify: 1,
      ocr: 0.3,
    })
  })

  test('is the same when it is read from the store', () => {
    const experiment = loadFile(pipeline)
    const stored = loadExperimentDocument(experiment.document, 'x-1', { cwd: path(), machine })
    expect(stored.document).toEqual(experiment.document)
    expect(JSON.stringify(stored.space)).toBe(JSON.stringify(experiment.space))
    expect(stored.stages!.map(({ name, calls }) => [name, calls])).toEqual(
      experiment.stages!.map(({ name, calls }) => [name, calls]),
    )
  })

  test('is shown with the place of each value', () => {
    const experiment = loadFile(pipeline)
    const rows = Object.fromEntries(
      describeExperiment(experiment).map(({ path, value }) => [path, value]),
    )
    expect(rows).toMatchObject({
      'stages.embed.model.name': 'bert',
      'stages.embed.replicas': '1..3 (int, resource)',
      'stages.classify.calls': 'ocr=0.3',
      'stages.ocr.space.cpuCores': '4 (ordinal, resource, log)',
    })
    expect(findOrigin(experiment, 'stages.embed.replicas')).toBe('e.yaml:7:15')
    expect(findOrigin(experiment, 'stages.ocr.space.cpuCores')).toBe('e.yaml:16:21')
    expect(findOrigin(experiment, 'stages.ocr.replicas')).toBe('default')
  })

  test('hides secrets of its stages', () => {
    const { document, secrets } = loadFile(
      pipeline.replace(
        '    model: bert\n',
        '    model: bert\n    predictor: {env: {API_TOKEN: s3cr3t-0123456789abcdef}}\n',
      ),
    )
    expect(JSON.stringify(document)).not.toContain('s3cr3t')
    expect([...secrets!.values()]).toEqual(['s3cr3t-0123456789abcdef'])
  })

  test('hides secrets of the pods of its stages', () => {
    const createStage = (name: string) =>
      `  ${name}:
    model: m
    predictor: {protocol: json, path: /}
    kubernetes: {pod: {spec: {containers: [{name: s, image: i, args: ["\${stages.b.url}"], env: [{name: API_TOKEN, value: s3cr3t-0123456789abcdef}]}]}}}
    space: {cpuCores: 1}
`
    const { document, stages } = loadFile(
      `slo: 1s\nbackend: kubernetes\nstages:\n${createStage('a')}    calls: [b]\n${createStage('b').replace('${stages.b.url}', 'x')}`,
    )
    expect(JSON.stringify(document)).not.toContain('s3cr3t')
    expect(JSON.stringify(stages!.map(({ experiment }) => experiment))).not.toContain('s3cr3t')
  })
})

describe('everything wrong with a pipeline is reported at once', () => {
  test('with its place in the file', () => {
    expect(
      problemLines(() =>
        loadFile(`slo: 150ms
model: bert
backend: kubernetes
stages:
  Embed:
    model: bert
    calls: {clasify: 1, b: 0}
  classify:
    model: nothing-known
    replicas: 0..2
    spcae: {}
  c:
    calls: [d]
    space: {batchSize: lots}
  d: {model: bert, calls: [c], space: {nonsense: [1, 2]}}
`),
      ),
    ).toEqual([
      'e.yaml:2:8 model: an experiment with stages has no model of its own',
      "e.yaml:6:5 stages: 'Embed' is not a valid name of a stage",
      "e.yaml:7:22 stage Embed calls 'clasify', but no stage has this name",
      'e.yaml:7:28 stages.Embed.calls.b: 0 is zero; it must be more',
      'e.yaml:10:15 stage classify: replicas must be whole numbers of at least 1',
      "e.yaml:11:5 unknown key 'stages.classify.spcae'",
      'e.yaml:13:12 stages call each other in a circle: c → d → c',
      "e.yaml:14:24 stage c: batchSize: 'lots' is not a number",
      "e.yaml:15:50 stage d: the built-in predictor has no parameter 'nonsense'",
    ])
  })

  test('an entry must be found', () => {
    const two = 'slo: 1s\nbackend: simulated\nstages:\n  a: {model: bert}\n  b: {model: bert}\n'
    expect(problemsOf(() => loadFile(two))).toEqual([
      {
        where: 'e.yaml:5:6',
        what: 'no stage calls b, and no stage calls a: a pipeline has one entry',
        hint: 'add b to the calls of another stage, or remove it',
      },
    ])
  })

  test('commands receive the addresses of the stages that they call', () => {
    const file = `slo: 1s
stages:
  a:
    model: m
    predictor: {command: "server ${'${port} ${stages.c.url}'}", protocol: json, path: /a}
    calls: [b]
    space: {cpuCores: 0.5}
  b: {model: m, predictor: {command: "server ${'${port}'}", protocol: json, path: /b}, space: {cpuCores: 0.5}}
`
    expect(problemLines(() => loadFile(file))).toEqual([
      'e.yaml:5:26 stage a: predictor.command: unknown placeholder ${stages.c.url}',
      'e.yaml:5:26 stage a: predictor.command: the address of stage b never reaches the predictor',
    ])
  })

  test('pods receive the addresses of the stages that they call', () => {
    const pod = (name: string, args: string) =>
      `    kubernetes: {pod: {spec: {containers: [{name: ${name}, image: i, args: ["${args}"]}]}}}\n`
    const file = `slo: 1s
backend: kubernetes
kubernetes: {namespace: n, image: i, container: x}
stages:
  a:
    model: m
    predictor: {protocol: json, path: /a}
${pod('s', '${stages.c.url}')}    calls: [b]
    space: {cpuCores: 0.5}
  b:
    model: m
    predictor: {protocol: json, path: /b}
${pod('t', '${cpuCores}')}    space: {cpuCores: [0.5, 1]}
`
    expect(problemLines(() => loadFile(file))).toEqual([
      'e.yaml:3:49 kubernetes.container: an experiment with stages has no container of its own',
      'e.yaml:8:23 stage a: kubernetes.pod: unknown placeholder ${stages.c.url}',
      'e.yaml:8:23 stage a: kubernetes.pod: the address stages.b.url never reaches the predictor',
    ])
    const { stages, document, kubernetes } = loadFile(
      file.replace(', container: x', '').replace('stages.c.url', 'stages.b.url'),
    )
    expect(stages!.map(({ experiment }) => experiment.kubernetes)).toMatchObject([
      { namespace: 'n', image: 'i', container: 's' },
      { namespace: 'n', image: 'i', container: 't' },
    ])
    expect(kubernetes).toMatchObject({ namespace: 'n', image: 'i' })
    expect(document.stages).toMatchObject({ b: { kubernetes: { container: 't' } } })
    expect(document.kubernetes).toEqual({ namespace: 'n', image: 'i' })
  })

  test('settings of a cluster need its backend', () => {
    const file = `slo: 1s
backend: simulated
kubernetes: {namespace: n}
stages:
  a: {model: bert, calls: [b], kubernetes: {port: 1}}
  b: {model: bert}
`
    expect(problemLines(() => loadFile(file))).toEqual([
      'e.yaml:3:13 a kubernetes section with backend simulated',
      'e.yaml:5:44 stage a: a kubernetes section with backend simulated',
    ])
  })

  test('stages of this machine are started by its trials', () => {
    const file = `slo: 1s
stages:
  a: {model: bert, calls: [b], space: {cpuCores: 0.5, gpu: none}}
  b: {model: m, predictor: {url: 'http://127.0.0.1:1', protocol: json, path: /b}}
`
    expect(problemLines(() => loadFile(file))).toEqual([
      'e.yaml:3:27 stage a: the built-in predictor calls no other stage',
      'e.yaml:4:28 stage b: a server that runs already cannot be a stage yet',
    ])
  })

  test('stages stream no answers', () => {
    expect(
      problemLines(() =>
        loadFile(`slo: 1s
backend: simulated
stages:
  a: {model: bert, calls: [b]}
  b: {model: llama-3.1-8b}
`),
      ),
    ).toEqual(['e.yaml:5:14 stage b: language models cannot be simulated as stages yet'])
  })

  test('flags of a single predictor do not apply', () => {
    expect(
      problemLines(() =>
        load({ model: 'bert' }, { file: undefined, given: { slo: '1s', stages: {} } }),
      ),
    ).toContain('--model an experiment with stages has no model of its own')
  })
})
