import type { V1Node, V1Pod } from '@kubernetes/client-node'
import { describe, expect, test } from 'vitest'
import { gpuCatalogue } from '../../../devices/catalogue.ts'
import { parseResources } from '../../../resources.ts'
import { ApiError } from '../api/api.ts'
import { parseQuantity } from '../api/quantity.ts'
import { classifyJobRefusal, classifyPodRefusal } from '../launch/failures.ts'
import { checkNodes } from '../scheduling/node-fit.ts'
import { chooseScheme, groupNodeGpus } from './cluster-facts.ts'
import { findGpuByProduct, listProducts, matchesProduct } from './gpu-names.ts'
import {
  type GpuScheme,
  GpuSchemeError,
  gpuSchemes,
  limitsGpuMemory,
  occupiesWholeGpu,
  requestsMebibytes,
  selectGpu,
} from './gpu-selection.ts'

const node = (
  name: string,
  labels: Record<string, string>,
  allocatable: Record<string, string>,
  annotations: Record<string, string> = {},
): V1Node =>
  ({
    metadata: { name, labels, annotations },
    status: { allocatable: { cpu: '8', memory: '32Gi', ...allocatable } },
  }) as V1Node
const product = 'nvidia.com/gpu.product'
const gpu = 'nvidia.com/gpu'

describe('GPUs of a cluster', () => {
  test.each<[GpuScheme, V1Node]>([
    ['nvidia', node('n', { [product]: 'Tesla-T4' }, { [gpu]: '2' })],
    ['time-slicing', node('n', { [product]: 'Tesla-T4-SHARED' }, { [gpu]: '8' })],
    [
      'mps',
      node(
        'n',
        { [product]: 'Tesla-T4-SHARED', 'nvidia.com/gpu.sharing-strategy': 'mps' },
        { [gpu]: '8' },
      ),
    ],
    [
      'mig-mixed',
      node(
        'n',
        { [product]: 'NVIDIA-A100-SXM4-40GB' },
        { [gpu]: '0', 'nvidia.com/mig-1g.5gb': '7' },
      ),
    ],
    ['mig-single', node('n', { [product]: 'NVIDIA-A100-SXM4-40GB-MIG-1g.5gb' }, { [gpu]: '7' })],
    [
      'hami',
      node(
        'n',
        { [product]: 'Tesla-T4' },
        { [gpu]: '10' },
        { 'hami.io/node-nvidia-register': '[...]' },
      ),
    ],
    ['volcano', node('n', {}, { 'volcano.sh/vgpu-number': '10' })],
    ['aliyun', node('n', { [product]: 'Tesla-T4' }, { 'aliyun.com/gpu-mem': '15' })],
    ['gke', node('n', { 'cloud.google.com/gke-accelerator': 'nvidia-l4' }, { [gpu]: '1' })],
    ['karpenter', node('n', { 'karpenter.k8s.aws/instance-gpu-name': 't4' }, { [gpu]: '1' })],
    ['aks', node('n', { 'kubernetes.azure.com/accelerator': 'nvidia' }, { [gpu]: '1' })],
    [
      'amd',
      node('n', { 'amd.com/gpu.product-name': 'AMD_Instinct_MI300X_OAM' }, { 'amd.com/gpu': '8' }),
    ],
    ['intel', node('n', { 'gpu.intel.com/product': 'Max_1550' }, { 'gpu.intel.com/i915': '4' })],
  ])('%s is recognised', (scheme, one) => {
    expect(groupNodeGpus([one], [])).toMatchObject([{ scheme, nodes: 1 }])
  })

  test('what pods hold is not free; ended pods hold nothing', () => {
    const pod = (phase: string): V1Pod =>
      ({
        spec: { nodeName: 'a', containers: [{ name: 'c', resources: { limits: { [gpu]: '1' } } }] },
        status: { phase },
      }) as V1Pod
    const nodes = [
      node('a', { [product]: 'NVIDIA-L4' }, { [gpu]: '2' }),
      node('b', { [product]: 'NVIDIA-L4' }, { [gpu]: '2' }),
      node('c', {}, {}),
    ]
    expect(groupNodeGpus(nodes, [pod('Running'), pod('Succeeded')])).toEqual([
      {
        product: 'NVIDIA-L4',
        gpu: 'L4',
        scheme: 'nvidia',
        nodes: 2,
        resources: { [gpu]: { total: 4, free: 3 } },
      },
    ])
    expect(groupNodeGpus(nodes, undefined)[0]!.resources[gpu]).toEqual({
      total: 4,
      free: undefined,
    })
  })

  test('every product of a model leads back to a model of those products', () => {
    for (const { name } of gpuCatalogue) {
      for (const label of listProducts(name)) {
        expect(findGpuByProduct(label), label).toBeDefined()
        for (const shown of [label, `${label}-SHARED`, `${label}-MIG-1g.5gb`])
          expect(matchesProduct(shown, name), shown).toBe(true)
      }
    }
    expect(findGpuByProduct('nvidia-tesla-t4')).toBe('T4')
    expect(findGpuByProduct('Quadro-RTX-9999')).toBeUndefined()
  })
})

describe('whether a pod could run', () => {
  const pod = (resources: object, spec: object = {}) => ({
    spec: { containers: [{ resources: { requests: resources } }], ...spec },
  })
  test('on a node that is large enough', () => {
    expect(checkNodes([node('n', {}, {})], pod({ cpu: '8', memory: '32Gi' }))).toEqual({
      kind: 'taken',
      node: 'n',
    })
  })
  test('what every node lacks is named', () => {
    expect(
      checkNodes([node('n', {}, {}), node('m', {}, { cpu: '16' })], pod({ cpu: '12', [gpu]: '1' })),
    ).toEqual({ kind: 'never', what: `no node has ${gpu} 1` })
    expect(checkNodes([node('n', {}, {}), node('m', {}, {})], pod({ cpu: '64' }))).toEqual({
      kind: 'never',
      what: 'no node has cpu 64 (the largest has cpu 8)',
    })
    expect(checkNodes([node('n', {}, { memory: '1Gi' })], pod({ memory: '1040Mi' }))).toMatchObject(
      {
        what: 'no node has memory 1040Mi (the largest has memory 1024Mi)',
      },
    )
    expect(checkNodes([], pod({}))).toMatchObject({ what: 'the cluster has no nodes' })
  })
  test('a required node label counts', () => {
    const { requirements } = selectGpu(parseResources({ gpu: 'T4' }), 'nvidia')
    const affinity = {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [{ matchExpressions: requirements }],
        },
      },
    }
    const asked = pod({ [gpu]: '1' }, { affinity })
    expect(checkNodes([node('n', { [product]: 'Tesla-T4' }, { [gpu]: '1' })], asked)).toMatchObject(
      {
        kind: 'taken',
      },
    )
    expect(
      checkNodes([node('n', { [product]: 'NVIDIA-L4' }, { [gpu]: '1' })], asked),
    ).toMatchObject({
      kind: 'never',
    })
  })
  test('what its own trial holds it never gets', () => {
    const beside = [{ spec: { nodeName: 'n', ...pod({ cpu: '7800m' }).spec } }] as never
    expect(checkNodes([node('n', {}, {})], pod({ cpu: '500m' }), beside)).toEqual({
      kind: 'never',
      what: 'no node has cpu 0.5 in addition to the other pods of its trial (the largest has cpu 8)',
    })
    expect(
      checkNodes([node('n', {}, {}), node('m', {}, {})], pod({ cpu: '500m' }), beside),
    ).toMatchObject({ kind: 'taken', node: 'm' })
  })
  const closed = (spec: object, tolerations: object[] = []) =>
    checkNodes([{ ...node('n', {}, {}), spec } as V1Node], pod({ cpu: '1' }, { tolerations }))
  const dedicated = { key: 'dedicated', value: 'gpu', effect: 'NoSchedule' }
  test.each([
    ['a lasting taint', { taints: [dedicated] }, [], 'never', 'dedicated=gpu:NoSchedule'],
    [
      'one that it tolerates',
      { taints: [dedicated] },
      [{ key: 'dedicated', operator: 'Exists' }],
      'taken',
      '',
    ],
    [
      'one of another value',
      { taints: [dedicated] },
      [{ key: 'dedicated', value: 'cpu' }],
      'never',
      'dedicated=gpu',
    ],
    [
      'one that only prefers others',
      { taints: [{ ...dedicated, effect: 'PreferNoSchedule' }] },
      [],
      'taken',
      '',
    ],
    [
      'a cordon',
      {
        unschedulable: true,
        taints: [{ key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' }],
      },
      [],
      'closed',
      'node n is cordoned',
    ],
    [
      'a sickness',
      { taints: [{ key: 'node.kubernetes.io/disk-pressure', effect: 'NoSchedule' }] },
      [],
      'closed',
      'disk-pressure',
    ],
  ])('a node with %s', (_, spec, tolerations, kind, what) => {
    expect(closed(spec, tolerations)).toMatchObject({
      kind,
      ...(what && { what: expect.stringContaining(what) }),
    })
  })
})

test.each([
  ['500m', 0.5],
  ['4Gi', 2 ** 32],
  ['2', 2],
  ['1e3', 1000],
  ['nonsense', Number.NaN],
])('quantity %s', (text, value) => expect(parseQuantity(text)).toBe(value))

describe('a refused pod', () => {
  const quota = (requested: string, used: string) =>
    new ApiError(
      403,
      'Forbidden',
      `pods "p" is forbidden: exceeded quota: q, requested: ${requested}, used: ${used}, limited: limits.cpu=2`,
    )
  test('waits while others use the quota up', () =>
    expect(classifyPodRefusal(quota('limits.cpu=1', 'limits.cpu=2'))).toMatchObject({
      kind: 'busy',
    }))
  test('is infeasible when it alone is beyond it', () =>
    expect(classifyPodRefusal(quota('limits.cpu=3', 'limits.cpu=0'))).toMatchObject({
      kind: 'final',
      error: { name: 'InfeasibleError' },
    }))
  test('by a webhook is a failure, in its words', () =>
    expect(
      classifyPodRefusal(
        new ApiError(
          400,
          '',
          'admission webhook "policy.example" denied the request: no team label',
        ),
      ),
    ).toMatchObject({
      kind: 'final',
      error: { name: 'LaunchError', message: expect.stringContaining('no team label') },
    }))
})

describe('the pod of a load Job that a quota refuses', () => {
  const predictor = {
    spec: {
      containers: [{ resources: { requests: { cpu: '2' }, limits: { cpu: '2', memory: '1Gi' } } }],
    },
  } as never
  const refused = (requested: string, limited: string, beside = [predictor]) =>
    classifyJobRefusal(
      [
        `FailedCreate: Error creating: pods "l" is forbidden: exceeded quota: q, requested: ${requested}, used: requests.cpu=2, limited: ${limited}`,
      ],
      beside,
    )
  test.each([
    ['requests.cpu=500m', 'requests.cpu=2', 'requests.cpu'],
    ['cpu=500m', 'cpu=2', 'cpu'],
    ['limits.memory=256Mi', 'limits.memory=1Gi', 'limits.memory'],
    ['pods=1', 'pods=1', 'pods'],
  ])('%s of %s has never room beside its predictor', (requested, limited, resource) => {
    expect(refused(requested, limited)).toMatchObject({
      kind: 'final',
      error: {
        final: 'run',
        message: expect.stringContaining(`next to its predictor (${resource})`),
      },
    })
  })
  test('waits where others hold it, and ends every trial where it alone is beyond it', () => {
    expect(refused('requests.cpu=500m', 'requests.cpu=3')).toMatchObject({ kind: 'busy' })
    expect(refused('requests.cpu=500m', 'requests.cpu=2', [])).toMatchObject({ kind: 'busy' })
    expect(refused('requests.cpu=3', 'requests.cpu=2')).toMatchObject({
      error: { final: 'experiment' },
    })
  })
})

test.each([
  [
    'pods "p" is forbidden: unable to create new content in namespace serving because it is being terminated',
    /serving is being deleted/,
  ],
  [
    'namespaces "serving" not found (POST /api/v1/namespaces/serving/pods, status 404)',
    /no namespace serving/,
  ],
])(
  'a namespace that is gone ends every trial, and no configuration is to blame: %s',
  (said, message) => {
    expect(classifyPodRefusal(new ApiError(403, 'Forbidden', said))).toMatchObject({
      kind: 'final',
      error: { name: 'LaunchError', final: 'experiment', message: expect.stringMatching(message) },
    })
  },
)

test.each<[Record<string, string>, GpuScheme]>([
  [{ 'cloud.google.com/gke-gpu-partition-size': '1g.5gb' }, 'mig-single'],
  [{ 'cloud.google.com/gke-gpu-sharing-strategy': 'time-sharing' }, 'time-slicing'],
  [{ 'cloud.google.com/gke-gpu-sharing-strategy': 'mps' }, 'mps'],
])('a node of GKE whose GPUs are cut or shared offers no whole ones: %o', (labels, scheme) => {
  const accelerator = { 'cloud.google.com/gke-accelerator': 'nvidia-tesla-a100' }
  expect(
    groupNodeGpus([node('n', { ...accelerator, ...labels }, { [gpu]: '7' })], []),
  ).toMatchObject([{ gpu: 'A100-40GB', scheme }])
})

describe('which scheme gives a share', () => {
  const offers = groupNodeGpus(
    [
      node('whole', { [product]: 'Tesla-T4' }, { [gpu]: '2' }),
      node('shared', { [product]: 'Tesla-T4-SHARED' }, { [gpu]: '8' }),
      node(
        'sliced',
        { [product]: 'NVIDIA-A100-80GB-PCIe' },
        { [gpu]: '1', 'nvidia.com/mig-1g.10gb': '7' },
      ),
      node(
        'azure',
        {
          'kubernetes.azure.com/accelerator': 'nvidia',
          'node.kubernetes.io/instance-type': 'Standard_NC6s_v3',
        },
        { [gpu]: '1' },
      ),
    ],
    [],
  )
  test.each<[Record<string, string | number>, GpuScheme]>([
    [{ gpu: 'T4' }, 'nvidia'],
    [{ gpu: 'T4', gpuMemoryPercent: 25 }, 'time-slicing'],
    [{ gpu: 'A100-PCIe-80GB', migProfile: '1g.10gb' }, 'mig-mixed'],
    [{ gpu: 'A100-PCIe-80GB' }, 'nvidia'],
    [{ gpu: 'V100-PCIe' }, 'aks'],
  ])('%o by %s', (configuration, scheme) =>
    expect(chooseScheme(offers, parseResources(configuration)).scheme).toBe(scheme),
  )

  test.each<Record<string, string | number>>([
    { gpu: 'V100-PCIe', gpuMemoryPercent: 50 },
    { gpu: 'L4' },
  ])('%o: none does', (configuration) =>
    expect(() => chooseScheme(offers, parseResources(configuration))).toThrow(GpuSchemeError),
  )

  test('AKS picks a model by the sizes that have it', () => {
    const { requirements } = selectGpu(parseResources({ gpu: 'V100-PCIe' }), 'aks')
    expect(requirements).toEqual([
      {
        key: 'node.kubernetes.io/instance-type',
        operator: 'In',
        values: expect.arrayContaining(['Standard_NC6s_v3', 'Standard_NC24s_v3']),
      },
    ])
    expect(offers.find(({ scheme }) => scheme === 'aks')).toMatchObject({
      gpu: 'V100-PCIe',
      product: 'Standard_NC6s_v3',
    })
    expect(() => selectGpu(parseResources({ gpu: 'L40S' }), 'aks')).toThrow(
      /scheme aks has no name/,
    )
  })
})

describe('what depends on a scheme', () => {
  const those = (of: (scheme: GpuScheme) => boolean) => gpuSchemes.filter(of)

  test('which are asked for MiB, hold a pod to its memory, and take a whole GPU for a share', () => {
    expect(those(requestsMebibytes)).toEqual(['hami', 'volcano', 'aliyun'])
    expect(those((scheme) => limitsGpuMemory(scheme))).toEqual(['hami', 'volcano', 'dra'])
    expect(those((scheme) => occupiesWholeGpu(scheme))).toEqual(['dra'])
  })

  test.each([
    ['mps', true, true],
    ['time-slicing', false, true],
    ['capacity', false, false],
  ] as const)('dra by %s', (sharing, memory, whole) => {
    expect([limitsGpuMemory('dra', { sharing }), occupiesWholeGpu('dra', { sharing })]).toEqual([
      memory,
      whole,
    ])
  })
})
