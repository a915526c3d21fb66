import { mkdirSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { resolveDeployed } from '../../reports/figures.ts'
import { vgg19 } from '../../trials/devices/testing/graphs.ts'
import { applyVariant } from '../../trials/launchers/variants.ts'
import { buildContainer } from '../artifacts/serving.ts'
import { createEstimatorLookup } from '../problem/estimators.ts'
import { loadExperimentDocument } from './load-experiment.ts'
import { resolveMeasuredWith } from './measured-with.ts'
import { findOrigin, machine, problemsOf, useWorkspace, valuesOf } from './testing/workspace.ts'

const { path, write, load, loadFile } = useWorkspace()

const gpus =
  'Home Card:\n  memoryGiB: 16\n  bandwidthGBs: 500\n  peakTflops: { fp32: 20, fp16: 80 }\n'
const dimensions = {
  model_type: 'bert',
  hidden_size: 384,
  num_hidden_layers: 6,
  num_attention_heads: 6,
  intermediate_size: 1536,
  vocab_size: 30522,
}

function files({ gpuFile = gpus, config = dimensions as object } = {}) {
  write('my-gpus.yaml', gpuFile)
  write('prices.yaml', 'gpus: { Home Card: 0.2 }\n')
  mkdirSync(path('mine'), { recursive: true })
  write('mine/config.json', JSON.stringify(config, null, 1))
}
const own = 'model: mine/config.json\nslo: 50ms\ngpuCatalogue: my-gpus.yaml\nprices: prices.yaml\n'

describe("the user's own GPUs and dimensions", () => {
  test('are tuned over, placed by their figures, and reach the predictor as files', () => {
    files()
    const experiment = loadFile(`${own}space: { gpu: [home-card, T4] }\n`)
    expect(valuesOf(experiment, 'gpu')).toEqual(['Home Card', 'T4'])
    const gpu = experiment.space.parameters.find(({ name }) => name === 'gpu')!
    expect(gpu.kind === 'categorical' && gpu.features?.['Home Card']).toEqual([
      Math.log(500),
      Math.log(80),
    ])
    expect(experiment.model).toMatchObject({
      name: 'mine',
      architecture: 'mine',
      architecturePath: path('mine/config.json'),
    })
    expect(experiment.own.architectures).toMatchObject([
      { kind: 'encoder', name: 'mine', layers: 6, hidden: 384 },
    ])
    expect(experiment.predictor).toMatchObject({
      model: 'mine',
      engine: 'emulated',
      gpuCatalogue: path('my-gpus.yaml'),
      architectureFile: path('mine/config.json'),
    })
  })

  test('with a price are chosen from unless GPUs are named, and are kept in the document', () => {
    files()
    const experiment = loadFile(own)
    expect(valuesOf(experiment, 'gpu')).toEqual([
      'Home Card',
      'T4',
      'L4',
      'A10G',
      'V100',
      'A100-40GB',
    ])
    expect(experiment.document).toMatchObject({
      model: { name: 'mine', architecture: path('mine/config.json') },
      gpuCatalogue: path('my-gpus.yaml'),
    })
    expect(findOrigin(experiment, 'gpuCatalogue')).toMatch(/:3:/)
    const again = loadExperimentDocument(experiment.document, 'mine-1', { cwd: path('.'), machine })
    expect(again.document).toEqual(experiment.document)
    expect(again.own).toEqual(experiment.own)
  })

  test('by flags; a name of its own; a language model', () => {
    files({
      config: {
        ...dimensions,
        model_type: 'llama',
        num_key_value_heads: 2,
        max_position_embeddings: 4096,
      },
    })
    const flags = {
      model: 'mine/config.json',
      slo: '500ms',
      gpuCatalogue: 'my-gpus.yaml',
      prices: 'prices.yaml',
    }
    expect(load(flags)).toMatchObject({
      model: { name: 'mine' },
      predictor: { protocol: 'openai' },
    })
    expect(
      loadFile(own.replace('mine/config.json', '{ name: ours, architecture: mine/config.json }'))
        .model.name,
    ).toBe('ours')
  })

  test('of a variant of another architecture the file is left aside', () => {
    files()
    const { predictor } = loadFile(
      `${own}variants:\n  a: { quality: 0.9 }\n  b: { quality: 0.8, model: distilbert }\n`,
    )
    expect(applyVariant(predictor, { variant: 'a' }).template).toMatchObject({
      model: 'mine',
      architectureFile: path('mine/config.json'),
    })
    expect(applyVariant(predictor, { variant: 'b' }).template).toMatchObject({
      model: 'distilbert',
      architectureFile: undefined,
    })
  })
})

describe('a model of the user’s own by its ONNX file', () => {
  const onnx = (more: object = {}) => load({ model: './vgg19.onnx', slo: '100ms', ...more })

  test('is simulated, emulated and foretold by what its graph asks of a device, which is said', () => {
    writeFileSync(path('vgg19.onnx'), vgg19())
    const experiment = onnx({ backend: 'simulated' })
    expect(experiment.notices).toContainEqual(
      expect.stringMatching(
        /^vgg19, counted from its graph: 19.6 G multiply-adds for an image of 224 pixels, 144 M weights\.$/,
      ),
    )
    expect(experiment.own.architectures).toMatchObject([
      { kind: 'graph', name: 'vgg19', inputKind: 'image', fixedSize: 224 },
    ])
    expect(experiment.predictor).toMatchObject({
      engine: 'emulated',
      model: 'vgg19',
      architectureFile: path('vgg19.onnx'),
    })
    const of = createEstimatorLookup(experiment)!
    const { estimator, configuration } = of({
      gpu: 'T4',
      cpuCores: 8,
      batchSize: 8,
      gpuMemoryPercent: 100,
    })
    const { capacityRps, relativeError } = estimator.estimate(configuration) as {
      capacityRps: number
      relativeError: number
    }
    // 39 GFLOP an image, of which a T4 does less than its 65 TFLOP/s of the datasheet.
    expect(capacityRps).toBeGreaterThan(150)
    expect(capacityRps).toBeLessThan(1650)
    expect(relativeError).toBeGreaterThan(0.25)
    const renamed = loadFile(
      'model: { path: vgg19.onnx, name: ours }\nslo: 100ms\nbackend: simulated\n',
    )
    expect(renamed).toMatchObject({
      model: { name: 'ours', architecture: 'vgg19' },
      predictor: { model: 'vgg19' },
    })
    const again = loadExperimentDocument(experiment.document, 'vgg19-1', {
      cwd: path('.'),
      machine,
    })
    expect(again.document).toEqual(experiment.document)
    expect(again.own).toEqual(experiment.own)
  })

  test('is run for real where it can be, and has a prior there too; the architecture that is named counts', () => {
    writeFileSync(path('vgg19.onnx'), vgg19())
    expect(onnx().predictor).toMatchObject({
      engine: 'onnx',
      env: { MODEL_PATH: path('vgg19.onnx') },
    })
    expect(createEstimatorLookup(onnx())).toBeDefined()
    const named = loadFile(
      'model: { path: vgg19.onnx, architecture: vgg16 }\nslo: 100ms\nbackend: simulated\n',
    )
    expect([named.predictor, named.own.architectures]).toMatchObject([
      { model: 'vgg16', architectureFile: undefined },
      [],
    ])
  })

  test('on a GPU of this machine it is foretold in the precision that it is run in, not in the halves that are emulated', () => {
    writeFileSync(path('vgg19.onnx'), vgg19())
    const here = { machine: { cpuCores: 8, gpus: ['NVIDIA A10'], drivesGpus: () => true } }
    const rate = (experiment: ReturnType<typeof load>, more: object = {}) => {
      const { estimator, configuration } = createEstimatorLookup(experiment)!({
        gpu: 'A10',
        cpuCores: 8,
        batchSize: 8,
        ...more,
      })
      return (estimator.estimate(configuration) as { capacityRps: number }).capacityRps
    }
    for (const model of ['bert', './vgg19.onnx']) {
      const real = load({ model, slo: '200ms' }, here)
      const emulated = load({ model, slo: '200ms', devices: 'emulated' }, here)
      expect([real.devicesUsed, rate(real)]).toEqual(['gpu', rate(real, { precision: 'fp32' })])
      expect(rate(emulated)).toBe(rate(emulated, { precision: 'fp16' }))
      expect(rate(emulated)).toBeGreaterThan(1.2 * rate(real))
    }
  })

  test('simulated or emulated it deploys in the engine that runs such files', () => {
    writeFileSync(path('vgg19.onnx'), vgg19())
    for (const where of [{ backend: 'simulated' }, { devices: 'emulated' }]) {
      const experiment = onnx(where)
      expect(buildContainer(experiment, { gpu: 'T4', cpuCores: 2 }).env).toMatchObject({
        ENGINE: 'onnx',
      })
      expect(resolveDeployed(resolveMeasuredWith(experiment, 'simulated', { gpu: 'T4' }))).toEqual({
        server: 'builtin',
        engine: 'onnx',
      })
    }
    expect(
      buildContainer(load({ model: 'bert', slo: '50ms', backend: 'simulated' }), {
        gpu: 'T4',
        cpuCores: 2,
      }).env,
    ).toMatchObject({
      ENGINE: 'tfjs',
    })
  })

  test('a size that the file fixes is not tuned, and a file that is no graph is told', () => {
    writeFileSync(path('vgg19.onnx'), vgg19())
    const problems = (text: string) =>
      problemsOf(() => loadFile(text)).map(({ what, hint }) => `${what}; ${hint}`)
    expect(
      problems(
        'model: { path: vgg19.onnx }\nslo: 100ms\nbackend: simulated\nspace: { imageSize: [128, 224] }\n',
      ),
    ).toEqual([
      'imageSize has no effect on vgg19; the model file fixes it at 224; export the model with a dynamic axis',
    ])
    write('broken.onnx', 'no graph')
    expect(problems('model: { path: broken.onnx }\nslo: 100ms\nbackend: simulated\n')).toEqual([
      expect.stringMatching(
        /broken.onnx is not an ONNX model: .*; or set the most similar architecture/,
      ),
    ])
    expect(loadFile('model: { path: broken.onnx }\nslo: 100ms\n').predictor).toMatchObject({
      engine: 'onnx',
    })
  })
})

describe('what is wrong with them is said with its place', () => {
  const lines = (text: string) =>
    problemsOf(() => loadFile(text)).map(({ where, what, hint }) => `${where} ${what}; ${hint}`)

  test('every fault of both files, and of the experiment, at once', () => {
    const { num_hidden_layers: _, ...rest } = dimensions
    files({ gpuFile: 'Home Card:\n  memoryGiB: -1\n  peakTflops: { fp32: 20 }\n', config: rest })
    const found = lines(`${own}space: { gpu: home-card }\nbudget: { maxTrials: 0 }\n`)
    expect(found).toHaveLength(4)
    expect(found[0]).toMatch(
      /:1:\d+ architecture file mine\/config.json:1: num_hidden_layers: expected a whole number/,
    )
    expect(found[1]).toMatch(/:3:\d+ GPU file my-gpus.yaml:\d: Home Card.\w+: expected a number/)
    expect(found.join('\n')).toContain(
      'my-gpus.yaml:2: Home Card.memoryGiB: expected a number above 0, got -1',
    )
    expect(found.join('\n')).toContain('my-gpus.yaml:1: Home Card.bandwidthGBs: expected a number')
    expect(found[3]).toContain('budget.maxTrials')
  })

  test.each([
    [
      'a GPU that neither file nor catalogue has',
      'space: { gpu: [hom-card, T44] }',
      [/unknown GPU 'hom-card'.*Home Card/s, /unknown GPU 'T44'.*T4/s],
    ],
    [
      'a MIG profile that its GPU lacks',
      'space: { gpu: A100, migProfile: 1g.6gb }',
      [/none of A100-40GB has the profile 1g.6gb.*1g.5gb/s],
    ],
    [
      'MIG of a GPU of the user',
      'space: { gpu: home-card, migProfile: 1g.5gb }',
      [/none of Home Card has the profile 1g.5gb.*only A30, A100, H100 and later/s],
    ],
    [
      'a cluster, which has no such files',
      'backend: kubernetes\ndevices: emulated',
      [/a predictor emulated in a cluster cannot read files/],
    ],
  ])('%s', (_, more, expected) => {
    files()
    const found = lines(`${own}${more}\n`)
    for (const pattern of expected) expect(found.join('\n')).toMatch(pattern)
    expect(found).toHaveLength(expected.length)
  })

  test('files that are not there, and a GPU without a price', () => {
    expect(lines(own.replace('prices: prices.yaml\n', ''))).toEqual([
      expect.stringMatching(/:1:\d+ cannot read the architecture file: ENOENT/),
      expect.stringMatching(/:3:\d+ cannot read the GPU file: ENOENT/),
    ])
    files()
    expect(
      lines(`${own.replace('prices: prices.yaml\n', '')}space: { gpu: home-card }\n`).join(),
    ).toMatch(/no price for the GPU Home Card/)
  })
})
