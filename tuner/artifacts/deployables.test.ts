/**
 * Every target with every kind of predictor and model, with and without a place for the weights:
 * each is a whole spec, or a refusal that says why.
 */
import { execFileSync } from 'node:child_process'
import { beforeEach, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { selectableServers } from '../../reports/figures.ts'
import { recommend } from '../../reports/recommendation/recommend.ts'
import { complete, measured, sampleInput } from '../../reports/samples.contract.ts'
import {
  loadTarget,
  renderSpec,
  type SpecTargetName,
  specTargets,
} from '../../reports/specs/index.ts'
import { SpecError } from '../../reports/specs/spec-error.ts'
import {
  checkCompose,
  checkManifests,
  checkProto,
  readTextProto,
  tritonModelConfig,
} from '../../reports/specs/validate.contract.ts'
import type { Configuration, SearchSpace } from '../../search/types.ts'
import { weightsToFill } from '../../trials/predictor/weights-to-fill.ts'
import { useWorkspace } from '../config/testing/workspace.ts'
import type { Experiment } from '../config/types.ts'
import { resolveProvenance } from '../loop/notices.ts'
import { applyOwnPod } from './own-pod.ts'
import { type DeployOptions, resolveServing } from './serving.ts'

const workspace = useWorkspace()

const json = { protocol: 'json', path: '/predict', body: '{"text": "{{text}}"}' }
const own = { command: ['serve-it', '--port=${port}', '--batch=${batchSize}'], ...json }
const tuned = { cpuCores: [2], batchSize: { values: [8], category: 'server' } }
const kinds = {
  'encoder, emulated': { model: 'bert', devices: 'emulated', gpus: 'T4' },
  'encoder, simulated': { model: 'bert', backend: 'simulated' },
  'encoder on CPU': { model: 'bert', devices: 'cpu' },
  'image model on CPU': { model: 'resnet50', devices: 'cpu' },
  'ONNX file': { model: './files/mine.onnx', devices: 'cpu' },
  'language model, emulated': {
    model: 'llama-3.2-1b',
    slo: 'ttft<500ms',
    devices: 'emulated',
    gpus: 'L4',
  },
  'language model, simulated': { model: 'llama-3.2-1b', slo: 'ttft<500ms', backend: 'simulated' },
  'language model on SGLang, simulated': {
    model: 'llama-3.2-1b',
    slo: 'ttft<500ms',
    backend: 'simulated',
    predictor: { server: 'sglang' },
  },
  'language model on vLLM': {
    model: 'org/tiny',
    slo: 'ttft<500ms',
    predictor: { server: 'vllm' },
    space: { cpuCores: [2], maxNumSeqs: [8] },
  },
  'own command': { model: 'sentiment', predictor: own, space: tuned },
  'own command, language model': {
    model: 'tiny',
    predictor: { ...own, protocol: 'openai', path: undefined, body: undefined },
    space: tuned,
  },
  'TensorFlow Serving': {
    model: 'files/half',
    predictor: { server: 'tfserving' },
    space: { cpuCores: [2], batchSize: [8] },
  },
  Triton: {
    model: 'files/half',
    predictor: { server: 'triton' },
    space: { cpuCores: [2], batchSize: [8] },
  },
  'runs already': { model: 'sentiment', predictor: { url: 'http://127.0.0.1:1', ...json } },
  'own pod': {
    model: 'sentiment',
    backend: 'kubernetes',
    predictor: { protocol: 'oip-v2' },
    space: { cpuCores: [2], batchSize: { values: [8], category: 'env' } },
    kubernetes: {
      pod: { spec: { containers: [{ name: 'server', image: 'registry.example/own:1' }] } },
      container: 'server',
    },
  },
  'own command with secrets': {
    model: 'sentiment',
    predictor: {
      ...own,
      command: [...own.command, '--api-key', 'planted-key'],
      env: { DB_PASSWORD: 'planted-password', HF_TOKEN: '${env:HUB}' },
    },
    space: tuned,
  },
  'own pod with secrets': {
    model: 'sentiment',
    backend: 'kubernetes',
    predictor: { protocol: 'oip-v2' },
    space: { cpuCores: [2], batchSize: { values: [8], category: 'env' } },
    kubernetes: {
      pod: {
        spec: {
          containers: [
            {
              name: 'server',
              image: 'registry.example/own:1',
              args: ['--api-key=planted-key'],
              env: [
                { name: 'DB_PASSWORD', value: 'planted-password' },
                { name: 'AUTH', value: 'Bearer ${env:HUB}' },
              ],
            },
          ],
        },
      },
      container: 'server',
    },
  },
} as const
type Kind = keyof typeof kinds
const kindNames = Object.keys(kinds) as Kind[]
const isLanguage = (kind: Kind) => kind.includes('language model')
/** Measured for real, of a server that deploys as it is. */
const holds = [
  'encoder on CPU',
  'image model on CPU',
  'ONNX file',
  'own command',
  'own command, language model',
  'TensorFlow Serving',
  'Triton',
  'own pod',
  'own command with secrets',
  'own pod with secrets',
]

function experimentOf(kind: Kind): Experiment {
  workspace.write('files/mine.onnx', 'x')
  workspace.write('files/half/1/saved_model.pb', 'x')
  const { gpus, ...document } = { slo: '50ms', gpus: undefined, ...kinds[kind] } as Record<
    string,
    unknown
  >
  return workspace.loadFile(
    stringify(JSON.parse(JSON.stringify(document))),
    gpus === undefined ? {} : { gpus: String(gpus) },
  )
}

/** The first value of every parameter. */
const firstOf = ({ parameters }: SearchSpace): Configuration =>
  Object.fromEntries(
    parameters.map((p) => [p.name, 'values' in p ? p.values[0]! : (p as { min: number }).min]),
  )

/** What a spec is written of: the same for every target, so that a test makes it once. */
const found = new Map<Kind, ReturnType<typeof foundOf>>()
beforeEach(() => found.clear())

function foundOf(kind: Kind) {
  const experiment = experimentOf(kind)
  const configuration = firstOf(experiment.space)
  const usage = {
    launchSeconds: kind.includes('simulated') ? 0 : 4,
    cpuCores: 0.9,
    peakRssMiB: 300,
  }
  const recommendation = recommend({
    ...sampleInput,
    provenance: resolveProvenance(experiment),
    slo: experiment.slo,
    trials: [complete(1, configuration, { ...measured(265, 10), slo: experiment.slo }, { usage })],
    pricePerHour: () => 1,
    label: () => 'it',
  })
  return { experiment, recommendation }
}

async function filesOf(kind: Kind, target: SpecTargetName, { modelUri, server }: DeployOptions) {
  if (!found.has(kind)) found.set(kind, foundOf(kind))
  const { experiment, recommendation } = found.get(kind)!
  const { implies, takes } = await loadTarget(target)
  const implied = server ?? implies
  const serving = applyOwnPod(
    experiment,
    resolveServing(experiment, recommendation, recommendation.best!, [], {
      modelUri,
      server: implied,
    }),
  )
  const files = await renderSpec(
    target,
    serving,
    takes?.includes('importPath') ? { importPath: 'app:model' } : {},
  )
  return { files, serving }
}

test.each([
  ['own command with secrets', 'kubernetes'],
  ['own command with secrets', 'kserve'],
  ['own pod with secrets', 'kubernetes'],
] as const)('%s to %s: a Secret gives them, and how it is made is said', async (kind, target) => {
  const { files } = await filesOf(kind, target, {})
  const text = files.map((file) => file.text).join('\n')
  expect(text).not.toContain('planted')
  expect(text).toMatch(
    /name: DB_PASSWORD\s+valueFrom:\s+secretKeyRef:\s+name: sentiment-secrets\s+key: DB_PASSWORD/,
  )
  expect(text).toMatch(
    /kubectl create secret generic sentiment-secrets .*--from-literal=DB_PASSWORD="\$DB_PASSWORD"/,
  )
  const [, variable] = /--api-key(?:=|\s+- )\$\((\w+)\)/.exec(text) ?? []
  expect(text).toContain(`key: ${variable}\n`)
  if (kind === 'own pod with secrets') expect(text).toContain('value: Bearer $(HUB)')
})

test.each([
  ['encoder, simulated', 'kubernetes', ['no model weights', 'image tune-predictor:']],
  ['encoder, emulated', 'kserve', ['no model weights', 'image tune-predictor:']],
  ['language model, simulated', 'compose', ['no model weights']],
  ['own command with secrets', 'kubernetes', ['Secret sentiment-secrets', 'no container image']],
  ['own command with secrets', 'compose', ['.*: secrets that', 'no container image']],
  ['own command', 'rollout', ['image tune:.* of the analysis', 'no container image']],
  ['runs already', 'kubernetes', ['no container image']],
] as const)(
  '%s to %s: one block names what keeps it from starting',
  async (kind, target, parts) => {
    const { files } = await filesOf(kind, target, {})
    const lines = files[0]!.text.split('\n')
    parts.forEach((part, i) => {
      expect(lines[i]).toMatch(
        new RegExp(`^# INCOMPLETE: ${part}.*\\. .*(--[a-z-]+|Create it: |Export)`),
      )
    })
    expect(lines.filter((line) => line.includes('INCOMPLETE'))).toHaveLength(parts.length)
  },
)

test.each([
  ['encoder, simulated', { count: [1], kind: ['KIND_GPU'] }],
  ['encoder, emulated', { count: [1], kind: ['KIND_GPU'] }],
] as const)('%s: config.pbtxt has the batching of its trials', async (kind, group) => {
  const config = (await filesOf(kind, 'triton', {})).files[0]!.text
  expect(readTextProto(config)).toMatchObject({ instance_group: [group] })
  const experiment = experimentOf(kind)
  const { best } = foundOf(kind).recommendation
  const trial = { ...best!, configuration: { ...best!.configuration, batchSize: 16 } }
  const serving = resolveServing(experiment, foundOf(kind).recommendation, trial, [], {
    server: 'triton',
  })
  expect(readTextProto((await renderSpec('triton', serving))[0]!.text)).toMatchObject({
    max_batch_size: [16],
    dynamic_batching: [{ preferred_batch_size: [16], max_queue_delay_microseconds: [2000] }],
    instance_group: [group],
  })
})

test.each([
  ['Triton', 'nv_inference_request_success'],
  ['TensorFlow Serving', ':tensorflow:serving:request_count'],
  ['encoder on CPU', 'predictor_requests_total'],
  ['language model on vLLM', 'vllm:request_success_total'],
  ['own command', 'no autoscaler: this server exports no request counter that tune knows'],
  ['runs already', 'no autoscaler: the capacity of this server was not measured'],
] as const)('%s scales on %s', async (kind, signal) => {
  const { files } = await filesOf(kind, 'kubernetes', {})
  expect(files[0]!.text).toContain(signal)
  expect(files[0]!.text).not.toContain('http_requests_total')
})

test('Compose takes them from its own environment', async () => {
  const { files } = await filesOf('own command with secrets', 'compose', {})
  const { environment, entrypoint } = parse(files[0]!.text).services.sentiment
  expect(environment).toMatchObject({
    DB_PASSWORD: '${DB_PASSWORD:?export DB_PASSWORD}',
    HF_TOKEN: '${HF_TOKEN:?export HF_TOKEN}',
  })
  expect(entrypoint.at(-1)).toMatch(/^\$\{(\w+):\?export \1\}$/)
  expect(files[0]!.text).not.toContain('planted')
})

const uncommented = (text: string) => text.replace(/^#.*$/gm, '')

/** Everything that is wrong with a spec that was written. */
function faultsOf(
  kind: Kind,
  modelUri: string | undefined,
  { files, serving }: Awaited<ReturnType<typeof filesOf>>,
): string[] {
  const faults: string[] = []
  const says = (fine: boolean, what: string) => {
    if (!fine) faults.push(what)
  }
  for (const { name, text } of files) {
    if (name === 'compose.yaml') faults.push(...checkCompose(parse(text)))
    else if (
      /^(deployment|rollout|inferenceservice|seldondeployment|inference|rayservice|leaderworkerset)\.yaml$/.test(
        name,
      )
    )
      faults.push(...checkManifests(text).problems)
    else if (name.endsWith('.sh')) execFileSync('sh', ['-n'], { input: text })
    else if (name === 'config.pbtxt')
      faults.push(...checkProto(readTextProto(text), tritonModelConfig))
    if (name.endsWith('.pbtxt')) continue
    says(
      text.includes('FIGURES ARE FROM ANOTHER SERVER THAN THIS DEPLOYS') !== serving.figures.apply,
      `${name}: its top does not say whether the figures hold`,
    )
    says(
      serving.figures.apply ||
        /tune verify --url (http|grpc):\/\/([-a-z0-9]+|ADDRESS)(:\d+)?( --protocol [-a-z0-9]+)?( --path \S+)?( --health-path \S+)?( --body '.*')? --model \S+ --rate \S+ --slo '/.test(
          text,
        ),
      `${name}: no way to settle them`,
    )
  }
  const text = uncommented(files.map((file) => file.text).join('\n'))
  if (!serving.figures.apply) {
    says(
      !/HorizontalPodAutoscaler|ScaledObject|scaleTarget:|autoScaling|hpaSpec|max_ongoing|autoscaling_config/.test(
        text,
      ),
      'scales on figures that do not hold',
    )
    if (text.includes('annotations:'))
      says(
        /tune\/figures: (?!measured)/.test(text) && text.includes('tune/verify: '),
        'no annotation',
      )
  }
  if (modelUri !== undefined) {
    const place = modelUri.startsWith('pvc://')
      ? /claimName: weights|storageUri: pvc:|STORAGE_URI\s+value: pvc:|pvc:\/\/weights/
      : new RegExp(modelUri.replaceAll('/', '\\/'))
    says(place.test(text), 'the model URI was lost')
    says(!text.includes(weightsToFill), 'a placeholder beside the model URI')
  }
  if (
    serving.deployed.weights === 'missing' &&
    !files.some(({ name }) => name === 'config.pbtxt')
  ) {
    says(
      /no model weights|REPLACE_WITH_YOUR_MODEL/.test(text),
      'no placeholder that refuses to start',
    )
    for (const file of files)
      says(
        file.text.includes('INCOMPLETE: no model weights. Run again with --model-uri.'),
        `${file.name}: does not name the flag of the weights`,
      )
  }
  says(!isLanguage(kind) || !text.includes('onnxruntime'), 'onnxruntime for a language model')
  says(
    !/SEED|workspace|\/tmp\/tune-experiment/.test(text.replace(/"Shared_SEED"/g, '')),
    'something of the machine that measured',
  )
  for (const [, threshold] of text.matchAll(/startupProbe:[\s\S]*?failureThreshold: (\d+)/g))
    says(5 * Number(threshold) >= 60, 'a deadline that no real start keeps')
  return faults
}

const uris = [undefined, 's3://bucket/model', 'pvc://weights/model', '/srv/models/model'] as const

test.each(kindNames)(
  '%s: every target writes a whole spec or refuses with a reason and a way out',
  async (kind) => {
    const outcomes: Record<string, string> = {}
    for (const target of specTargets)
      for (const server of [undefined, ...selectableServers] as const)
        for (const modelUri of uris) {
          const cell = `${target}${server ? ` --server ${server}` : ''}${modelUri ? ` --model-uri ${modelUri}` : ''}`
          try {
            const written = await filesOf(kind, target, { modelUri, server })
            expect(faultsOf(kind, modelUri, written), `${kind}: ${cell}`).toEqual([])
            expect(written.files.length).toBeGreaterThan(0)
            if (server === undefined)
              expect(
                written.serving.figures.apply &&
                  written.serving.deployed.server !== 'vllm' &&
                  !(await loadTarget(target)).implies,
                cell,
              ).toBe(holds.includes(kind) && !(await loadTarget(target)).implies)
            outcomes[cell] = 'written'
          } catch (error) {
            if (!(error instanceof SpecError)) throw error
            expect(error.message.length).toBeGreaterThan(20)
            expect(error.hint, cell).toMatch(/give|choose|put|name|build/)
            outcomes[cell] = 'refused'
          }
        }
    const plain = (uri: (typeof uris)[number]) =>
      specTargets.filter(
        (target) => outcomes[`${target}${uri ? ` --model-uri ${uri}` : ''}`] === 'written',
      )
    expect({ none: plain(undefined), uri: plain('s3://bucket/model') }).toEqual(expected(kind))
  },
)

/** Targets that write without `--server`: with no place for the weights, and with one. */
function expected(kind: Kind): { none: string[]; uri: string[] } {
  // A Rollout has the pods of plain Kubernetes.
  const listed = (...names: string[]) =>
    specTargets.filter((target) => names.includes(target === 'rollout' ? 'kubernetes' : target))
  const ofOwn = listed('kubernetes', 'kserve', 'compose')
  const servers = listed('tfserving', 'triton')
  if (kind.startsWith('own pod'))
    return {
      none: listed('kubernetes', 'tfserving', 'triton', 'rayservice'),
      uri: servers,
    }
  if (kind === 'own command' || kind === 'own command with secrets' || kind === 'runs already')
    return {
      none: listed('kubernetes', 'kserve', 'compose', 'tfserving', 'triton', 'rayservice'),
      uri: servers,
    }
  if (kind === 'own command, language model')
    return {
      none: listed('kubernetes', 'kserve', 'compose', 'vllm', 'rayservice'),
      uri: listed('vllm'),
    }
  // KServe has no runtime of its own for it: a container, with a placeholder for the weights.
  if (kind === 'language model on SGLang, simulated')
    return { none: listed(...ofOwn, 'vllm', 'rayservice'), uri: listed(...ofOwn, 'vllm') }
  // Trials of a server that fetched its weights by their name on the Hub say which these are.
  if (kind === 'language model on vLLM')
    return { none: listed(...ofOwn, 'vllm', 'rayservice'), uri: listed(...ofOwn, 'vllm') }
  if (isLanguage(kind))
    return {
      none: listed('kubernetes', 'compose', 'vllm', 'rayservice'),
      uri: listed(...ofOwn, 'vllm'),
    }
  if (kind === 'TensorFlow Serving' || kind === 'Triton')
    return {
      none: listed('kubernetes', 'compose', 'tfserving', 'triton', 'rayservice'),
      uri: listed(...ofOwn, 'seldon', 'kubedl', ...servers),
    }
  return {
    none: listed(...ofOwn, ...servers, 'rayservice'),
    uri: listed(...ofOwn, ...servers),
  }
}

const envOf = async (
  flags: Record<string, unknown>,
  configuration: Configuration,
  modelUri = 's3://bucket/model',
) => {
  const experiment = workspace.load({ model: 'bert', slo: '50ms', ...flags } as never)
  const recommendation = recommend({
    ...sampleInput,
    provenance: resolveProvenance(experiment),
    trials: [complete(1, configuration, measured(265, 10))],
    pricePerHour: () => 1,
  })
  const serving = resolveServing(experiment, recommendation, recommendation.best!, [], { modelUri })
  const [file] = await renderSpec('kubernetes', serving)
  const { objects, problems } = checkManifests(file!.text)
  expect(problems).toEqual([])
  return { env: serving.container.env!, container: serving.container, objects, text: file!.text }
}

test('a trial that was asked for is the headline, and which one is recommended follows', async () => {
  const experiment = experimentOf('encoder on CPU')
  const configuration = firstOf(experiment.space)
  const recommendation = recommend({
    ...sampleInput,
    provenance: resolveProvenance(experiment),
    trials: [
      complete(1, configuration, measured(265, 10)),
      complete(2, { ...configuration, batchSize: 2 }, measured(100, 10)),
    ],
    pricePerHour: () => 1,
    label: ({ batchSize }) => `batch ${batchSize}`,
  })
  const headline = async (trial: number) => {
    const candidate = [recommendation.best!, ...recommendation.alternatives].find(
      (one) => one.trial === trial,
    )!
    const [file] = await renderSpec(
      'kubernetes',
      resolveServing(experiment, recommendation, candidate, [], { modelUri: 's3://b/m' }),
    )
    return file!.text.split('\n').find((line) => !line.startsWith('# INCOMPLETE: '))
  }
  expect(await headline(1)).toBe(`# ${recommendation.verdict}`)
  expect(await headline(2)).toMatch(
    /^# Trial 2: batch 2, \d+ req\/s, measured\. Recommended is trial 1: ./,
  )
})

test.each([
  ['language model on SGLang, simulated', 'lmsysorg/sglang:', '--max-running-requests='],
  ['language model on vLLM', 'vllm/vllm-openai:', '--max-num-seqs=8'],
] as const)('%s deploys by its name, in its own words', async (kind, image, flag) => {
  const text = (await filesOf(kind, 'kubernetes', {})).files.map((file) => file.text).join('\n')
  expect(text).toContain(`image: ${image}`)
  expect(text).toContain(flag)
})

test('the built-in predictor is deployed onto the GPU that it is given, in the precision that its engine has', async () => {
  const gpu = { devices: 'emulated', gpus: 'T4' }
  const { env, text } = await envOf(gpu, {
    cpuCores: 2,
    gpu: 'T4',
    gpuMemoryPercent: 50,
    batchSize: 8,
    precision: 'fp16',
  })
  expect(env).toMatchObject({
    GPU: 'T4',
    GPU_MEMORY_PERCENT: '50',
    CPU_CORES: '2',
    ENGINE: 'tfjs',
    BATCH_SIZE: '8',
    MODEL_PATH: '/mnt/models',
  })
  expect(env).not.toHaveProperty('PRECISION')
  expect(text).toContain(
    '# Note: precision = fp16 was tuned but is not set: ENGINE=tfjs uses the precision of the model',
  )
  expect((await envOf({ devices: 'cpu' }, { cpuCores: 2, batchSize: 8 })).env).not.toHaveProperty(
    'GPU',
  )
})

test('what was asked over gRPC is deployed with its port', async () => {
  const { env, objects, text } = await envOf(
    { devices: 'emulated', gpus: 'T4', protocol: 'grpc-v2' },
    { cpuCores: 1, gpu: 'T4' },
  )
  expect(env.GRPC_PORT).toBe('8001')
  expect(objects.find(({ kind }) => kind === 'Service')).toMatchObject({
    spec: { ports: [{ name: 'http' }, { name: 'grpc', port: 8001, targetPort: 'grpc' }] },
  })
  expect(text).toContain('tune verify --url grpc://bert:8001 --protocol grpc-v2 --model bert')
})
