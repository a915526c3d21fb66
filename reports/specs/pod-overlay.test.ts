import { expect, test } from 'vitest'
import { renderSpec } from './index.ts'
import { podOf, serving, type Tree, whole } from './spec-samples.contract.ts'
import { checkManifests } from './validate.contract.ts'

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
