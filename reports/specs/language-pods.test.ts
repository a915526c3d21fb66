/** Pods of language models' servers, read back: what makes them start, and end, whole. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import type { Configuration } from '../../search/types.ts'
import type { LanguageServer } from '../../trials/servers/server-kinds.ts'
import { languageServers } from '../../trials/servers/server-kinds.ts'
import { renderSpec } from './index.ts'
import { languageContainer } from './language-servers.ts'
import { servingOf } from './serving.ts'
import {
  evidence,
  found,
  llama,
  podOf,
  streamed,
  type Tree,
  whole,
} from './spec-samples.contract.ts'
import { checkCompose, checkManifests } from './validate.contract.ts'

/** An 8B in 16 bits, simulated. */
function servingOfLlama(server: LanguageServer, modelUri: string | undefined, gpus = 1) {
  const configuration = { maxNumSeqs: 64, gpus }
  return servingOf(
    {
      ...found,
      model: 'llama-3.1-8b',
      candidate: { ...found.candidate, configuration },
      resources: { ...whole, gpu: 'H100', gpus },
      deployed: { server, weights: modelUri === undefined ? 'missing' : 'given' },
      container: { ...languageContainer(server, 'llama-3.1-8b', modelUri), imageNamed: true },
      evidence: {
        ...evidence,
        measured: llama,
        slo: streamed,
        launchSeconds: undefined,
        peakRssMiB: undefined,
        slowestMs: undefined,
      },
    },
    { headroom: 0.2, ...(modelUri !== undefined && { modelUri }) },
  )
}

const hub = 'meta-llama/Llama-3.1-8B-Instruct'

async function podIn(
  target: 'kubernetes' | 'kserve' | 'lws',
  serving: ReturnType<typeof servingOfLlama>,
  options = {},
) {
  const [file] = await renderSpec(target, serving, options)
  const { objects, problems } = checkManifests(file!.text)
  expect(problems).toEqual([])
  const object = objects.find(({ kind }) => String(kind) in podOf)!
  const [, spec, container] = podOf[String(object.kind)]!(object.spec as Tree)
  return { text: file!.text, object: object as unknown as Tree, objects, spec, container }
}
const flagOf = {
  vllm: '--max-model-len=4096',
  sglang: '--context-length=4096',
  tgi: '--max-total-tokens=4096',
  'tensorrt-llm': '--max_seq_len=4096',
}

test.each(languageServers)(
  '%s has memory, GPUs and shared memory for its weights and cache, and the length that it was tuned with',
  async (server) => {
    for (const target of ['kubernetes', 'kserve'] as const) {
      const { container, spec } = await podIn(target, servingOfLlama(server, hub, 2))
      expect(container.resources).toEqual({
        requests: { cpu: '4', memory: '33Gi' },
        limits: { cpu: '4', memory: '33Gi', 'nvidia.com/gpu': '2' },
      })
      expect(spec.volumes).toContainEqual({
        name: 'shared-memory',
        emptyDir: { medium: 'Memory', sizeLimit: '8Gi' },
      })
      expect(container.volumeMounts).toContainEqual({
        name: 'shared-memory',
        mountPath: '/dev/shm',
      })
      expect(container.args).toContain(flagOf[server])
    }
  },
)

test.each(languageServers)(
  "%s takes the Hub's token from a Secret, and keeps what it downloads in a volume",
  async (server) => {
    for (const target of ['kubernetes', 'kserve'] as const) {
      const { container, spec, text } = await podIn(target, servingOfLlama(server, hub))
      expect([...(container.command as unknown as string[])].join(' ')).toContain(hub)
      expect(container.env).toContainEqual({
        name: 'HF_TOKEN',
        valueFrom: {
          secretKeyRef: { name: 'llama-3-1-8b-secrets', key: 'HF_TOKEN', optional: true },
        },
      })
      expect(text).toContain(
        'kubectl create secret generic llama-3-1-8b-secrets --from-literal=HF_TOKEN="$HF_TOKEN"',
      )
      expect(container.env).toContainEqual({ name: 'HF_HOME', value: '/cache/huggingface' })
      expect(spec.volumes).toContainEqual({ name: 'cache', emptyDir: {} })
      expect(container.volumeMounts).toContainEqual({ name: 'cache', mountPath: '/cache' })
      // Weights from elsewhere need no token.
      expect(
        JSON.stringify((await podIn(target, servingOfLlama(server, 's3://bucket/llama'))).object),
      ).not.toContain('HF_TOKEN')
    }
  },
)

test.each(languageServers)(
  '%s has the time to download and read its weights, and to end its longest answer',
  async (server) => {
    const { container, spec, object } = await podIn('kubernetes', servingOfLlama(server, hub))
    const startup = container.startupProbe as unknown as {
      periodSeconds: number
      failureThreshold: number
    }
    expect(startup.periodSeconds * startup.failureThreshold).toBe(685)
    expect(object.spec!.progressDeadlineSeconds).toBe(1284)
    expect(container.readinessProbe).toMatchObject({
      httpGet: { path: '/health', port: 'http' },
      timeoutSeconds: server === 'sglang' ? 20 : 10,
    })
    expect(spec.terminationGracePeriodSeconds).toBe(134)
  },
)

describe('TensorRT-LLM', () => {
  test('reads its options from a file of the pod, and tells Prometheus elsewhere', async () => {
    for (const target of ['kubernetes', 'kserve'] as const) {
      const { objects, container } = await podIn(target, servingOfLlama('tensorrt-llm', hub))
      expect(container.image).toBe('nvcr.io/nvidia/tensorrt-llm/release:1.2.1')
      expect(container.args).toContain('--max_batch_size=64')
      expect(container.args).toContain('--extra_llm_api_options=/etc/tuned/trtllm.yaml')
      expect(container.volumeMounts).toContainEqual(
        expect.objectContaining({ mountPath: '/etc/tuned/trtllm.yaml' }),
      )
      const { data } = objects.find(({ kind }) => kind === 'ConfigMap') as unknown as {
        data: Record<string, string>
      }
      expect(Object.values(data).map((text) => parse(text))).toEqual([
        { enable_chunked_prefill: true, return_perf_metrics: true },
      ])
    }
    expect(languageContainer('tensorrt-llm', 'llama', hub).metrics).toEqual({
      port: 8000,
      path: '/prometheus/metrics',
    })
  })

  test('is called by the name of the model where its weights lie in a folder of another', async () => {
    const { container } = await podIn(
      'kubernetes',
      servingOfLlama('tensorrt-llm', 'pvc://weights/model'),
    )
    const [shell, flag, script, ...words] = container.command as unknown as string[]
    expect([shell, flag, ...words]).toEqual([
      'sh',
      '-c',
      'sh',
      '/mnt/models',
      '/tmp/llama-3.1-8b',
      'trtllm-serve',
      'serve',
      '/tmp/llama-3.1-8b',
    ])
    const folder = mkdtempSync(join(tmpdir(), 'tune-link-'))
    try {
      const link = join(folder, 'llama')
      const said = execFileSync(
        'sh',
        ['-c', script!, 'sh', folder, link, 'echo', link, '--port=1'],
        { encoding: 'utf8' },
      )
      expect(said).toBe(`${link} --port=1\n`)
      expect(realpathSync(link)).toBe(realpathSync(folder))
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

test('8-bit weights that say so themselves are refused beside --quantization fp8: the file says it', async () => {
  const eight = (server: LanguageServer) => ({
    ...servingOfLlama(server, hub),
    configuration: { maxNumSeqs: 64, quantization: 'fp8' },
  })
  for (const server of ['vllm', 'sglang'] as const)
    expect((await podIn('kubernetes', eight(server))).text).toContain(
      'remove it for weights that are quantized already',
    )
  expect((await podIn('kserve', eight('vllm'), { variant: 'llm' })).text).toContain(
    'remove it for weights',
  )
  expect((await podIn('kubernetes', eight('tgi'))).text).not.toContain('remove it for weights')
  expect((await podIn('kubernetes', servingOfLlama('vllm', hub))).text).not.toContain(
    'remove it for weights',
  )
})

describe('speculative decoding', () => {
  const drafting = (server: LanguageServer, more: Configuration) => {
    const base = servingOfLlama(server, hub)
    return { ...base, configuration: { ...base.configuration, ...more } }
  }

  test('stands in the manifest as the server takes it, and in the script and the flags of KServe', async () => {
    const eagle = {
      speculativeTokens: 3,
      speculativeMethod: 'eagle3',
      speculativeModel: 'org/eagle',
    }
    const config = '{"method":"eagle3","model":"org/eagle","num_speculative_tokens":3}'
    const vllm = drafting('vllm', eagle)
    expect((await podIn('kubernetes', vllm)).container.args).toContain(
      `--speculative-config=${config}`,
    )
    expect((await podIn('kserve', vllm)).container.args).toContain(`--speculative-config=${config}`)
    expect((await podIn('kserve', vllm, { variant: 'llm' })).container.env).toContainEqual({
      name: 'VLLM_ADDITIONAL_ARGS',
      value: expect.stringContaining(`--speculative-config '${config}'`),
    })
    const [script] = await renderSpec('vllm', {
      ...vllm,
      container: { ...vllm.container, imageNamed: false },
    })
    expect(script!.text).toContain(`--speculative-config '${config}'`)
    const { objects } = await podIn('kubernetes', drafting('tensorrt-llm', eagle))
    expect(JSON.stringify(objects)).toContain('speculative_model_dir: \\"org/eagle\\"')
  })

  test('weights that draft and are not known have a placeholder, which is told of; their token comes from the Secret', async () => {
    for (const speculativeModel of [undefined, 'llama-3.2-1b']) {
      const serving = drafting('sglang', {
        speculativeTokens: 3,
        speculativeMethod: 'draft',
        ...(speculativeModel && { speculativeModel }),
      })
      const { container, text } = await podIn('kubernetes', serving)
      expect(container.args).toContain(
        '--speculative-draft-model-path=REPLACE_WITH_YOUR_DRAFT_MODEL',
      )
      expect(text).toContain('INCOMPLETE: no weights of the draft model. Replace ')
    }
    const named = {
      speculativeTokens: 3,
      speculativeMethod: 'eagle3',
      speculativeModel: 'org/eagle',
    }
    const mounted = {
      ...servingOfLlama('sglang', 'pvc://weights/llama'),
      configuration: { ...named, gpus: 1 },
    }
    const { container, text } = await podIn('kubernetes', mounted)
    expect(text).not.toContain('INCOMPLETE')
    expect(JSON.stringify(container.env)).toContain('HF_TOKEN')
  })

  test('a server that has no such drafts is refused, with what it has', async () => {
    const serving = drafting('tgi', {
      speculativeTokens: 3,
      speculativeMethod: 'eagle3',
      speculativeModel: 'org/eagle',
    })
    await expect(podIn('kubernetes', serving)).rejects.toThrow(
      /tgi does not support speculativeMethod eagle3/,
    )
  })
})

test('more GPUs than a node has are told of, and what spreads them over several', async () => {
  const several = /needs a node with 16 GPUs.*--target lws/
  expect((await podIn('kubernetes', servingOfLlama('vllm', hub, 16))).text).toMatch(several)
  expect((await podIn('kserve', servingOfLlama('vllm', hub, 16), { variant: 'llm' })).text).toMatch(
    several,
  )
  expect((await podIn('kubernetes', servingOfLlama('vllm', hub, 8))).text).not.toContain(
    '--target lws',
  )
  expect((await podIn('kubernetes', servingOfLlama('sglang', hub, 16))).text).toMatch(
    /Only vLLM is deployed over several nodes/,
  )
})

describe('a LeaderWorkerSet', () => {
  const over = (gpus: number, gpusPerNode?: number) =>
    podIn(
      'lws',
      servingOfLlama('vllm', hub, gpus),
      gpusPerNode === undefined ? {} : { gpusPerNode },
    )

  test('is valid, and spreads a replica over nodes: tensor parallel in each, pipeline parallel over them', async () => {
    for (const [gpus, perNode, nodes] of [
      [16, undefined, 2],
      [8, 2, 4],
    ] as const) {
      const { object, container, text } = await over(gpus, perNode)
      const template = object.spec!.leaderWorkerTemplate!
      expect(template).toMatchObject({ size: nodes, restartPolicy: 'RecreateGroupOnPodRestart' })
      const args = container.args as unknown as string[]
      expect(args.filter((arg) => arg.includes('parallel'))).toEqual([
        `--tensor-parallel-size=${perNode ?? 8}`,
        `--pipeline-parallel-size=${nodes}`,
      ])
      expect(args).toContain('--distributed-executor-backend=ray')
      expect(args).toContain('--max-num-seqs=64')
      const [worker] = template.workerTemplate!.spec!.containers as unknown as Tree[]
      for (const one of [container, worker!])
        expect(one.resources!.limits).toMatchObject({ 'nvidia.com/gpu': String(perNode ?? 8) })
      expect(text).toMatch(/NOT MODELLED, NOT MEASURED: the network between the \d nodes/)
    }
  })

  test('begins a Ray cluster that its workers join, and is asked only at its leader', async () => {
    const { object, objects, container } = await over(16)
    const command = (of: Tree) => of.command as unknown as string[]
    expect(command(container).slice(0, 2)).toEqual(['sh', '-c'])
    expect(command(container)[2]).toMatch(
      /multi-node-serving.sh leader --ray_cluster_size="\$LWS_GROUP_SIZE" --ray_init_timeout=\d+ && exec "\$@"$/,
    )
    expect(command(container).slice(3)).toEqual(['sh', 'vllm', 'serve', hub])
    const worker = object.spec!.leaderWorkerTemplate!.workerTemplate!
    const [one] = worker.spec!.containers as unknown as Tree[]
    expect(command(one!)[2]).toContain('worker --ray_address="$LWS_LEADER_ADDRESS"')
    for (const field of ['ports', 'startupProbe', 'readinessProbe', 'livenessProbe'])
      expect(one).not.toHaveProperty(field)
    // Every pod fetches, caches and shares memory.
    expect(one!.env).toEqual(container.env)
    expect(one!.volumeMounts).toEqual(container.volumeMounts)
    const service = objects.find(({ kind }) => kind === 'Service') as unknown as Tree
    const leader = object.spec!.leaderWorkerTemplate!.leaderTemplate!
    expect(leader.metadata!.labels).toMatchObject(service.spec!.selector!)
    expect(worker.metadata!.labels).not.toMatchObject(service.spec!.selector!)
    // That of the set itself is the controller's.
    expect(service.metadata!.name).not.toBe(object.metadata!.name)
  })

  test('waits for the last node before its start counts', async () => {
    const [one, several] = [
      await podIn('kubernetes', servingOfLlama('vllm', hub, 8)),
      await over(16),
    ]
    const start = (of: Tree) =>
      Number(of.startupProbe!.failureThreshold) * Number(of.startupProbe!.periodSeconds)
    expect(start(several.container)).toBeGreaterThanOrEqual(
      Number(one.object.spec!.progressDeadlineSeconds),
    )
    // What a node holds, not what the replica does.
    expect(several.container.resources!.limits!.memory).toEqual(
      one.container.resources!.limits!.memory,
    )
  })

  test.each([
    [8, undefined, /a node has 8: a LeaderWorkerSet spreads a replica over several nodes/],
    [12, undefined, /12 GPUs do not fill whole nodes of 8 GPUs/],
  ] as const)('%d GPUs of nodes of %s are refused', async (gpus, perNode, message) => {
    await expect(over(gpus, perNode)).rejects.toThrow(message)
  })
})

test('an LLMInferenceService waits for its model as long, with as much shared memory', async () => {
  const { container, spec, text } = await podIn('kserve', servingOfLlama('vllm', hub, 2), {
    variant: 'llm',
  })
  expect(container.startupProbe).toEqual({ periodSeconds: 5, failureThreshold: 137 })
  expect(spec.volumes).toEqual([{ name: 'dshm', emptyDir: { medium: 'Memory', sizeLimit: '8Gi' } }])
  expect(container.env).toContainEqual({
    name: 'VLLM_ADDITIONAL_ARGS',
    value: '--max-num-seqs 64 --max-model-len 4096',
  })
  expect(container.resources!.limits).toMatchObject({ memory: '33Gi' })
  expect(spec.terminationGracePeriodSeconds).toBe(134)
  expect(text).toContain('needs HF_TOKEN from a Secret of the service account')
})

test("KServe's own runtime and Knative wait as long", async () => {
  const named = servingOfLlama('vllm', hub)
  const byRuntime = { ...named, container: { ...named.container, imageNamed: false } }
  const standard = await podIn('kserve', byRuntime)
  expect(standard.object.spec!.predictor!.model!.args).toContain('--max-model-len=4096')
  expect(standard.container.startupProbe).toMatchObject({
    periodSeconds: 5,
    failureThreshold: 137,
    timeoutSeconds: 10,
  })
  const { object } = await podIn('kserve', byRuntime, { variant: 'knative' })
  expect(object.metadata!.annotations).toMatchObject({
    'serving.knative.dev/progress-deadline': '1284s',
  })
})

test('Compose passes the token on, keeps the cache in a volume, and waits as long', async () => {
  const [file] = await renderSpec('compose', servingOfLlama('vllm', hub, 2))
  const project = parse(file!.text)
  expect(checkCompose(project)).toEqual([])
  const service = project.services['llama-3-1-8b']
  expect(service).toMatchObject({
    shm_size: '8192m',
    stop_grace_period: '134s',
    environment: { HF_TOKEN: null, HF_HOME: '/cache/huggingface', VLLM_CACHE_ROOT: '/cache/vllm' },
    volumes: [{ type: 'volume', source: 'cache', target: '/cache' }],
    deploy: { resources: { limits: { cpus: '4', memory: '33792m' } } },
  })
  expect(project.volumes).toEqual({ cache: {} })
})
