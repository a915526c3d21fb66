import { execFileSync } from 'node:child_process'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import type { Resources } from '../../trials/resources.ts'
import { recommend } from '../recommendation/recommend.ts'
import { sampleInput, slo } from '../samples.contract.ts'
import { renderSpec, specTargets } from './index.ts'
import { kserveVariants } from './kserve.ts'
import { defaultScheme, gpuSchemes, gpuSelection } from './pod-gpus.ts'
import { type Container, type Evidence, type Serving, type ServingOptions, SpecError, servingOf } from './serving.ts'
import {
  batchingParameters,
  checkCompose,
  checkManifests,
  checkProto,
  modelServerConfig,
  readTextProto,
  tritonModelConfig,
} from './validate.contract.ts'

const recommendation = recommend(sampleInput)
const best = { ...recommendation.best!, configuration: { ...recommendation.best!.configuration, maxDelayMs: 2.5, instances: 2 } }
const container: Container = {
  image: 'registry.example/bert:1',
  args: ['--model=bert'],
  env: { BATCH_SIZE: '8', GREETING: 'a "quoted" text' },
  files: [{ path: '/etc/server/queue.conf', contents: 'limit = 100\n' }],
  port: 8000,
  readyPath: '/v2/health/ready',
  livePath: '/v2/health/live',
}
const evidence: Evidence = {
  experimentId: 'bert-7f3a',
  provenance: 'emulated',
  seed: 7,
  slo,
  verdict: recommendation.verdict,
  launchSeconds: 11,
  cpuCoresBusy: 1.2,
  meanMsAtCapacity: 25,
}
const quarter: Resources = { cpuCores: 2, memoryMiB: 4096, gpu: 'T4', gpus: 1, gpuShare: 0.25, gpuMemoryMiB: 3840 }
const whole: Resources = { ...quarter, gpuShare: 1, gpuMemoryMiB: 15360 }
const noGpu: Resources = { cpuCores: 1.5, memoryMiB: 1500, gpus: 0, gpuShare: 0 }

function serving(options: Partial<ServingOptions> = {}, resources: Resources = quarter, change: Partial<Container> = {}): Serving {
  return servingOf('bert', best, resources, { ...container, ...change }, evidence, {
    demandRps: 1000,
    headroom: 0.2,
    modelUri: 's3://bucket/bert',
    ...options,
  })
}
const textOf = (files: readonly { name: string; text: string }[], name: string) => files.find((f) => f.name === name)?.text ?? ''
type Tree = { [key: string]: Tree } & Tree[]

describe('kubernetes', () => {
  const valid = (s: Serving, autoscaler: 'none' | 'hpa' | 'keda') => {
    const { objects, problems } = checkManifests(textOf(renderSpec('kubernetes', s, { autoscaler }), 'deployment.yaml'))
    expect(problems).toEqual([])
    return new Map(objects.map((o) => [String(o.kind), o as unknown as Tree]))
  }

  test.each([
    ['a quarter of a GPU', quarter],
    ['a GPU', whole],
    ['no GPU', noGpu],
  ])('with %s is valid against the closed official schema, fixed and scaled', (_, resources) => {
    expect([...valid(serving({}, resources), 'none').keys()]).toEqual(['ConfigMap', 'Deployment', 'Service'])
    expect([...valid(serving({}, resources), 'hpa').keys()]).toEqual([
      'ConfigMap',
      'Deployment',
      'Service',
      'HorizontalPodAutoscaler',
      'PodDisruptionBudget',
    ])
    expect([...valid(serving({}, resources), 'keda').keys()]).toContain('ScaledObject')
  })

  test('sets what was tuned: replicas, cores, memory, GPU; quantities are strings', () => {
    const deployment = valid(serving(), 'none').get('Deployment')!
    expect(deployment.spec!.replicas).toBe(6)
    const [server] = deployment.spec!.template!.spec!.containers!
    expect(server!.resources).toEqual({ requests: { cpu: '2', memory: '4Gi' }, limits: { cpu: '2', memory: '4Gi', 'nvidia.com/gpu': '1' } })
    expect(server!.env).toEqual([
      { name: 'BATCH_SIZE', value: '8' },
      { name: 'GREETING', value: 'a "quoted" text' },
    ])
    expect(valid(serving({}, noGpu), 'none').get('Deployment')!.spec!.template!.spec!.containers![0]!.resources!.limits).toEqual({
      cpu: '1500m',
      memory: '1500Mi',
    })
  })

  test('scales at the capacity less the headroom, not at a guess', () => {
    const hpa = valid(serving(), 'hpa').get('HorizontalPodAutoscaler')!
    expect(hpa.spec!.metrics![0]!.pods!.target).toEqual({ type: 'AverageValue', averageValue: String(Math.floor(212 * 0.8)) })
    expect(valid(serving(), 'hpa').get('Deployment')!.spec).not.toHaveProperty('replicas')
    expect(valid(serving(), 'keda').get('ScaledObject')!.spec!.triggers![0]!.metadata!.threshold).toBe('169.6')
  })

  test('gives a predictor three times its measured launch to start, and five minutes where none was measured', () => {
    const startup = (s: Serving) =>
      valid(s, 'none').get('Deployment')!.spec!.template!.spec!.containers![0]!.startupProbe as unknown as {
        periodSeconds: number
        failureThreshold: number
      }
    expect(startup(serving())).toMatchObject({ periodSeconds: 5, failureThreshold: 7 })
    expect(startup({ ...serving(), evidence: { ...evidence, launchSeconds: undefined } })).toMatchObject({ failureThreshold: 60 })
  })

  test('says in its header what each figure comes from', () => {
    const text = textOf(renderSpec('kubernetes', serving()), 'deployment.yaml')
    expect(text).toContain(`# ${recommendation.verdict}\n`)
    expect(text).toContain('experiment bert-7f3a (emulated, seed 7)')
    expect(text).toMatch(/# {3}capacity 212 req\/s +trial 2: p99 50 ms \(SLO 50 ms\)/)
    expect(text).toMatch(/# {3}replicas 6 +demand 1,000 req\/s \/ \(capacity x \(1 - headroom 20 %\)\), rounded up/)
    expect(text).toContain('measure on the real hardware')
    expect(text).toContain('# Note: needs: the device plugin shares each GPU by time-slicing with 4 replicas')
  })

  test('cannot be broken out of by names and texts', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary', minLength: 1 }), (evil, model) => {
        const s = servingOf(
          model,
          { ...best, label: evil },
          quarter,
          { ...container, env: { X: evil }, args: [evil] },
          { ...evidence, verdict: evil, experimentId: evil },
          { headroom: 0 },
        )
        const { objects, problems } = checkManifests(textOf(renderSpec('kubernetes', s), 'deployment.yaml'))
        expect(problems).toEqual([])
        expect(objects).toHaveLength(5)
        const { containers } = (objects[1] as unknown as Tree).spec!.template!.spec!
        expect(containers![0]!.args).toEqual([evil])
        expect(String((objects[1] as unknown as Tree).metadata!.name)).toMatch(/^[a-z][-a-z0-9]*[a-z0-9]$|^[a-z]$/)
      }),
    )
  })

  test('keeps a pod of the user as it is, and finds it by label and port', () => {
    const spec = {
      serviceAccountName: 'ml',
      containers: [
        { name: 'mine', image: 'x:1', env: [{ name: 'A', value: '1' }] },
        { name: 'proxy', image: 'envoy:1' },
      ],
    }
    const own = serving({ pod: { metadata: { name: 'p', labels: { team: 'ml' } }, spec } }, quarter, { port: 9090 })
    const objects = valid(own, 'hpa')
    const { template, selector } = objects.get('Deployment')!.spec!
    expect(template!.spec).toEqual(spec)
    expect(template!.metadata).toEqual({ labels: { team: 'ml', 'app.kubernetes.io/name': 'bert' } })
    expect(selector!.matchLabels).toEqual({ 'app.kubernetes.io/name': 'bert' })
    expect(objects.get('Service')!.spec!.ports![0]!.targetPort).toBe(9090)
    expect([...objects.keys()]).not.toContain('ConfigMap')
  })

  test('a typo would not pass the schema', () => {
    const text = textOf(renderSpec('kubernetes', serving(), { autoscaler: 'none' }), 'deployment.yaml')
    expect(checkManifests(text.replace('replicas:', 'replica:')).problems).not.toEqual([])
    expect(checkManifests(text.replace('cpu: "2"', 'cpu: 2')).problems).not.toEqual([])
  })
})

describe('GPU schemes', () => {
  test('each gives a valid pod, or says why it cannot', () => {
    const slice: Resources = { ...quarter, gpu: 'A100-40GB', migProfile: '1g.5gb', gpuShare: 1 / 7, gpuMemoryMiB: 4864 }
    for (const scheme of gpuSchemes) {
      const fitting = scheme.startsWith('mig') ? slice : ['nvidia', 'gke', 'karpenter', 'aks'].includes(scheme) ? whole : quarter
      const text = textOf(renderSpec('kubernetes', serving({ gpuScheme: scheme }, fitting)), 'deployment.yaml')
      expect(checkManifests(text).problems, scheme).toEqual([])
    }
    for (const scheme of ['nvidia', 'gke', 'mig-mixed'] as const) expect(() => gpuSelection(quarter, scheme)).toThrow(SpecError)
    expect(() => gpuSelection({ ...whole, gpu: 'P40' }, 'gke')).toThrow(/no name in scheme gke/)
  })

  test('follow the traps of each: one shared replica, a dot for a plus, no substring matches', () => {
    expect(gpuSelection(quarter, 'mps').limits).toEqual({ 'nvidia.com/gpu': '1' })
    expect(gpuSelection({ ...whole, gpu: 'A100-40GB', migProfile: '1g.5gb+me' }, 'mig-mixed').limits).toEqual({
      'nvidia.com/mig-1g.5gb.me': '1',
    })
    const hami = gpuSelection({ ...quarter, gpu: 'L4' }, 'hami')
    expect(hami.limits).toEqual({ 'nvidia.com/gpu': '1', 'nvidia.com/gpumem': '3840', 'nvidia.com/gpucores': '25' })
    expect(hami.annotations).toEqual({ 'nvidia.com/use-gputype': 'L4', 'nvidia.com/nouse-gputype': 'L40,L40S' })
    expect(gpuSelection(quarter, 'aliyun').limits).toEqual({ 'aliyun.com/gpu-mem': '3' })
    expect(gpuSelection(whole).requirements[0]!.values).toContain('Tesla-T4')
    expect([defaultScheme(noGpu), defaultScheme(whole), defaultScheme(quarter)]).toEqual([undefined, 'nvidia', 'time-slicing'])
  })
})

describe('GPUs by dynamic resource allocation', () => {
  const dra = (options: Partial<ServingOptions> = {}, resources = whole) => serving({ gpuScheme: 'dra', ...options }, resources)
  const template = { metadata: { name: 'bert-gpu' }, spec: { spec: { devices: { requests: [{ exactly: { count: 1 } }] } } } }

  test('each pod claims by a template of the spec’s own', () => {
    const text = textOf(renderSpec('kubernetes', dra()), 'deployment.yaml')
    const { objects, problems } = checkManifests(text)
    expect(problems).toEqual([])
    expect(objects.find(({ kind }) => kind === 'ResourceClaimTemplate')).toMatchObject(template)
    const { spec } = (objects.find(({ kind }) => kind === 'Deployment') as unknown as Tree).spec!.template!
    expect(spec!.resourceClaims).toEqual([{ name: 'tuned-gpu', resourceClaimTemplateName: 'bert-gpu' }])
    expect(spec!.containers![0]!.resources!.claims).toEqual([{ name: 'tuned-gpu' }])
    expect(spec!.containers![0]!.resources!.limits).toEqual({ cpu: '2', memory: '4Gi' })
    expect(spec!.tolerations).toEqual([{ key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' }])
  })

  test('a share says what it rests on', () => {
    const notes = (options: Partial<ServingOptions>) => textOf(renderSpec('kubernetes', dra(options, quarter)), 'deployment.yaml')
    expect(notes({})).toMatch(/needs: .*MPSSupport.*only pods of one claim share a GPU/)
    expect(notes({ dra: { sharing: 'capacity' } })).toContain('--consumable-shares=memory')
    for (const sharing of ['mps', 'time-slicing', 'capacity'] as const)
      expect(checkManifests(notes({ dra: { sharing } })).problems).toEqual([])
  })

  test.each(['custom', 'tfserving', 'triton'] as const)(
    'KServe with %s claims so too; Knative, KubeDL and Seldon say that they cannot',
    (server) => {
      const s = dra({ server })
      const { objects, problems } = checkManifests(textOf(renderSpec('kserve', s), 'inferenceservice.yaml'))
      expect(problems).toEqual([])
      expect(objects.map(({ kind }) => kind)).toContain('ResourceClaimTemplate')
      expect((objects.at(-1) as unknown as Tree).spec!.predictor!.resourceClaims).toHaveLength(1)
      expect(() => renderSpec('kserve', s, { variant: 'knative' })).toThrow(/Knative takes no resourceClaims/)
      if (server === 'custom') return
      for (const target of ['kubedl', 'seldon'] as const) expect(() => renderSpec(target, s)).toThrow(/takes no resourceClaims/)
    },
  )
})

describe('serving platforms', () => {
  const servers = ['custom', 'tfserving', 'triton'] as const
  test.each(kserveVariants.flatMap((variant) => servers.map((server) => [variant, server] as const)))(
    'KServe %s with %s is valid',
    (variant, server) => {
      for (const resources of [quarter, noGpu]) {
        const text = textOf(renderSpec('kserve', serving({ server }, resources), { variant }), 'inferenceservice.yaml')
        const { objects, problems } = checkManifests(text)
        expect(problems).toEqual([])
        const service = objects.at(-1) as unknown as Tree
        expect(service.metadata!.annotations).toMatchObject({
          'serving.kserve.io/deploymentMode': variant === 'knative' ? 'Knative' : 'Standard',
        })
        const { predictor } = service.spec!
        if (variant === 'knative')
          expect(predictor).toMatchObject({ scaleMetric: 'rps', scaleTarget: 169, minReplicas: 6, maxReplicas: 12 })
        if (variant === 'keda') expect(predictor).not.toHaveProperty('scaleMetric')
        if (variant === 'standard')
          expect(predictor).toMatchObject({ scaleMetric: 'cpu', scaleTarget: Math.round((100 * 1.2 * 0.8) / resources.cpuCores) })
      }
    },
  )

  test('KServe Standard keeps a fixed number where CPU usage was not measured', () => {
    const s = { ...serving({ server: 'triton' }), evidence: { ...evidence, cpuCoresBusy: undefined } }
    const { objects } = checkManifests(textOf(renderSpec('kserve', s), 'inferenceservice.yaml'))
    expect(objects[0]).toMatchObject({
      metadata: { annotations: { 'serving.kserve.io/autoscalerClass': 'none' } },
      spec: { predictor: { minReplicas: 6, maxReplicas: 6 } },
    })
  })

  test.each(['tfserving', 'triton'] as const)('Seldon and KubeDL with %s are valid, containers named as the platforms demand', (server) => {
    for (const resources of [quarter, noGpu]) {
      const seldon = checkManifests(textOf(renderSpec('seldon', serving({ server }, resources)), 'seldondeployment.yaml'))
      expect(seldon.problems).toEqual([])
      const [predictor] = (seldon.objects.at(-1) as unknown as Tree).spec!.predictors!
      expect(predictor!.graph!.name).toBe(predictor!.componentSpecs![0]!.spec!.containers![0]!.name)
      const kubedl = checkManifests(textOf(renderSpec('kubedl', serving({ server }, resources)), 'inference.yaml'))
      expect(kubedl.problems).toEqual([])
      const hpa = kubedl.objects.find((o) => o.kind === 'HorizontalPodAutoscaler') as unknown as Tree
      expect(hpa.spec!.scaleTargetRef!.name).toBe('bert-predictor')
      if (server === 'triton') expect(textOf(renderSpec('seldon', serving({ server })), 'config.pbtxt')).toContain('max_batch_size: 8')
    }
  })

  test('TF Serving on a platform gets its batching file by ConfigMap', () => {
    const { objects } = checkManifests(textOf(renderSpec('seldon', serving({ server: 'tfserving' })), 'seldondeployment.yaml'))
    const [configMap, deployment] = objects as unknown as [Tree, Tree]
    const batching = readTextProto(String(configMap.data!['batching_parameters.txt']))
    expect(checkProto(batching, batchingParameters)).toEqual([])
    expect(deployment.spec!.predictors![0]!.componentSpecs![0]!.spec!.containers![0]!.args).toEqual([
      '--port=9500',
      '--rest_api_port=9000',
      '--model_name=bert',
      '--model_base_path=/mnt/models',
      '--enable_batching=true',
      '--batching_parameters_file=/etc/tfs/batching_parameters.txt',
      '--per_process_gpu_memory_fraction=0.25',
    ])
  })

  test('a server or a model without a place is refused with a hint', () => {
    for (const target of ['seldon', 'kubedl'] as const) expect(() => renderSpec(target, serving())).toThrow(/TensorFlow Serving or Triton/)
    expect(() => renderSpec('kserve', serving({ server: 'triton', modelUri: undefined }))).toThrow(SpecError)
    expect(() => renderSpec('ray', serving())).toThrow(/place of the application/)
  })
})

describe('model servers', () => {
  test('TensorFlow Serving: a script sh accepts, and both files in the official messages', () => {
    const files = renderSpec('tfserving', serving({ modelUri: '/models/bert', modelVersion: '42' }))
    execFileSync('sh', ['-n'], { input: textOf(files, 'serve.sh') })
    const batching = readTextProto(textOf(files, 'batching_parameters.txt'))
    expect(checkProto(batching, batchingParameters)).toEqual([])
    expect(batching).toEqual({
      max_batch_size: [{ value: [8] }],
      batch_timeout_micros: [{ value: [2500] }],
      num_batch_threads: [{ value: [2] }],
      allowed_batch_sizes: [1, 2, 4, 8],
    })
    const models = readTextProto(textOf(files, 'models.config'))
    expect(checkProto(models, modelServerConfig)).toEqual([])
    expect(JSON.stringify(models)).toContain('"specific":[{"versions":[42]}]')
  })

  test('TensorFlow Serving without a batching knob writes no batching file', () => {
    const plain = { ...serving(), configuration: { cpuCores: 2 } }
    const files = renderSpec('tfserving', plain)
    expect(files.map((f) => f.name)).toEqual(['serve.sh', 'models.config'])
    expect(textOf(files, 'serve.sh')).not.toContain('batching')
  })

  test('Triton: config.pbtxt in the official message', () => {
    const config = readTextProto(textOf(renderSpec('triton', serving()), 'config.pbtxt'))
    expect(checkProto(config, tritonModelConfig)).toEqual([])
    expect(config).toEqual({
      name: ['bert'],
      backend: ['onnxruntime'],
      max_batch_size: [8],
      dynamic_batching: [{ max_queue_delay_microseconds: [2500] }],
      instance_group: [{ count: [2], kind: ['KIND_GPU'] }],
    })
  })

  test('text of any kind survives the text format', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1 }), (name) => {
        const text = textOf(renderSpec('triton', { ...serving(), model: name }), 'config.pbtxt')
        expect(readTextProto(text.slice(text.indexOf('\nname:'))).name).toEqual([name])
      }),
    )
  })

  test('vLLM, TorchServe and Ray say what was tuned, in their own words', () => {
    const llm = {
      ...serving(),
      configuration: { maxNumSeqs: 64, maxNumBatchedTokens: 8192, precision: 'bf16', blockSize: 16 },
      modelUri: "o'model",
    }
    const vllm = textOf(renderSpec('vllm', llm), 'serve.sh')
    execFileSync('sh', ['-n'], { input: vllm })
    expect(vllm).toContain(
      `exec vllm serve 'o'\\''model' \\\n  --max-num-seqs 64 \\\n  --max-num-batched-tokens 8192 \\\n  --gpu-memory-utilization 0.25 \\\n  --dtype bfloat16`,
    )
    expect(vllm).toContain('no field for it: blockSize = 16')
    expect(parse(textOf(renderSpec('torchserve', serving()), 'model-config.yaml'))).toEqual({
      minWorkers: 2,
      maxWorkers: 2,
      batchSize: 8,
      maxBatchDelay: 3,
      startupTimeout: 33,
      deviceType: 'gpu',
    })
    const ray = parse(textOf(renderSpec('ray', serving(), { importPath: 'app:bert' }), 'serve.yaml'))
    expect(ray.applications[0].deployments[0]).toMatchObject({
      max_ongoing_requests: 6,
      autoscaling_config: { min_replicas: 6, max_replicas: 12, target_ongoing_requests: 5 },
      ray_actor_options: { num_cpus: 2, num_gpus: 0.25 },
      user_config: { batchSize: 8, maxDelayMs: 2.5, instances: 2 },
    })
  })

  test('Compose is valid against its schema', () => {
    for (const resources of [quarter, noGpu]) {
      const s = serving({}, resources, { files: [{ path: '/x', contents: 'cost: $5' }] })
      const data = parse(textOf(renderSpec('compose', s), 'compose.yaml'))
      expect(checkCompose(data)).toEqual([])
      expect(data.configs['file-0'].content).toBe('cost: $$5')
      expect(checkCompose({ services: { m: { ...data.services.bert, imag: 'x' } } })).not.toEqual([])
    }
  })
})

test('every target has a header, and a trial that cannot serve is refused', () => {
  const uris = { importPath: 'app:bert' }
  for (const target of specTargets) {
    const server = target === 'seldon' || target === 'kubedl' ? 'triton' : 'custom'
    for (const file of renderSpec(target, serving({ server }), uris))
      expect(file.text).toContain('# Written by tune from experiment bert-7f3a')
  }
  const dead = recommendation.alternatives.find((a) => a.trial === 5)!
  expect(() => servingOf('bert', dead, quarter, container, evidence, { headroom: 0 })).toThrow(/out of memory/)
  expect(() => serving({ headroom: 1 })).toThrow(/headroom/)
  expect(() => serving({ minReplicas: 5, maxReplicas: 2 })).toThrow(/no range/)
})
