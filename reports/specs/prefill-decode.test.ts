/** Pools of prefill and decode servers, read back: what finds what, and what each pod holds. */
import { expect, test } from 'vitest'
import { pooledGpus } from '../../trials/resources.ts'
import { renderSpec, specTargets } from './index.ts'
import { languageContainer } from './language-servers.ts'
import { patchManifests } from './patch/patch-manifests.ts'
import { servingOf } from './serving.ts'
import { evidence, found, llama, streamed, type Tree, whole } from './spec-samples.contract.ts'
import { checkManifests } from './validate.contract.ts'

const hub = 'meta-llama/Llama-3.1-8B-Instruct'

function pooled(server: 'sglang' | 'vllm' = 'sglang', decodeGpus = 2, replicas = 3) {
  const pools = { prefill: 1, decode: 2, prefillGpus: 2, decodeGpus }
  const servers = 3
  return servingOf(
    {
      ...found,
      model: 'llama-3.1-8b',
      candidate: {
        ...found.candidate,
        replicas,
        configuration: {
          maxNumSeqs: 64,
          gpus: 2,
          prefillReplicas: pools.prefill,
          decodeReplicas: pools.decode,
          decodeGpus,
        },
      },
      resources: {
        ...whole,
        gpu: 'H100',
        gpus: pooledGpus(pools),
        cpuCores: servers,
        memoryMiB: 4096 * servers,
        pools,
      },
      deployed: { server, weights: 'given' },
      container: languageContainer(server, 'llama-3.1-8b', hub),
      evidence: {
        ...evidence,
        measured: llama,
        slo: streamed,
        launchSeconds: undefined,
        peakRssMiB: undefined,
        slowestMs: undefined,
      },
    },
    { headroom: 0.2, modelUri: hub },
  )
}

async function written(options = {}, decodeGpus = 2) {
  const [file, ...others] = await renderSpec('kubernetes', pooled('sglang', decodeGpus), options)
  expect(others).toEqual([])
  const { objects, problems } = checkManifests(file!.text)
  expect(problems).toEqual([])
  const named = (kind: string, name: string) =>
    objects.find(
      (o) => o.kind === kind && (o as unknown as Tree).metadata!.name === (name as never),
    ) as unknown as Tree
  const podOf = (name: string) => named('Deployment', name).spec!.template!
  const containerOf = (name: string) => (podOf(name).spec!.containers as unknown as Tree[])[0]!
  return { text: file!.text, objects, named, podOf, containerOf }
}

test('each pool is a Deployment of its servers, started in its mode with what was tuned', async () => {
  const { named, containerOf } = await written()
  expect([
    named('Deployment', 'llama-3-1-8b-prefill').spec!.replicas,
    named('Deployment', 'llama-3-1-8b-decode').spec!.replicas,
  ]).toEqual([3, 6])
  const common = [
    '--max-running-requests=64',
    '--tp-size=2',
    '--context-length=4096',
    '--disaggregation-transfer-backend=nixl',
  ]
  const modes = {
    prefill: ['--disaggregation-mode=prefill', '--disaggregation-bootstrap-port=8998'],
    decode: ['--disaggregation-mode=decode'],
  }
  for (const [pool, mode] of Object.entries(modes)) {
    const { args, image, resources } = containerOf(`llama-3-1-8b-${pool}`)
    for (const arg of [...common, ...mode]) expect(args).toContain(arg)
    expect(image).toBe('lmsysorg/sglang:v0.5.4')
    // Of one server, not of all.
    expect(resources!.limits).toMatchObject({ 'nvidia.com/gpu': '2', cpu: '4', memory: '33Gi' })
  }
  expect(containerOf('llama-3-1-8b-decode').args).not.toContain(
    '--disaggregation-bootstrap-port=8998',
  )
})

test('pools that are split differently: each starts over its own GPUs, with the cores, memory and shared memory of those', async () => {
  const { text, containerOf, podOf } = await written({}, 4)
  for (const [pool, gpus, limits] of [
    ['prefill', 2, { cpu: '4', memory: '33Gi' }],
    ['decode', 4, { cpu: '6', memory: '49Gi' }],
  ] as const) {
    const { args, resources } = containerOf(`llama-3-1-8b-${pool}`)
    expect(args).toContain(`--tp-size=${gpus}`)
    expect(resources!.limits).toMatchObject({ 'nvidia.com/gpu': String(gpus), ...limits })
    expect(JSON.stringify(podOf(`llama-3-1-8b-${pool}`).spec!.volumes)).toContain(
      `"sizeLimit":"${4 * gpus}Gi"`,
    )
  }
  expect(text).toMatch(/^# {3}4 cores \(each prefill server\)/m)
  expect(text).toMatch(/^# {3}6 cores \(each decode server\)/m)
  expect(text).toMatch(
    /different numbers of GPUs: SGLang warns of slower key-value transfers, which were not modelled/,
  )
  expect((await written()).text).not.toMatch(/different numbers of GPUs/)
})

test('the router finds the pods of either pool by their labels, may look at them, and is what is asked', async () => {
  const { named, podOf, containerOf } = await written()
  const args = containerOf('llama-3-1-8b-router').args as unknown as string[]
  const selected = (flag: string) => {
    const at = args.indexOf(flag)
    return Object.fromEntries(args.slice(at + 1, at + 3).map((pair) => pair.split('=')))
  }
  for (const pool of ['prefill', 'decode'] as const) {
    const labels = podOf(`llama-3-1-8b-${pool}`).metadata!.labels
    expect(labels).toMatchObject(selected(`--${pool}-selector`))
    expect(
      podOf(`llama-3-1-8b-${pool === 'prefill' ? 'decode' : 'prefill'}`).metadata!.labels,
    ).not.toMatchObject(selected(`--${pool}-selector`))
    expect(named('Deployment', `llama-3-1-8b-${pool}`).spec!.selector!.matchLabels).toEqual(labels)
    expect(
      named('PodDisruptionBudget', `llama-3-1-8b-${pool}`).spec!.selector!.matchLabels,
    ).toEqual(labels)
  }
  expect(podOf('llama-3-1-8b-prefill').metadata!.annotations).toMatchObject({
    'sglang.ai/bootstrap-port': '8998',
  })
  expect(podOf('llama-3-1-8b-decode').metadata!.annotations ?? {}).not.toHaveProperty(
    'sglang.ai/bootstrap-port',
  )
  for (const arg of [
    '--pd-disaggregation',
    '--service-discovery',
    '--service-discovery-port=8000',
    '--policy=round_robin',
  ])
    expect(args).toContain(arg)
  const service = named('Service', 'llama-3-1-8b')
  expect(podOf('llama-3-1-8b-router').metadata!.labels).toEqual(service.spec!.selector)
  const account = podOf('llama-3-1-8b-router').spec!.serviceAccountName
  const binding = named('RoleBinding', 'llama-3-1-8b-router') as unknown as {
    roleRef: { name: string }
    subjects: { name: string }[]
  }
  expect([binding.roleRef.name, binding.subjects[0]!.name]).toEqual([account, account])
  expect(named('Role', 'llama-3-1-8b-router')).toMatchObject({
    rules: [{ resources: ['pods'], verbs: ['get', 'list', 'watch'] }],
  })
})

test('says what was simulated and assumed', async () => {
  const { text } = await written()
  expect(text).toMatch(
    /FIGURES ARE FROM ANOTHER SERVER THAN THIS DEPLOYS: simulated with a model of/,
  )
  expect(text).toMatch(
    /ASSUMED, NOT MEASURED: the key-value transfer rate .*\(200 GB\/s per GPU over NVLink where both fit into 8 GPUs, else 25 GB\/s/,
  )
  expect(text).toMatch(/3 x \(1 prefill \+ 2 decode\) servers behind one router/)
  expect(text).toMatch(/no autoscaler/)
  expect(text).toMatch(/^# {3}4 cores \(each server\) +\S.* 1, which the price is for/m)
  expect(text).not.toMatch(/^# {3}\d+ cores {2}/m)
  expect((await written({ autoscaler: 'none' })).text).not.toMatch(/no autoscaler/)
})

test('nothing else deploys them as if they were one server', async () => {
  const others = specTargets.filter((name) => name !== 'kubernetes')
  for (const target of others)
    await expect(renderSpec(target, pooled())).rejects.toThrow(/cannot deploy/)
  await expect(renderSpec('kserve', pooled())).rejects.toThrow(/KServe cannot deploy pools/)
  await expect(renderSpec('vllm', pooled('vllm'))).rejects.toThrow(/vLLM cannot deploy pools/)
  await expect(renderSpec('kubernetes', pooled('vllm'))).rejects.toThrow(
    /pools of prefill and decode servers are supported for SGLang/,
  )
  expect(() => patchManifests('kind: Deployment', pooled(), { file: 'd.yaml' })).toThrow(
    /a patch changes one container, and this configuration has pools/,
  )
})
