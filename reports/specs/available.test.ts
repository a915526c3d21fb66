/** What keeps a service answering, and starts its server whole, on every target of a cluster. */
import { expect, test } from 'vitest'
import { renderSpec } from './index.ts'
import { languageContainer } from './language-servers.ts'
import { servingOf } from './serving.ts'
import { found, podOf, serving, type Tree, whole } from './spec-samples.contract.ts'
import { checkManifests } from './validate.contract.ts'

/**
 * What each platform takes of what keeps a service answering. `-`: its schema, or its webhook, has
 * no place for it.
 */
test.each([
  ['kubernetes', 'triton', {}, { budget: true, end: true, rates: true, scrape: '8002' }],
  [
    'kserve',
    'triton',
    { variant: 'standard' },
    { budget: true, end: true, rates: false, scrape: undefined },
  ],
  [
    'kserve',
    'triton',
    { variant: 'keda' },
    { budget: true, end: true, rates: true, scrape: '8002' },
  ],
  [
    'kserve',
    'tfserving',
    { variant: 'keda' },
    { budget: true, end: true, rates: true, scrape: '8080' },
  ],
  [
    'kserve',
    'command',
    { variant: 'keda' },
    { budget: true, end: true, rates: true, scrape: '8000' },
  ],
  [
    'kserve',
    'triton',
    { variant: 'knative' },
    { budget: true, end: false, rates: false, scrape: undefined },
  ],
  [
    'kserve',
    'vllm',
    { variant: 'llm' },
    { budget: true, end: true, rates: false, scrape: undefined },
  ],
  ['seldon', 'tfserving', {}, { budget: 'pdbSpec', end: true, rates: false, scrape: undefined }],
  ['kubedl', 'triton', {}, { budget: true, end: true, rates: true, scrape: '8002' }],
  [
    'rayservice',
    'ray',
    { importPath: 'app:bert' },
    { budget: true, end: true, rates: false, scrape: undefined },
  ],
] as const)(
  '%s with %s %o keeps answering while replicas come and go',
  async (target, server, options, has) => {
    const s = servingOf(
      {
        ...found,
        deployed: serving({ server }).deployed,
        resources: whole,
        evidence: { ...serving({ server }).evidence, slowestMs: 45_000 },
      },
      { demandRps: 1000, headroom: 0.2, modelUri: serving({ server }).modelUri },
    )
    const { objects, problems } = checkManifests((await renderSpec(target, s, options))[0]!.text)
    expect(problems).toEqual([])
    const object = objects.find(({ kind }) => String(kind) in podOf)!
    const [metadata, spec, container] = podOf[String(object.kind)]!(object.spec as Tree)
    expect(spec.terminationGracePeriodSeconds).toBe(has.end ? 100 : undefined)
    expect(spec.topologySpreadConstraints !== undefined).toBe(has.end)
    expect(container.lifecycle !== undefined).toBe(has.end)
    const budget = objects.find(({ kind }) => kind === 'PodDisruptionBudget') as unknown as
      | Tree
      | undefined
    if (has.budget === true) {
      const selected = budget!.spec!.selector!.matchLabels as unknown as Record<string, string>
      const spread = spec.topologySpreadConstraints?.[0]?.labelSelector?.matchLabels ?? selected
      expect(selected).toEqual(spread)
    } else expect(JSON.stringify(object)).toContain('"pdbSpec":{"maxUnavailable":1}')
    expect(JSON.stringify(objects).includes('"stabilizationWindowSeconds":310')).toBe(has.rates)
    expect((metadata?.annotations as Tree | undefined)?.['prometheus.io/port']).toEqual(has.scrape)
    // One replica has nobody beside it.
    const one = checkManifests(
      (await renderSpec(target, { ...s, replicas: 1, minReplicas: 1 }, options))[0]!.text,
    )
    expect(JSON.stringify(one.objects)).not.toMatch(/maxUnavailable|topologySpread/)
  },
)

test.each(['kserve', 'seldon', 'kubedl'] as const)(
  'on %s Triton starts on the tuned configuration, is asked at its own paths, and shares memory',
  async (target) => {
    const { objects } = checkManifests(
      (await renderSpec(target, serving({ server: 'triton' }, whole)))[0]!.text,
    )
    const object = objects.find(({ kind }) => String(kind) in podOf)!
    const [, spec, container] = podOf[String(object.kind)]!(object.spec as Tree)
    expect(container.command).toEqual([
      'sh',
      '-c',
      expect.stringContaining('cp /etc/tuned/config.pbtxt'),
      'sh',
      'bert',
      '/mnt/models',
    ])
    const port = target === 'seldon' ? 9000 : 8080
    expect(String(container.command![2])).toContain(
      `exec tritonserver --model-repository=/tmp/repository --http-port=${port} `,
    )
    expect(container.readinessProbe!.httpGet).toEqual({ path: '/v2/health/ready', port })
    expect(container.livenessProbe!.httpGet).toEqual({ path: '/v2/health/live', port })
    const mounts = (container.volumeMounts as unknown as { mountPath: string; name: string }[]).map(
      ({ mountPath }) => mountPath,
    )
    expect(mounts).toEqual(expect.arrayContaining(['/etc/tuned/config.pbtxt', '/dev/shm']))
    if (target === 'kubedl')
      expect(spec.initContainers![0]).toMatchObject({ args: ['s3://bucket/bert', '/mnt/models'] })
  },
)

test.each([
  [
    'vllm',
    ['vllm', 'serve', 'org/model'],
    ['--max-num-seqs=64', '--tensor-parallel-size=2', '--quantization=awq', '--dtype=bfloat16'],
  ],
  [
    'sglang',
    ['python3', '-m', 'sglang.launch_server', '--model-path=org/model'],
    [
      '--enable-metrics',
      '--max-running-requests=64',
      '--tp-size=2',
      '--quantization=awq',
      '--dtype=bfloat16',
    ],
  ],
  [
    'tgi',
    ['text-generation-launcher', '--model-id=org/model'],
    ['--max-batch-size=64', '--num-shard=2', '--quantize=awq'],
  ],
  ['tensorrt-llm', ['trtllm-serve', 'serve', 'org/model'], ['--max_batch_size=64', '--tp_size=2']],
] as const)(
  '%s is whole: weights that it fetches, what was tuned in its own words, probes, shared memory',
  async (server, command, args) => {
    const base = serving({ server, modelUri: 'org/model' }, whole)
    const s = {
      ...base,
      resources: { ...whole, gpus: 2 },
      configuration: { maxNumSeqs: 64, quantization: 'awq', precision: 'bf16' },
      container: languageContainer(server, 'bert', 'org/model'),
    }
    for (const target of ['kubernetes', 'kserve'] as const) {
      const named = { ...s, container: { ...s.container, imageNamed: true } }
      const { objects, problems } = checkManifests((await renderSpec(target, named))[0]!.text)
      expect(problems).toEqual([])
      const [, spec, container] = podOf[
        String(objects.find(({ kind }) => String(kind) in podOf)!.kind)
      ]!(objects.find(({ kind }) => String(kind) in podOf)!.spec as Tree)
      expect(container.command).toEqual(command)
      expect(container.args).toEqual(expect.arrayContaining([...args]))
      if (server === 'tgi') expect(JSON.stringify(container.args)).not.toContain('dtype')
      expect(container.startupProbe!.httpGet!.path).toBe('/health')
      expect(JSON.stringify(spec.volumes)).toContain('"medium":"Memory"')
      expect(JSON.stringify(spec)).not.toContain('STORAGE_URI')
      expect(spec.initContainers).toBeUndefined()
    }
  },
)
