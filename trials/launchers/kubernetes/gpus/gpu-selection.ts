/** Requests a share of a GPU on Kubernetes, by the scheme of the cluster. */
import { findVendor, type Vendor } from '../../../devices/catalogue.ts'
import type { Resources } from '../../../resources.ts'
import {
  createDeviceClaim,
  type DeviceClaim,
  type DraOptions,
  listClaimRequirements,
} from './dra.ts'
import {
  aksSizes,
  createHamiTypes,
  getReportedMemoryMiB,
  gkeNames,
  karpenterMemory,
  karpenterNames,
  listProducts,
} from './gpu-names.ts'

/** A scheme cannot provide the share of a configuration. */
export class GpuSchemeError extends Error {
  constructor(
    message: string,
    readonly hint: string,
  ) {
    super(message)
    this.name = 'GpuSchemeError'
  }
}

/**
 * nvidia: whole GPUs of NVIDIA's device plugin. time-slicing and mps: its shared replicas.
 * mig-mixed, mig-single: its MIG strategies. amd, intel: whole GPUs of these vendors' device
 * plugins. hami, volcano, aliyun: memory shares of these schedulers. gke, karpenter, aks: whole
 * GPUs, selected by the cloud's node labels. dra: devices claimed from NVIDIA's driver for dynamic
 * resource allocation, whole, partitioned or shared.
 */
export const gpuSchemes = [
  'nvidia',
  'time-slicing',
  'mps',
  'mig-mixed',
  'mig-single',
  'hami',
  'volcano',
  'aliyun',
  'gke',
  'karpenter',
  'aks',
  'amd',
  'intel',
  'dra',
] as const
export type GpuScheme = (typeof gpuSchemes)[number]

/** Schemes that request GPU memory in MiB. */
const mebibyteSchemes: ReadonlySet<GpuScheme> = new Set(['hami', 'volcano', 'aliyun'])
export const requestsMebibytes = (scheme: GpuScheme): boolean => mebibyteSchemes.has(scheme)

/**
 * Whether a share costs a whole GPU: with DRA's MPS and time-slicing, a pod has a dedicated GPU,
 * and nobody can use the rest.
 */
export const occupiesWholeGpu = (scheme: GpuScheme, { sharing }: DraOptions = {}): boolean =>
  scheme === 'dra' && sharing !== 'capacity'

/** Whether the cluster enforces a pod's share of GPU memory; otherwise the server must. */
export const limitsGpuMemory = (scheme: GpuScheme, { sharing = 'mps' }: DraOptions = {}): boolean =>
  scheme === 'hami' || scheme === 'volcano' || (scheme === 'dra' && sharing === 'mps')

export interface NodeRequirement {
  readonly key: string
  readonly operator: 'In' | 'Exists'
  readonly values?: readonly string[]
}

/** Fields of a pod that select a GPU. Quantities are strings, as in the Kubernetes API. */
export interface GpuSelection {
  readonly limits: Readonly<Record<string, string>>
  readonly requirements: readonly NodeRequirement[]
  readonly annotations: Readonly<Record<string, string>>
  readonly schedulerName?: string
  /** In place of a limit: the claim that the container refers to. */
  readonly claim?: DeviceClaim
  /** What the cluster must provide. */
  readonly needs: readonly string[]
}

const noSelection: GpuSelection = { limits: {}, requirements: [], annotations: {}, needs: [] }

/** Schemes, resources and product labels of vendors other than NVIDIA. */
const vendorSchemes: Readonly<Partial<Record<Vendor, GpuScheme>>> = { amd: 'amd', intel: 'intel' }
export const vendorResources = { amd: 'amd.com/gpu', intel: 'gpu.intel.com/i915' } as const
export const vendorLabels = {
  amd: 'amd.com/gpu.product-name',
  intel: 'gpu.intel.com/product',
} as const
const getWholeGpuResource = (scheme: GpuScheme): string =>
  scheme === 'amd' || scheme === 'intel' ? vendorResources[scheme] : 'nvidia.com/gpu'

/** Tolerations of pods with GPUs: GPU nodes often have a taint with the resource's name. */
export function createGpuTolerations({
  limits,
}: GpuSelection): { key: string; operator: 'Exists'; effect: 'NoSchedule' }[] {
  const vendorKeys = Object.values(vendorResources).filter((name) => name in limits)
  return (vendorKeys.length > 0 ? vendorKeys : ['nvidia.com/gpu']).map((key) => ({
    key,
    operator: 'Exists',
    effect: 'NoSchedule',
  }))
}

/** Chooses the default scheme for a share. */
export function chooseDefaultScheme(resources: Resources): GpuScheme | undefined {
  if (!resources.gpu) return undefined
  const vendorScheme = vendorSchemes[findVendor(resources.gpu) ?? 'nvidia']
  if (vendorScheme) return vendorScheme
  if (resources.migProfile) return 'mig-mixed'
  return resources.gpuShare < 1 ? 'time-slicing' : 'nvidia'
}

/**
 * Selects the pod's fields for a GPU share under a scheme.
 * @param dra for scheme dra
 * @throws GpuSchemeError if the scheme cannot provide that share
 */
export function selectGpu(
  resources: Resources,
  scheme: GpuScheme | undefined = chooseDefaultScheme(resources),
  dra: DraOptions = {},
): GpuSelection {
  const { gpu } = resources
  if (!gpu || !scheme) return noSelection
  checkVendor(gpu, scheme)
  return { ...noSelection, ...selections[scheme]({ ...resources, gpu, scheme, dra }) }
}

/** @throws GpuSchemeError for a scheme of another vendor's GPUs */
function checkVendor(gpu: string, scheme: GpuScheme): void {
  const vendor = findVendor(gpu)
  if (vendor === undefined) return
  const vendorScheme = vendorSchemes[vendor]
  if (
    vendorScheme === undefined
      ? !Object.values(vendorSchemes).includes(scheme)
      : scheme === vendorScheme
  )
    return
  throw new GpuSchemeError(
    `scheme ${scheme} does not support ${gpu}, a GPU of another vendor`,
    `leave --gpu-scheme out, or use ${vendorScheme ?? 'nvidia'}`,
  )
}

/** A share with its scheme. */
interface ShareRequest extends Resources {
  readonly gpu: string
  readonly scheme: GpuScheme
  readonly dra: DraOptions
}

const selections: Readonly<Record<GpuScheme, (share: ShareRequest) => Partial<GpuSelection>>> = {
  nvidia: (share) => selectWholeGpus(share, requireProduct(listProducts(share.gpu))),
  gke: (share) =>
    selectWholeGpus(share, requireCloudName(share, gkeNames, 'cloud.google.com/gke-accelerator')),
  karpenter: (share) => {
    const wholeGpuSelection = selectWholeGpus(
      share,
      requireCloudName(share, karpenterNames, 'karpenter.k8s.aws/instance-gpu-name'),
    )
    const memory = karpenterMemory[share.gpu]
    const sized =
      memory === undefined
        ? []
        : [
            {
              key: 'karpenter.k8s.aws/instance-gpu-memory',
              operator: 'In',
              values: [memory],
            } as const,
          ]
    return {
      ...wholeGpuSelection,
      requirements: [...(wholeGpuSelection.requirements ?? []), ...sized],
    }
  },
  aks: (share) =>
    selectWholeGpus(share, requireCloudName(share, aksSizes, 'node.kubernetes.io/instance-type')),
  amd: (share) => ({
    ...selectWholeGpus(share, {
      key: vendorLabels.amd,
      operator: 'In',
      values: listProducts(share.gpu),
    }),
    needs: ["AMD's device plugin and node labeller"],
  }),
  intel: (share) => ({
    ...selectWholeGpus(share, {
      key: vendorLabels.intel,
      operator: 'In',
      values: listProducts(share.gpu),
    }),
    needs: [
      `Intel's GPU device plugin, and nodes labelled ${vendorLabels.intel}=${listProducts(share.gpu)[0]}`,
    ],
  }),
  'time-slicing': selectReplica,
  mps: selectReplica,
  'mig-mixed': selectMigSlice,
  'mig-single': selectMigSlice,
  hami: (share) => ({
    limits: {
      'nvidia.com/gpu': String(share.gpus),
      'nvidia.com/gpumem': String(limitMemoryMiB(share)),
      'nvidia.com/gpucores': formatCorePercent(share),
    },
    annotations: createHamiTypes(share.gpu),
    needs: ['HAMi'],
  }),
  volcano: (share) => ({
    limits: {
      'volcano.sh/vgpu-number': String(share.gpus),
      'volcano.sh/vgpu-memory': String(limitMemoryMiB(share)),
      'volcano.sh/vgpu-cores': formatCorePercent(share),
    },
    requirements: [requireProduct(listProducts(share.gpu))],
    schedulerName: 'volcano',
    needs: ['Volcano with its vGPU device plugin'],
  }),
  aliyun: (share) => ({
    limits: { 'aliyun.com/gpu-mem': String(Math.max(1, Math.floor(limitMemoryMiB(share) / 1024))) },
    requirements: [requireProduct(listProducts(share.gpu))],
    needs: ['the gpushare scheduler extender, which counts whole GiB'],
  }),
  dra: (share) => {
    const claim = createDeviceClaim(
      { ...share, gpuMemoryMiB: limitMemoryMiB(share) },
      listProducts(share.gpu),
      share.dra,
    )
    return { claim, needs: listClaimRequirements(claim) }
  },
}

/** Limits the memory of a share, so that all shares add up to no more than the board. */
const limitMemoryMiB = ({ gpu, gpuMemoryMiB = 0, gpuShare }: ShareRequest): number =>
  Math.floor(Math.min(gpuMemoryMiB, getReportedMemoryMiB(gpu) * gpuShare))
const formatCorePercent = ({ gpuShare }: ShareRequest): string => String(Math.round(gpuShare * 100))

const requireProduct = (values: readonly string[]): NodeRequirement => ({
  key: 'nvidia.com/gpu.product',
  operator: 'In',
  values,
})

/** @throws GpuSchemeError if the cloud has no name for the GPU */
function requireCloudName(
  { gpu, scheme }: ShareRequest,
  names: Readonly<Record<string, string | readonly string[]>>,
  key: string,
): NodeRequirement {
  const name = names[gpu]
  if (!name)
    throw new GpuSchemeError(
      `scheme ${scheme} has no name for ${gpu}`,
      `it knows ${Object.keys(names).join(', ')}`,
    )
  return { key, operator: 'In', values: [name].flat() }
}

function selectWholeGpus(
  { gpu, gpus, gpuShare, scheme }: ShareRequest,
  label: NodeRequirement,
): Partial<GpuSelection> {
  if (gpuShare < 1) {
    throw new GpuSchemeError(
      `scheme ${scheme} assigns whole GPUs, but the configuration uses ${Math.round(gpuShare * 100)} % of a ${gpu}`,
      'choose --gpu-scheme time-slicing, mps, mig-mixed, hami, volcano, aliyun or dra',
    )
  }
  return { limits: { [getWholeGpuResource(scheme)]: String(gpus) }, requirements: [label] }
}

/** Selects a replica of a GPU that NVIDIA's device plugin shares, by time-slicing or MPS. */
function selectReplica({ gpu, gpuShare, migProfile, scheme }: ShareRequest): Partial<GpuSelection> {
  const isShared = gpuShare < 1 && !migProfile
  const replicas = Math.floor(1 / gpuShare + 1e-9)
  return {
    // More replicas do not increase the share: request one.
    limits: { 'nvidia.com/gpu': '1' },
    requirements: [
      requireProduct(listProducts(gpu).flatMap((p) => [`${p}-SHARED`, p])),
      ...(isShared
        ? [{ key: 'nvidia.com/gpu.sharing-strategy', operator: 'In', values: [scheme] } as const]
        : []),
    ],
    needs: isShared
      ? [
          `the device plugin must share each GPU by ${scheme} with ${replicas} replicas; only the server's own limit bounds its memory`,
        ]
      : [],
  }
}

function selectMigSlice({ gpu, gpus, migProfile, scheme }: ShareRequest): Partial<GpuSelection> {
  if (!migProfile)
    throw new GpuSchemeError(
      `scheme ${scheme} needs a MIG profile, but the configuration has none`,
      'tune migProfile, or choose another --gpu-scheme',
    )
  const isMixed = scheme === 'mig-mixed'
  // The resource name has '.' for the '+' of a profile (1g.5gb+me).
  const slice = migProfile.replace('+', '.')
  return {
    limits: { [isMixed ? `nvidia.com/mig-${slice}` : 'nvidia.com/gpu']: String(gpus) },
    requirements: [
      requireProduct(
        isMixed ? listProducts(gpu) : listProducts(gpu).map((p) => `${p}-MIG-${slice}`),
      ),
    ],
    needs: [`nodes with MIG strategy ${isMixed ? 'mixed' : 'single'} and ${migProfile} slices`],
  }
}
