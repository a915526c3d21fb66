/**
 * The files of every target for samples of recommendations: `golden/TARGET/SAMPLE.FILE`.
 * `npm run golden` writes them; review the difference as you would review the target.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { createServing } from './create-serving.ts'
import {
  loadTarget,
  pipelineTargets,
  renderSpec,
  type SpecTargetName,
  specTargets,
} from './index.ts'
import { renderPipelineSpec } from './pipeline-spec.ts'
import type { Serving, ServingOptions } from './serving.ts'
import {
  evidence,
  found,
  hubModel,
  languageServing,
  noGpu,
  ownCommand,
  pipelineServings,
  pooledServing,
  quarter,
  serving,
  simulatedChain,
  whole,
} from './spec-samples.contract.ts'
import type { SpecFile, SpecOptions } from './target.ts'
import {
  batchingParameters,
  checkCompose,
  checkManifests,
  checkProto,
  modelServerConfig,
  readTextProto,
  tritonModelConfig,
} from './validate.contract.ts'

const uncounted = serving({}, noGpu, { requestsMetric: undefined })
const secrets = serving({}, noGpu, {
  env: { TOKEN: '${env:TOKEN}', AUTH: 'Bearer ${env:HUB}', COST: '$5' },
  args: ['--key=${env:KEY}'],
})
const eagle = {
  speculativeTokens: 3,
  speculativeMethod: 'eagle3',
  speculativeModel: 'org/eagle',
  quantization: 'fp8',
}
const overlay = {
  metadata: { labels: { team: 'ml' }, annotations: { 'team/owner': 'ml' } },
  spec: {
    priorityClassName: 'low',
    tolerations: [{ key: 'spot', operator: 'Exists' }],
    containers: [{ name: 'predictor', env: [{ name: 'OMP_NUM_THREADS', value: '1' }] }],
  },
}
const hours = Array.from({ length: 24 }, (_, hour) => (hour >= 9 && hour < 18 ? 4 : 2))
/** Emulated, and deployed as Triton without weights. */
const emulated = createServing(
  {
    ...found,
    deployed: { server: 'triton', weights: 'missing' },
    evidence: {
      ...evidence,
      measured: {
        ...ownCommand,
        server: 'builtin',
        engine: 'emulated',
        how: 'emulated',
        gpu: 'T4',
        modelKind: 'encoder',
        weights: 'none',
      },
    },
  },
  { headroom: 0.2 },
)
/** On the instances that its price is for. */
const priced = createServing(
  {
    ...found,
    resources: whole,
    candidate: {
      ...found.candidate,
      bundles: [
        {
          name: 'NC4as_T4_v3',
          replicas: 1,
          perHour: 0.5,
          instanceType: 'Standard_NC4as_T4_v3',
          isFull: true,
        },
      ],
    },
  },
  { demandRps: 900, headroom: 0.2 },
)
const withBody = createServing(
  {
    ...found,
    evidence: {
      ...evidence,
      measured: { ...ownCommand, protocol: 'json', path: '/predict', body: '{"text": "{{text}}"}' },
    },
  },
  { demandRps: 900, headroom: 0.2 },
)
const withVersion = (server: 'tfserving' | 'triton', modelUri?: string) => ({
  ...serving({ server, modelVersion: '42' }, quarter),
  modelUri,
})
/** Triton derives the configuration of `rank`. */
const ensemble: Serving = {
  ...serving({ server: 'triton' }, noGpu),
  configuration: {
    cpuCores: 2,
    'tokenise.instances': 2,
    'encode.batchSize': 4,
    'encode.maxDelayMs': 1,
    'rank.instances': 2,
  },
  tritonModels: [
    {
      name: 'bert',
      steps: ['tokenise', 'encode', 'rank'],
      config: `# Passes tensors on.
name: "bert"
platform: "ensemble"
max_batch_size: 8
ensemble_scheduling {
  step { model_name: "tokenise" model_version: -1 input_map { key: "text" value: "text" } output_map { key: "ids" value: "ids" } }
  step { model_name: "encode" model_version: -1 input_map { key: "ids" value: "ids" } output_map { key: "y" value: "vector" } }
  step { model_name: "rank" model_version: -1 input_map { key: "x" value: "vector" } output_map { key: "y" value: "score" } }
}
`,
    },
    {
      name: 'tokenise',
      stage: 'tokenise',
      config: 'name: "tokenise"\nbackend: "python"\ninstance_group { kind: KIND_CPU }\n',
    },
    {
      name: 'encode',
      stage: 'encode',
      minBatchSize: 1,
      config: `name: "encode"
backend: "onnxruntime"
max_batch_size: 8
dynamic_batching { preserve_ordering: true } # in order
`,
    },
    { name: 'rank', stage: 'rank' },
  ],
}
const planned = (replicaPlan: ServingOptions['replicaPlan'], gpuScheme?: 'dra') =>
  serving({ demandRps: undefined, replicaPlan, gpuScheme })
const runtime = (of: Serving): Serving => ({
  ...of,
  container: { ...of.container, isImageNamed: false },
})

type Sample = Serving | readonly [Serving, SpecOptions]
const samples: Readonly<Record<SpecTargetName, Readonly<Record<string, Sample>>>> = {
  kubernetes: {
    'own-command': serving(),
    'own-command-keda': [serving({ namespace: 'ml' }), { autoscaler: 'keda' }],
    'own-command-cpu': uncounted,
    'own-command-one-replica': [serving({ demandRps: 10 }, noGpu), { autoscaler: 'none' }],
    'own-command-secrets': secrets,
    'own-command-priced': priced,
    'own-command-dra': serving({ gpuScheme: 'dra' }, whole),
    'own-pod': serving(
      {
        pod: {
          metadata: { name: 'p', labels: { team: 'ml' } },
          spec: { containers: [{ name: 'mine', image: 'x:1' }] },
        },
      },
      quarter,
      { port: 9090 },
    ),
    'fleet-by-hour': planned({ replicas: 4, byHour: hours, timezone: 'Europe/Berlin' }),
    'fleet-shared-gpu': planned({ replicas: 2, claim: 'shared-1', timezone: 'UTC' }, 'dra'),
    builtin: serving({ server: 'builtin', overlay }),
    tfserving: serving({
      server: 'tfserving',
      modelUri: 'csi://gcsfuse.csi.storage.gke.io/bert/7?bucketName=models',
    }),
    triton: serving({ server: 'triton' }),
    'triton-emulated': emulated,
    mlserver: serving({ server: 'mlserver', modelUri: 'pvc://weights/bert' }),
    vllm: languageServing('vllm', hubModel, 2, eagle),
    sglang: languageServing('sglang', 's3://bucket/llama'),
    'sglang-pools': pooledServing(),
    'sglang-pools-unequal': [pooledServing('sglang', 4), { autoscaler: 'none' }],
    tgi: languageServing('tgi', 'oci://registry.example/llama:1'),
    'tensorrt-llm': languageServing('tensorrt-llm', 'pvc://weights/model'),
  },
  rollout: {
    'own-command': serving(),
    'json-body': [withBody, { tunerImage: 'registry.example/tune:7' }],
  },
  kserve: {
    'own-command': serving(),
    'own-command-cpu': uncounted,
    'own-command-keda': [serving(), { variant: 'keda' }],
    'own-command-knative': [serving({}, whole), { variant: 'knative' }],
    builtin: serving({ server: 'builtin', overlay }),
    tfserving: serving({ server: 'tfserving' }, noGpu),
    triton: [serving({ server: 'triton' }), { backend: 'tensorrt' }],
    'triton-knative': [serving({ server: 'triton' }), { variant: 'knative' }],
    mlserver: serving({ server: 'mlserver', modelUri: 'csi://blob.csi.azure.com?containerName=m' }),
    vllm: runtime(languageServing('vllm', hubModel, 2)),
    'vllm-llm': [languageServing('vllm', hubModel, 2, eagle), { variant: 'llm' }],
  },
  seldon: {
    tfserving: serving({ server: 'tfserving' }, noGpu),
    triton: serving({ server: 'triton', demandRps: 10 }),
  },
  kubedl: {
    tfserving: serving({ server: 'tfserving', modelUri: '/models/bert', modelVersion: '42' }),
    triton: serving({ server: 'triton' }),
  },
  tfserving: {
    weights: withVersion('tfserving', "/models/o'model"),
    'no-weights': withVersion('tfserving'),
  },
  triton: {
    weights: withVersion('triton', 's3://bucket/models'),
    'no-weights': [withVersion('triton'), { backend: 'python' }],
    ensemble,
  },
  vllm: {
    hub: runtime(languageServing('vllm', hubModel, 2, eagle)),
    store: runtime(languageServing('vllm', 's3://bucket/llama')),
    'no-weights': runtime(languageServing('vllm', undefined)),
  },
  rayservice: {
    scaled: [
      serving({ server: 'ray', overlay }, whole, { isImageNamed: true }),
      { importPath: 'app:bert' },
    ],
    fixed: [
      { ...serving({ server: 'ray', demandRps: 10 }), inFlight: undefined },
      { importPath: 'app:bert' },
    ],
  },
  lws: { 'two-nodes': languageServing('vllm', hubModel, 16) },
  compose: {
    'own-command': serving(),
    'own-command-secrets': secrets,
    triton: serving({ server: 'triton' }),
    'triton-ensemble': ensemble,
    vllm: languageServing('vllm', hubModel, 2),
  },
}

type Pipeline = readonly [typeof pipelineServings, SpecOptions]
const pipelines: Readonly<
  Record<(typeof pipelineTargets)[number], Readonly<Record<string, Pipeline>>>
> = {
  kubernetes: {
    pipeline: [pipelineServings, {}],
    'pipeline-keda': [pipelineServings, { autoscaler: 'keda' }],
    'pipeline-unwired': [simulatedChain, { autoscaler: 'none' }],
  },
  kserve: {
    pipeline: [pipelineServings, {}],
    'pipeline-graph': [simulatedChain, {}],
  },
  compose: { pipeline: [pipelineServings, {}] },
}

const listSamples = (target: SpecTargetName) =>
  Object.entries(samples[target]).map(([name, sample]) => {
    const [of, options] = 'length' in sample ? sample : [sample, {}]
    return { name, of, options }
  })

/** Faults of a file by its official schema. */
function checkFile({ name, text }: SpecFile): string[] {
  if (name === 'compose.yaml') return checkCompose(parse(text))
  if (name.endsWith('.yaml')) return checkManifests(text).problems
  if (basename(name) === 'config.pbtxt') return checkProto(readTextProto(text), tritonModelConfig)
  if (name === 'models.config') return checkProto(readTextProto(text), modelServerConfig)
  if (name === 'batching_parameters.txt') return checkProto(readTextProto(text), batchingParameters)
  execFileSync('sh', ['-n'], { input: text })
  return []
}

const folder = join(dirname(fileURLToPath(import.meta.url)), 'golden')
const written = new Set<string>()

async function expectGolden(target: SpecTargetName, name: string, file: SpecFile): Promise<void> {
  expect((await loadTarget(target)).files).toContain(basename(file.name))
  const path = join(target, `${name}.${file.name.replace('/', '.')}`)
  written.add(path)
  expect(checkFile(file)).toEqual([])
  await expect(file.text).toMatchFileSnapshot(join(folder, path))
}

describe.each(specTargets)('%s', (target) => {
  test.each(listSamples(target))('$name', async ({ name, of, options }) => {
    for (const file of await renderSpec(target, of, options)) await expectGolden(target, name, file)
  })
})

describe.each(pipelineTargets)('pipelines on %s', (target) => {
  test.each(Object.entries(pipelines[target]))('%s', async (name, [createStages, options]) => {
    const stages = createStages(await loadTarget(target), options)
    await expectGolden(target, name, await renderPipelineSpec(target, 'shop', stages, options))
  })
})

test('only the targets for pipelines deploy them', async () => {
  const targets = await Promise.all(specTargets.map(loadTarget))
  expect(specTargets.filter((_, index) => targets[index]!.pipeline !== undefined)).toEqual(
    pipelineTargets,
  )
})

test('no golden file is left over', () => {
  const present = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  expect(present.filter((path) => path.includes('.') && !written.has(path))).toEqual([])
})
