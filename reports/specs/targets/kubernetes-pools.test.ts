/** Pools of prefill and decode servers, read back: what selects what. */
import { expect, test } from 'vitest'
import { renderSpec, specTargets } from '../index.ts'
import { patchManifests } from '../patch/patch-manifests.ts'
import { pooledServing, type Tree } from '../spec-samples.contract.ts'
import { checkManifests } from '../validate.contract.ts'

async function render() {
  const [file] = await renderSpec('kubernetes', pooledServing())
  const { objects } = checkManifests(file!.text)
  const named = (kind: string, name: string) =>
    objects.find(
      (o) => o.kind === kind && (o as unknown as Tree).metadata!.name === (name as never),
    ) as unknown as Tree
  const podOf = (name: string) => named('Deployment', name).spec!.template!
  const containerOf = (name: string) => (podOf(name).spec!.containers as unknown as Tree[])[0]!
  return { named, podOf, containerOf }
}

test('the router selects the pods of either pool, may read them, and is what the Service selects', async () => {
  const { named, podOf, containerOf } = await render()
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
  const service = named('Service', 'llama-3-1-8b')
  expect(podOf('llama-3-1-8b-router').metadata!.labels).toEqual(service.spec!.selector)
  const account = podOf('llama-3-1-8b-router').spec!.serviceAccountName
  const binding = named('RoleBinding', 'llama-3-1-8b-router') as unknown as {
    roleRef: { name: string }
    subjects: { name: string }[]
  }
  expect([binding.roleRef.name, binding.subjects[0]!.name]).toEqual([account, account])
})

test('nothing else deploys them as if they were one server', async () => {
  const others = specTargets.filter((name) => name !== 'kubernetes')
  for (const target of others)
    await expect(renderSpec(target, pooledServing())).rejects.toThrow(/cannot deploy/)
  await expect(renderSpec('kserve', pooledServing())).rejects.toThrow(/KServe cannot deploy pools/)
  await expect(renderSpec('vllm', pooledServing('vllm'))).rejects.toThrow(
    /vLLM cannot deploy pools/,
  )
  await expect(renderSpec('kubernetes', pooledServing('vllm'))).rejects.toThrow(
    /pools of prefill and decode servers are supported for SGLang/,
  )
  expect(() => patchManifests('kind: Deployment', pooledServing(), { file: 'd.yaml' })).toThrow(
    /a patch changes one container, and this configuration has pools/,
  )
})
