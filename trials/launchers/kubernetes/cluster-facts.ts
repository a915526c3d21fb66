/** What a cluster offers: nodes, GPU models, how they are shared, and how many are free. */

import type { V1Node, V1Pod } from '@kubernetes/client-node'
import { grouped } from '../../grouped.ts'
import type { Resources } from '../../resources.ts'
import { type Api, ApiError } from './api.ts'
import { devicesOf, heldDevices, type ResourceSlice, type SliceDevice } from './device-slices.ts'
import { type DraOptions, type DraVersion, draDriver, draVersionOf } from './dra.ts'
import { quantity } from './failures.ts'
import { gpuOfProduct, isProductOf, karpenterProduct } from './gpu-names.ts'
import { type GpuScheme, GpuSchemeError, vendorLabels, vendorResources } from './gpu-selection.ts'
import { migFaults } from './mig-config.ts'

/** GPUs of one product, shared in one way, of all nodes together. */
export interface ClusterGpu {
  /** As the nodes are labelled, e.g. 'NVIDIA-A100-SXM4-40GB'. */
  readonly product: string
  /** Catalogue name; undefined: not in the catalogue. */
  readonly gpu?: string
  readonly scheme: GpuScheme
  readonly nodes: number
  /** Of one GPU, as the driver tells it, MiB; the least of its nodes. Absent: nobody says. */
  readonly memoryMiB?: number
  /** By DRA: several claims may each hold a part of one. */
  readonly divisible?: boolean
  /**
   * Resource (by DRA: device class, and the profile of slices) → how many the nodes have, and how
   * many no pod holds; free is undefined where pods of other namespaces may not be seen.
   */
  readonly resources: Readonly<Record<string, { readonly total: number; readonly free?: number }>>
}

export interface ClusterFacts {
  readonly server: string
  readonly version: string
  readonly namespace: string
  readonly nodes: number
  readonly cpuCores: number
  readonly memoryMiB: number
  readonly gpus: readonly ClusterGpu[]
  /** Absent: the server has no resource.k8s.io. */
  readonly dra?: { readonly version: DraVersion; readonly deviceClasses: readonly string[] }
  /** Nodes whose GPUs are not cut as they were told to be. */
  readonly migFaults?: readonly string[]
  /** What could not be looked at, and why. */
  readonly problems: readonly string[]
}

/** @throws ApiError where the cluster does not answer. Without leave to see nodes or pods it says so in `problems`. */
export async function inspectCluster(api: Api): Promise<ClusterFacts> {
  const { gitVersion } = await api.request<{ gitVersion: string }>('GET', '/version')
  const problems: string[] = []
  const list = async <T>(path: string): Promise<readonly T[] | undefined> => {
    try {
      return (await api.request<{ items: T[] }>('GET', path)).items
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 403) throw error
      problems.push(error.message)
      return undefined
    }
  }
  const nodes = (await list<V1Node>('/api/v1/nodes')) ?? []
  const pods = nodes.some(hasGpu) ? await list<V1Pod>('/api/v1/pods') : []
  const version = await draVersionOf(api)
  const classes =
    version &&
    (await list<{ metadata: { name: string } }>(`/apis/resource.k8s.io/${version}/deviceclasses`))
  const devices = version
    ? devicesOf(
        (await list<ResourceSlice>(`/apis/resource.k8s.io/${version}/resourceslices`)) ?? [],
      )
    : []
  const held = version && devices.length > 0 ? await heldDevices(api, version) : undefined
  const sum = (resource: string) =>
    nodes.reduce((total, { status }) => total + quantity(status?.allocatable?.[resource] ?? '0'), 0)
  return {
    server: api.server,
    version: gitVersion,
    namespace: api.namespace,
    nodes: nodes.length,
    cpuCores: sum('cpu'),
    memoryMiB: Math.round(sum('memory') / 2 ** 20),
    gpus: [...gpusOf(nodes, pods), ...claimableGpus(devices, held)],
    ...(version && {
      dra: { version, deviceClasses: (classes ?? []).map(({ metadata }) => metadata.name) },
    }),
    migFaults: migFaults(nodes),
    problems,
  }
}

/** @param held ids of the devices that claims hold; undefined: they may not be seen */
function claimableGpus(
  devices: readonly SliceDevice[],
  held: ReadonlySet<string> | undefined,
): ClusterGpu[] {
  return [...grouped(devices, ({ product, divisible }) => `${product}\n${divisible}`).values()].map(
    (members): ClusterGpu => {
      const { product, divisible } = members[0]!
      const byResource = grouped(members, ({ migProfile }) =>
        migProfile === undefined ? draDriver : `mig.nvidia.com ${migProfile}`,
      )
      const resources = [...byResource].map(([name, all]) => {
        return [
          name,
          { total: all.length, free: held && all.filter(({ id }) => !held.has(id)).length },
        ] as const
      })
      return {
        product,
        gpu: gpuOfProduct(product),
        scheme: 'dra',
        nodes: new Set(members.map(({ node }) => node)).size,
        ...leastOf(
          members.flatMap(({ migProfile, memoryMiB }) =>
            migProfile === undefined ? [memoryMiB] : [],
          ),
        ),
        ...(divisible && { divisible }),
        resources: Object.fromEntries(resources),
      }
    },
  )
}

/**
 * Whole GPUs first from those that nobody shares; shares from what holds a pod to its share, time
 * slices last.
 */
const wholeFirst: readonly GpuScheme[] = [
  'nvidia',
  'amd',
  'intel',
  'gke',
  'karpenter',
  'aks',
  'dra',
  'hami',
  'volcano',
  'aliyun',
  'mps',
  'time-slicing',
]
const sharedFirst: readonly GpuScheme[] = [
  'hami',
  'volcano',
  'aliyun',
  'mps',
  'dra',
  'time-slicing',
]
const slicedFirst: readonly GpuScheme[] = ['mig-mixed', 'mig-single', 'dra']

interface GpuChoice {
  readonly scheme: GpuScheme
  readonly dra: DraOptions
}

/**
 * How a cluster can give a share: the scheme of its nodes with that GPU that fits it best, and
 * DRA's own options.
 * @throws GpuSchemeError where none of them can
 */
export function schemeFor(
  gpus: readonly ClusterGpu[],
  asked: Resources,
  dra: DraOptions = {},
): GpuChoice {
  const order = asked.migProfile ? slicedFirst : asked.gpuShare < 1 ? sharedFirst : wholeFirst
  const offers = gpus.filter(({ product }) => isProductOf(product, asked.gpu!))
  const fits = (offer: ClusterGpu, scheme: GpuScheme) => {
    // Nodes of the mixed strategy may have GPUs that are not sliced.
    if (offer.scheme === 'mig-mixed' && scheme === 'nvidia')
      return 'nvidia.com/gpu' in offer.resources
    if (offer.scheme === 'dra' && asked.migProfile)
      return scheme === 'dra' && `mig.nvidia.com ${asked.migProfile}` in offer.resources
    return offer.scheme === scheme
  }
  const scheme = order.find((one) => offers.some((offer) => fits(offer, one)))
  if (scheme === undefined) {
    const what = asked.migProfile
      ? `the slice ${asked.migProfile}`
      : asked.gpuShare < 1
        ? `${Math.round(asked.gpuShare * 100)} % of a GPU`
        : 'one'
    const how = [...new Set(offers.map((offer) => offer.scheme))].join(', ') || 'none'
    throw new GpuSchemeError(
      `the cluster shares its ${asked.gpu} by ${how}, which cannot provide ${what}`,
      'run tune doctor --backend kubernetes for details',
    )
  }
  const divisible = offers.some((offer) => offer.scheme === 'dra' && offer.divisible)
  return { scheme, dra: { ...(divisible && { sharing: 'capacity' }), ...dra } }
}

const gpuResource =
  /^(nvidia\.com\/(gpu|mig-|gpumem|gpucores)|volcano\.sh\/vgpu-|aliyun\.com\/gpu-|amd\.com\/gpu$|gpu\.intel\.com\/i915$)/
const resourcesOfNode = ({ status }: V1Node) =>
  Object.entries(status?.allocatable ?? {}).filter(
    ([name, amount]) => gpuResource.test(name) && quantity(amount) > 0,
  )
const hasGpu = (node: V1Node): boolean => resourcesOfNode(node).length > 0

/** @param pods of the whole cluster; undefined: they may not be seen */
export function gpusOf(nodes: readonly V1Node[], pods: readonly V1Pod[] | undefined): ClusterGpu[] {
  return [
    ...grouped(nodes.filter(hasGpu), (node) => `${productOf(node)}\n${schemeOf(node)}`).values(),
  ].map((members) => {
    const product = productOf(members[0]!)
    const names = new Set(members.flatMap((node) => resourcesOfNode(node).map(([name]) => name)))
    const on = new Set(members.map(({ metadata }) => metadata!.name!))
    const here = pods?.filter(
      ({ spec, status }) =>
        on.has(spec?.nodeName ?? '') && !['Succeeded', 'Failed'].includes(status?.phase ?? ''),
    )
    const resources = [...names].sort().map((name) => {
      const total = members.reduce(
        (all, { status }) => all + quantity(status?.allocatable?.[name] ?? '0'),
        0,
      )
      return [
        name,
        { total, free: here && total - here.reduce((all, pod) => all + heldBy(pod, name), 0) },
      ] as const
    })
    return {
      product,
      gpu: gpuOfProduct(product),
      scheme: schemeOf(members[0]!),
      nodes: members.length,
      ...leastOf(members.map(memoryOf)),
      resources: Object.fromEntries(resources),
    }
  })
}

const leastOf = (memories: readonly (number | undefined)[]): { readonly memoryMiB?: number } => {
  const known = memories.filter((memory) => memory !== undefined)
  return known.length > 0 ? { memoryMiB: Math.min(...known) } : {}
}

/**
 * Of one GPU of a node: GPU feature discovery's label, else what HAMi and Volcano register of it,
 * as JSON or in commas.
 */
function memoryOf({ metadata }: V1Node): number | undefined {
  const { labels = {}, annotations = {} } = metadata ?? {}
  const registered =
    annotations['hami.io/node-nvidia-register'] ??
    annotations['volcano.sh/node-vgpu-register'] ??
    ''
  const found = [
    labels['nvidia.com/gpu.memory'],
    ...[...registered.matchAll(/"devmem":\s*(\d+)/g)].map(([, memory]) => memory),
    ...[...registered.matchAll(/(?:^|:)GPU-[^,:]+,\d+,(\d+),/g)].map(([, memory]) => memory),
  ].map(Number)
  const memories = found.filter((memory) => memory > 0)
  return memories.length > 0 ? Math.min(...memories) : undefined
}

/** MiB of one GPU of a model on the nodes that have it; undefined: nobody says. */
export function memoryOnNodes(gpus: readonly ClusterGpu[], gpu: string): number | undefined {
  return leastOf(
    gpus.filter(({ product }) => isProductOf(product, gpu)).map(({ memoryMiB }) => memoryMiB),
  ).memoryMiB
}

const heldBy = ({ spec }: V1Pod, resource: string): number =>
  (spec?.containers ?? []).reduce(
    (all, { resources }) => all + quantity(resources?.limits?.[resource] ?? '0'),
    0,
  )

/**
 * GPU feature discovery's label, or the cloud's; AKS's own says no model, but the size of the
 * machine does.
 */
const productOf = ({ metadata }: V1Node): string => {
  const labels = metadata?.labels ?? {}
  return (
    labels['nvidia.com/gpu.product'] ??
    labels[vendorLabels.amd] ??
    labels[vendorLabels.intel] ??
    labels['cloud.google.com/gke-accelerator'] ??
    (labels['karpenter.k8s.aws/instance-gpu-name'] &&
      karpenterProduct(
        labels['karpenter.k8s.aws/instance-gpu-name'],
        labels['karpenter.k8s.aws/instance-gpu-memory'],
      )) ??
    ('kubernetes.azure.com/accelerator' in labels
      ? labels['node.kubernetes.io/instance-type']
      : undefined) ??
    labels['kubernetes.azure.com/accelerator'] ??
    'unlabelled'
  )
}

/** How a node's GPUs are to be asked for, by what it advertises. */
function schemeOf(node: V1Node): GpuScheme {
  const labels = node.metadata?.labels ?? {}
  const names = resourcesOfNode(node).map(([name]) => name)
  const has = (prefix: string) => names.some((name) => name.startsWith(prefix))
  if (has('volcano.sh/vgpu')) return 'volcano'
  if (has('aliyun.com/gpu-mem')) return 'aliyun'
  // HAMi advertises only nvidia.com/gpu, and registers devices in an annotation.
  if (
    has('nvidia.com/gpumem') ||
    'hami.io/node-nvidia-register' in (node.metadata?.annotations ?? {})
  )
    return 'hami'
  if (has('nvidia.com/mig-')) return 'mig-mixed'
  if (has(vendorResources.amd)) return 'amd'
  if (has(vendorResources.intel)) return 'intel'
  const product = labels['nvidia.com/gpu.product']
  if (product?.includes('-MIG-')) return 'mig-single'
  const sharing = labels['nvidia.com/gpu.sharing-strategy']
  if (sharing === 'mps') return 'mps'
  if (sharing === 'time-slicing' || product?.endsWith('-SHARED')) return 'time-slicing'
  if (product !== undefined) return 'nvidia'
  if ('cloud.google.com/gke-accelerator' in labels) return gkeScheme(labels)
  if ('karpenter.k8s.aws/instance-gpu-name' in labels) return 'karpenter'
  if ('kubernetes.azure.com/accelerator' in labels) return 'aks'
  return 'nvidia'
}

/** Each GPU of a GKE node pool may be cut into slices, or offered to several pods. */
function gkeScheme(labels: Readonly<Record<string, string>>): GpuScheme {
  if ('cloud.google.com/gke-gpu-partition-size' in labels) return 'mig-single'
  const sharing = labels['cloud.google.com/gke-gpu-sharing-strategy']
  if (sharing === 'mps') return 'mps'
  return sharing === undefined ? 'gke' : 'time-slicing'
}
