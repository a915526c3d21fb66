import { execFileSync } from 'node:child_process'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import type { Configuration } from '../../search/types.ts'
import { renderSpec, specTarget, specTargets } from './index.ts'
import { type Serving, servingOf } from './serving.ts'
import {
  evidence,
  found,
  noGpu,
  ownCommand,
  podOf,
  quarter,
  recommendation,
  serving,
  type Tree,
  whole,
  wide,
} from './spec-samples.contract.ts'
import { kserveVariants } from './target.ts'
import {
  batchingParameters,
  checkCompose,
  checkManifests,
  checkProto,
  modelServerConfig,
  readTextProto,
  tritonModelConfig,
} from './validate.contract.ts'

const textOf = (files: readonly { name: string; text: string }[], name: string) =>
  files.find((f) => f.name === name)?.text ?? ''

describe('serving platforms', () => {
  const inferenceServices = kserveVariants.filter((variant) => variant !== 'llm')
  const servers = ['command', 'tfserving', 'triton', 'vllm'] as const
  test.each(
    inferenceServices.flatMap((variant) => servers.map((server) => [variant, server] as const)),
  )('KServe %s with %s is valid', async (variant, server) => {
    for (const resources of [quarter, noGpu]) {
      const text = textOf(
        await renderSpec('kserve', serving({ server }, resources), { variant }),
        'inferenceservice.yaml',
      )
      const { objects, problems } = checkManifests(text)
      expect(problems).toEqual([])
      const service = objects.at(-1) as unknown as Tree
      expect(service.metadata!.annotations).toMatchObject({
        'serving.kserve.io/deploymentMode': variant === 'knative' ? 'Knative' : 'Standard',
      })
      const { predictor } = service.spec!
      if (variant === 'knative')
        expect(predictor).toMatchObject({
          scaleMetric: 'rps',
          scaleTarget: 152,
          minReplicas: 6,
          maxReplicas: 12,
        })
      if (variant === 'keda') expect(predictor).not.toHaveProperty('scaleMetric')
      if (variant === 'standard')
        expect(predictor!.autoScaling ?? {}).toMatchObject(
          resources === noGpu
            ? { metrics: [{ resource: { target: { averageUtilization: 64 } } }] }
            : {},
        )
      if (variant === 'standard') expect('autoScaling' in predictor!).toBe(resources === noGpu)
    }
  })

  const llm = (options: Parameters<typeof serving>[0] = {}) => ({
    ...serving({ server: 'vllm', modelUri: 'org/model', ...options }, whole),
    configuration: { maxNumSeqs: 64, gpuMemoryUtilization: 0.9 },
  })

  test("vLLM on KServe is the platform's own runtime with the tuned flags, or the user's image", async () => {
    const predictorOf = async (s: Serving) => {
      const { objects, problems } = checkManifests(
        textOf(await renderSpec('kserve', s), 'inferenceservice.yaml'),
      )
      expect(problems).toEqual([])
      return (objects.at(-1) as unknown as Tree).spec!.predictor!
    }
    expect((await predictorOf(llm())).model).toMatchObject({
      modelFormat: { name: 'huggingface' },
      runtime: 'kserve-huggingfaceserver',
      storageUri: 'hf://org/model',
      args: ['--model_name=bert', '--max-num-seqs=64', '--gpu-memory-utilization=0.9'],
      resources: { limits: { 'nvidia.com/gpu': '1' } },
    })
    const own = { ...llm(), container: { ...llm().container, imageNamed: true } }
    expect((await predictorOf(own)).containers![0]).toMatchObject({
      name: 'kserve-container',
      image: 'registry.example/bert:1',
    })
  })

  test('LLMInferenceService: model, replicas, flags that its template reads, parallelism; no other server', async () => {
    const gpus = { ...llm(), resources: { ...whole, gpus: 2 } }
    const { objects, problems } = checkManifests(
      textOf(await renderSpec('kserve', gpus, { variant: 'llm' }), 'llminferenceservice.yaml'),
    )
    expect(problems).toEqual([])
    const { spec } = objects.at(-1) as unknown as Tree
    expect(spec).toMatchObject({
      model: { uri: 'hf://org/model', name: 'bert' },
      replicas: 6,
      parallelism: { tensor: 2 },
    })
    expect(spec!.template!.containers![0]).toMatchObject({
      name: 'main',
      env: [
        { name: 'VLLM_ADDITIONAL_ARGS', value: '--max-num-seqs 64 --gpu-memory-utilization 0.9' },
      ],
    })
    await expect(
      renderSpec('kserve', serving({ server: 'triton' }), { variant: 'llm' }),
    ).rejects.toThrow(/deploys language models on vLLM/)
  })

  test('RayService: the application of ray, a worker for each replica with its GPU, a head that serves nothing', async () => {
    const s = serving({ server: 'ray' }, whole, { imageNamed: true })
    const { objects, problems } = checkManifests(
      textOf(await renderSpec('rayservice', s, { importPath: 'app:bert' }), 'rayservice.yaml'),
    )
    expect(problems).toEqual([])
    const { serveConfigV2, rayClusterConfig } = (objects.at(-1) as unknown as Tree).spec!
    expect(parse(String(serveConfigV2)).applications[0].deployments[0]).toMatchObject({
      max_ongoing_requests: 5,
      autoscaling_config: { min_replicas: 6, max_replicas: 12, target_ongoing_requests: 4 },
      ray_actor_options: { num_cpus: 2, num_gpus: 1, accelerator_type: 'T4' },
      user_config: { batchSize: 8, maxDelayMs: 2.5, instances: 2 },
    })
    const [group] = rayClusterConfig!.workerGroupSpecs!
    expect(group).toMatchObject({ minReplicas: 6, maxReplicas: 12 })
    const { containers, affinity } = group!.template!.spec!
    expect(containers![0]).toMatchObject({
      image: 'registry.example/bert:1',
      resources: { limits: { cpu: '2', 'nvidia.com/gpu': '1' } },
    })
    expect(JSON.stringify(affinity)).toContain('Tesla-T4')
    expect(rayClusterConfig!.headGroupSpec!.rayStartParams).toMatchObject({ 'num-cpus': '0' })
  })

  const overlay = {
    metadata: { labels: { team: 'ml' }, annotations: { 'team/owner': 'ml' } },
    spec: {
      priorityClassName: 'low',
      serviceAccountName: 'predictor',
      tolerations: [{ key: 'spot', operator: 'Exists' }],
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [
              { matchExpressions: [{ key: 'zone', operator: 'In', values: ['a'] }] },
            ],
          },
        },
      },
      containers: [
        {
          name: 'predictor',
          securityContext: { runAsUser: 2000 },
          resources: { limits: { cpu: '64', 'ephemeral-storage': '2Gi' } },
          env: [{ name: 'OMP_NUM_THREADS', value: '1' }],
        },
      ],
    },
  }
  test.each([
    ['kubernetes', 'builtin', {}],
    ['kubernetes', 'triton', {}],
    ['kserve', 'builtin', {}],
    ['kserve', 'tfserving', {}],
    ['kserve', 'vllm', { variant: 'llm' }],
    ['seldon', 'triton', {}],
    ['kubedl', 'tfserving', {}],
    ['rayservice', 'ray', { importPath: 'app:bert' }],
    ['lws', 'vllm', { gpusPerNode: 1 }],
  ] as const)(
    '%s with %s carries what the user lays over pods, and keeps what was tuned',
    async (target, server, options) => {
      const s = serving(
        { server, overlay },
        target === 'lws' ? { ...whole, gpus: 2, cpuCores: 4 } : whole,
      )
      const files = await renderSpec(target, s, options)
      const { objects, problems } = checkManifests(files[0]!.text)
      expect(problems).toEqual([])
      const object = objects.find(({ kind }) => String(kind) in podOf)!
      const [metadata, spec, container] = podOf[String(object.kind)]!(object.spec as Tree)
      expect(metadata).toMatchObject({
        labels: { team: 'ml' },
        annotations: { 'team/owner': 'ml' },
      })
      expect(spec).toMatchObject({ priorityClassName: 'low', serviceAccountName: 'predictor' })
      expect(spec.tolerations!.map(({ key }) => String(key)).sort()).toEqual([
        'nvidia.com/gpu',
        'spot',
      ])
      // Alternatives would let a pod run on a node of the zone without the GPU.
      const terms =
        spec.affinity!.nodeAffinity!.requiredDuringSchedulingIgnoredDuringExecution!
          .nodeSelectorTerms!
      expect(
        terms.map(({ matchExpressions }) => matchExpressions!.map(({ key }) => String(key))),
      ).toEqual([['nvidia.com/gpu.product', 'zone']])
      expect(container.securityContext).toMatchObject({ runAsUser: 2000 })
      expect(container.resources!.limits).toMatchObject({
        cpu: '2',
        'ephemeral-storage': '2Gi',
        'nvidia.com/gpu': '1',
      })
      const env = JSON.stringify(container.env ?? [])
      if (server === 'builtin') expect(env).toContain('OMP_NUM_THREADS')
      else {
        expect(env).not.toContain('OMP_NUM_THREADS')
        expect(files[0]!.text).toContain(
          'kubernetes.pod was written for the built-in predictor: env of its container is left out here',
        )
      }
    },
  )

  test('MLServer on Kubernetes is whole: weights, tuned values, probes', async () => {
    const options = { server: 'mlserver', modelUri: 's3://bucket/bert' } as const
    const { objects, problems } = checkManifests(
      textOf(
        await renderSpec('kubernetes', serving(options, whole, { readyPath: '/v2/health/ready' })),
        'deployment.yaml',
      ),
    )
    expect(problems).toEqual([])
    const pod = (objects.find(({ kind }) => kind === 'Deployment') as unknown as Tree).spec!
      .template!
    expect(pod.spec!.initContainers![0]).toMatchObject({
      args: ['s3://bucket/bert', '/mnt/models'],
    })
    const [container] = pod.spec!.containers!
    expect(String(container!.startupProbe!.httpGet!.path)).toMatch(/\/v2\/health\/ready/)
    expect(JSON.stringify(container)).toContain('MLSERVER_MODEL_MAX_BATCH_SIZE')
  })

  test('KServe Standard keeps a fixed number where CPU usage was not measured', async () => {
    const s = {
      ...serving({ server: 'triton' }),
      evidence: {
        ...evidence,
        measured: { ...ownCommand, server: 'triton' as const },
        cpuCoresBusy: undefined,
      },
    }
    const { objects } = checkManifests(
      textOf(await renderSpec('kserve', s), 'inferenceservice.yaml'),
    )
    expect(objects.at(-1)).toMatchObject({
      metadata: { annotations: { 'serving.kserve.io/autoscalerClass': 'none' } },
      spec: { predictor: { minReplicas: 6, maxReplicas: 6 } },
    })
  })

  test.each(['tfserving', 'triton'] as const)(
    'Seldon and KubeDL with %s are valid, containers named as the platforms demand',
    async (server) => {
      for (const resources of [quarter, noGpu]) {
        const seldon = checkManifests(
          textOf(
            await renderSpec('seldon', serving({ server }, resources)),
            'seldondeployment.yaml',
          ),
        )
        expect(seldon.problems).toEqual([])
        const [predictor] = (seldon.objects.at(-1) as unknown as Tree).spec!.predictors!
        expect(predictor!.graph!.name).toBe(
          predictor!.componentSpecs![0]!.spec!.containers![0]!.name,
        )
        const kubedl = checkManifests(
          textOf(await renderSpec('kubedl', serving({ server }, resources)), 'inference.yaml'),
        )
        expect(kubedl.problems).toEqual([])
        const hpa = kubedl.objects.find(
          (o) => o.kind === 'HorizontalPodAutoscaler',
        ) as unknown as Tree
        expect(hpa.spec!.scaleTargetRef!.name).toBe('bert-predictor')
        for (const { objects } of [seldon, kubedl]) {
          const [map] = objects as unknown as [Tree]
          expect(JSON.stringify(map!.data)).toMatch(
            server === 'triton' ? /max_batch_size: 8/ : /max_batch_size/,
          )
        }
      }
    },
  )

  test('TF Serving on a platform gets its batching file by ConfigMap', async () => {
    const { objects } = checkManifests(
      textOf(await renderSpec('seldon', serving({ server: 'tfserving' })), 'seldondeployment.yaml'),
    )
    const [configMap, deployment] = objects as unknown as [Tree, Tree]
    const batching = readTextProto(String(configMap.data!['0-batching_parameters.txt']))
    expect(checkProto(batching, batchingParameters)).toEqual([])
    expect(deployment.spec!.predictors![0]!.componentSpecs![0]!.spec!.containers![0]!.args).toEqual(
      [
        '--port=9500',
        '--rest_api_port=9000',
        '--model_name=bert',
        '--model_base_path=/mnt/models',
        '--enable_batching=true',
        '--batching_parameters_file=/etc/tfs/batching_parameters.txt',
        '--per_process_gpu_memory_fraction=0.25',
        '--monitoring_config_file=/etc/tfs/monitoring.config',
      ],
    )
  })
})

describe('model servers', () => {
  test('TensorFlow Serving: a script sh accepts, and both files in the official messages', async () => {
    const files = await renderSpec(
      'tfserving',
      serving({ server: 'tfserving', modelUri: '/models/bert', modelVersion: '42' }),
    )
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

  test('TensorFlow Serving without a batching knob writes no batching file', async () => {
    const plain = { ...serving({ server: 'tfserving' }), configuration: { cpuCores: 2 } }
    const files = await renderSpec('tfserving', plain)
    expect(files.map((f) => f.name)).toEqual(['serve.sh', 'models.config'])
    expect(textOf(files, 'serve.sh')).not.toContain('batching')
  })

  test('Triton: config.pbtxt in the official message', async () => {
    const config = readTextProto(
      textOf(await renderSpec('triton', serving({ server: 'triton' })), 'config.pbtxt'),
    )
    expect(checkProto(config, tritonModelConfig)).toEqual([])
    expect(config).toEqual({
      name: ['bert'],
      backend: ['onnxruntime'],
      max_batch_size: [8],
      dynamic_batching: [{ max_queue_delay_microseconds: [2500] }],
      instance_group: [{ count: [2], kind: ['KIND_GPU'] }],
    })
  })

  test.each<[string, Serving['evidence']['batching'], Configuration, object]>([
    [
      'of the built-in predictor: also what was not tuned, as every trial ran with it',
      { instances: 1, maxDelayMs: 2 },
      { batchSize: 8 },
      {
        max_batch_size: [8],
        dynamic_batching: [{ preferred_batch_size: [8], max_queue_delay_microseconds: [2000] }],
        instance_group: [{ count: [1], kind: ['KIND_GPU'] }],
      },
    ],
    [
      'of the built-in predictor: what was tuned goes first; single requests are not gathered',
      { instances: 1, maxDelayMs: 2 },
      { batchSize: 1, instances: 3 },
      { max_batch_size: [1], instance_group: [{ count: [3], kind: ['KIND_GPU'] }] },
    ],
    [
      'of another server: only what was tuned',
      undefined,
      { batchSize: 8, preferredBatchSize: 4 },
      { max_batch_size: [8], dynamic_batching: [{ preferred_batch_size: [4] }] },
    ],
  ])('Triton: config.pbtxt %s', async (_, batching, configuration, expected) => {
    const s = serving({ server: 'triton' })
    const measured = { ...s, configuration, evidence: { ...s.evidence, batching } }
    const text = textOf(await renderSpec('triton', measured), 'config.pbtxt')
    const { name: _name, backend: _backend, ...config } = readTextProto(text)
    expect(checkProto(config, tritonModelConfig)).toEqual([])
    expect(config).toEqual(expected)
    expect(text.includes('# Note: not tuned, as in every trial: ')).toBe(batching !== undefined)
  })

  test('in place of the built-in predictor, TensorFlow Serving and MLServer batch as its trials did', async () => {
    const of = (server: 'tfserving' | 'mlserver', batchSize: number) => {
      const s = serving({ server })
      const batching = { instances: 1, maxDelayMs: 2 }
      return { ...s, configuration: { batchSize }, evidence: { ...s.evidence, batching } }
    }
    const files = await renderSpec('tfserving', of('tfserving', 8))
    const written = readTextProto(textOf(files, 'batching_parameters.txt'))
    expect(written).toMatchObject({
      max_batch_size: [{ value: [8] }],
      batch_timeout_micros: [{ value: [2000] }],
      num_batch_threads: [{ value: [1] }],
    })
    const [single] = await renderSpec('tfserving', of('tfserving', 1))
    expect(single!.text).not.toContain('as in every trial')
    const [mlserver] = await renderSpec('kubernetes', of('mlserver', 8))
    expect(mlserver!.text).toMatch(/MLSERVER_MODEL_MAX_BATCH_TIME\s+value: "0.002"/)
  })

  test('text of any kind survives the text format', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary', minLength: 1 }), async (name) => {
        const text = textOf(
          await renderSpec('triton', { ...serving({ server: 'triton' }), model: name }),
          'config.pbtxt',
        )
        expect(readTextProto(text.slice(text.indexOf('\nname:'))).name).toEqual([name])
      }),
    )
  })

  test('vLLM says what was tuned in its own words', async () => {
    const llm = {
      ...serving({ server: 'vllm' }),
      configuration: {
        maxNumSeqs: 64,
        maxNumBatchedTokens: 8192,
        precision: 'bf16',
        blockSize: 16,
      },
      modelUri: "/models/o'model",
    }
    const vllm = textOf(await renderSpec('vllm', llm), 'serve.sh')
    execFileSync('sh', ['-n'], { input: vllm })
    expect(vllm).toContain(
      `exec vllm serve '/models/o'\\''model' \\\n  --served-model-name bert \\\n  --max-num-seqs 64 \\\n  --max-num-batched-tokens 8192 \\\n  --gpu-memory-utilization 0.25 \\\n  --dtype bfloat16`,
    )
    expect(vllm).toContain('no field for it: blockSize = 16')
  })

  test('Compose is valid against its schema', async () => {
    for (const resources of [quarter, noGpu]) {
      const s = serving({}, resources, { files: [{ path: '/x', contents: 'cost: $5' }] })
      const data = parse(textOf(await renderSpec('compose', s), 'compose.yaml'))
      expect(checkCompose(data)).toEqual([])
      expect(data.configs['file-0'].content).toBe('cost: $$5')
      expect(checkCompose({ services: { m: { ...data.services.bert, imag: 'x' } } })).not.toEqual(
        [],
      )
    }
  })
})

test('every target writes files of its list with a header, and a trial that cannot serve is refused', async () => {
  for (const name of specTargets) {
    const { files, implies, servers, takes } = await specTarget(name)
    const options = takes?.includes('importPath') ? { importPath: 'app:bert' } : {}
    const resources = takes?.includes('gpusPerNode') ? wide : quarter
    const measured = serving({ server: implies ?? servers[0]! }, resources)
    for (const file of await renderSpec(name, measured, options)) {
      expect(files).toContain(file.name)
      expect(file.text).toContain('# Written by tune from experiment bert-7f3a')
    }
  }
  const dead = recommendation.alternatives.find((a) => a.trial === 5)!
  expect(() => servingOf({ ...found, candidate: dead }, { headroom: 0 })).toThrow(/out of memory/)
  expect(() => serving({ headroom: 1 })).toThrow(/headroom/)
  expect(() => serving({ minReplicas: 5, maxReplicas: 2 })).toThrow(/not a valid range/)
})
