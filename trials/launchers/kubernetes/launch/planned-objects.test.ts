import { expect, test } from 'vitest'
import { protocolFor } from '../../../../profiler/protocols/index.ts'
import { parseResources } from '../../../resources.ts'
import type { Api } from '../api/api.ts'
import { type ClusterGpu, groupNodeGpus } from '../gpus/cluster-facts.ts'
import { type GpuScheme, selectGpu } from '../gpus/gpu-selection.ts'
import { planObjects } from './planned-objects.ts'

const base = {
  api: {} as Api,
  experimentId: 'e',
  template: { kind: 'builtin', model: 'bert', engine: 'tfjs' },
  image: 'on-cpu',
  gpuImage: 'with-cuda',
  port: 8000,
  parameters: [],
  protocol: protocolFor('oip-v2'),
  payload: { kind: 'generated', seed: 1, count: 1 },
  runDirectory: '/tmp',
  connectivity: 'direct',
} as const

test.each([
  [{ cpuCores: 1, gpu: 'T4' }, 'tfjs', 'with-cuda'],
  [{ cpuCores: 1, gpu: 'none' }, 'tfjs', 'on-cpu'],
  [{ cpuCores: 1 }, 'tfjs', 'on-cpu'],
  [{ cpuCores: 1, gpu: 'T4' }, 'emulated', 'on-cpu'],
] as const)('%j with %s is tried in the image %s', (configuration, engine, image) => {
  const { pod } = planObjects(
    { ...base, template: { ...base.template, engine } },
    configuration,
    1,
    { name: 'o', uid: 'u' },
    'p',
  )
  expect((pod.spec as { containers: unknown[] }).containers).toMatchObject([{ image }])
})

const register = 'GPU-1,10,23034,100,NVIDIA-NVIDIA L4,0,true:'
const l4: ClusterGpu = {
  product: 'NVIDIA-L4',
  gpu: 'L4',
  scheme: 'hami',
  nodes: 1,
  memoryMiB: 23_034,
  resources: {},
}

test.each([
  ['hami', [l4], 100, 23_034],
  ['hami', [l4], 50, 11_517],
  ['hami', [], 100, 23_034],
  ['volcano', [{ ...l4, memoryMiB: 22_000 }], 100, 22_000],
  ['volcano', [{ ...l4, memoryMiB: 22_000 }], 50, 11_000],
] as const)(
  '%s asks for as much memory of an L4 as the node has: %j, %d %% of it',
  (gpuScheme, nodeGpus, gpuMemoryPercent, expected) => {
    const { pod } = planObjects(
      { ...base, gpuScheme, nodeGpus },
      { cpuCores: 1, gpu: 'L4', gpuMemoryPercent },
      1,
      { name: 'o', uid: 'u' },
      'p',
    )
    const [{ resources }] = (
      pod.spec as { containers: [{ resources: { limits: Record<string, string> } }] }
    ).containers
    expect(
      resources.limits[gpuScheme === 'hami' ? 'nvidia.com/gpumem' : 'volcano.sh/vgpu-memory'],
    ).toBe(String(expected))
  },
)

test.each([
  [{ 'nvidia.com/gpu.memory': '23034' }, {}],
  [{}, { 'hami.io/node-nvidia-register': register }],
  [
    {},
    {
      'hami.io/node-nvidia-register':
        '[{"id":"GPU-1","count":10,"devmem":23034,"type":"NVIDIA-NVIDIA L4"}]',
    },
  ],
  [{}, { 'volcano.sh/node-vgpu-register': 'GPU-1,10,23034,NVIDIA L4,0,true:' }],
])('a node says how much its GPU holds: %j %j', (labels, annotations) => {
  const metadata = {
    name: 'n',
    labels: { 'nvidia.com/gpu.product': 'NVIDIA-L4', ...labels },
    annotations,
  }
  expect(
    groupNodeGpus([{ metadata, status: { allocatable: { 'nvidia.com/gpu': '10' } } }], []),
  ).toMatchObject([{ memoryMiB: 23_034 }])
})

test('an A100 of 40 GB is none of 80 GB', () => {
  const asked = (gpu: string, scheme: GpuScheme) => selectGpu(parseResources({ gpu }), scheme)
  const memory = 'karpenter.k8s.aws/instance-gpu-memory'
  expect(asked('A100-80GB', 'karpenter').requirements).toContainEqual({
    key: memory,
    operator: 'In',
    values: ['81920'],
  })
  expect(asked('A100-40GB', 'karpenter').requirements).toContainEqual({
    key: memory,
    operator: 'In',
    values: ['40960'],
  })
  expect(asked('T4', 'karpenter').requirements).toHaveLength(1)
  expect(asked('A100-40GB', 'hami').annotations).toEqual({
    'nvidia.com/use-gputype': 'A100',
    'nvidia.com/nouse-gputype': '80GB',
  })
  expect(asked('RTX-3070', 'hami').annotations).toEqual({
    'nvidia.com/use-gputype': 'GeForce RTX 3070',
    'nvidia.com/nouse-gputype': 'GeForce RTX 3070 Ti',
  })
  expect(asked('A100-80GB', 'hami').annotations).toEqual({
    'nvidia.com/use-gputype': 'A100',
    'nvidia.com/nouse-gputype': '40GB',
  })
  const labels = { 'karpenter.k8s.aws/instance-gpu-name': 'a100', [memory]: '81920' }
  expect(
    groupNodeGpus(
      [{ metadata: { name: 'n', labels }, status: { allocatable: { 'nvidia.com/gpu': '8' } } }],
      [],
    ),
  ).toMatchObject([{ gpu: 'A100-80GB', scheme: 'karpenter' }])
})

test.each([
  ['MI300X', 'amd', 'amd.com/gpu', 'amd.com/gpu.product-name', 'AMD_Instinct_MI300X_OAM'],
  ['Max-1550', 'intel', 'gpu.intel.com/i915', 'gpu.intel.com/product', 'Max_1550'],
  ['T4', 'nvidia', 'nvidia.com/gpu', 'nvidia.com/gpu.product', 'Tesla-T4'],
] as const)(
  '%s is asked for as its vendor names it, and pods get past the taint of that name',
  (gpu, scheme, resource, label, product) => {
    const selected = selectGpu(parseResources({ gpu, gpus: 2 }))
    expect(selected.limits).toEqual({ [resource]: '2' })
    expect(selected.requirements).toEqual([
      { key: label, operator: 'In', values: expect.arrayContaining([product]) },
    ])
    const { pod } = planObjects(base, { cpuCores: 1, gpu }, 1, { name: 'o', uid: 'u' }, 'p')
    expect((pod.spec as { tolerations: unknown[] }).tolerations).toEqual([
      { key: resource, operator: 'Exists', effect: 'NoSchedule' },
    ])
    const node = {
      metadata: { name: 'n', labels: { [label]: product } },
      status: { allocatable: { [resource]: '8' } },
    }
    expect(groupNodeGpus([node], [])).toMatchObject([
      { gpu, scheme, resources: { [resource]: { total: 8, free: 8 } } },
    ])
    if (scheme !== 'nvidia')
      expect(() => selectGpu(parseResources({ gpu, gpuMemoryPercent: 50 }))).toThrow(
        'assigns whole GPUs',
      )
  },
)
