/** How a share of a GPU is asked for on Kubernetes, by the scheme that the cluster uses. */
import { type Vendor, vendorOf } from '../../devices/catalogue.ts'
import type { Resources } from '../../resources.ts'
import { claimNeeds, type DeviceClaim, type DraOptions, deviceClaim } from './dra.ts'
import {
  aksSizes,
  gkeNames,
  hamiTypes,
  karpenterMemory,
  karpenterNames,
  mostMemoryMiB,
  productsOf,
} from './gpu-names.ts'

/** A scheme cannot give the share that a configuration holds. */
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
 * GPUs, picked by the cloud's own node labels. dra: devices claimed of NVIDIA's driver for dynamic
 * resource allocation, whole, sliced or shared.
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

/** Schemes that are asked for MiB of a GPU. */
const inMiB: ReadonlySet<GpuScheme> = new Set(['hami', 'volcano', 'aliyun'])
export const asksForMiB = (scheme: GpuScheme): boolean => inMiB.has(scheme)

/**
 * Whether a share of a GPU costs the whole: by DRA's MPS and time slices a pod has one to itself,
 * held to a part of it, and nobody else has the rest.
 */
export const holdsWholeGpu = (scheme: GpuScheme, { sharing }: DraOptions = {}): boolean =>
  scheme === 'dra' && sharing !== 'capacity'

/**
 * Whether the cluster holds a pod to its share of a GPU's memory; else the server has to itself.
 */
export const boundsMemory = (scheme: GpuScheme, { sharing = 'mps' }: DraOptions = {}): boolean =>
  scheme === 'hami' || scheme === 'volcano' || (scheme === 'dra' && sharing === 'mps')

export interface NodeRequirement {
  readonly key: string
  readonly operator: 'In' | 'Exists'
  readonly values?: readonly string[]
}

/** What goes into a pod. Quantities are strings, as the Kubernetes API has them. */
export interface GpuSelection {
  readonly limits: Readonly<Record<string, string>>
  readonly requirements: readonly NodeRequirement[]
  readonly annotations: Readonly<Record<string, string>>
  readonly schedulerName?: string
  /** In place of a limit: the container refers to a claim made of this. */
  readonly claim?: DeviceClaim
  /** What the cluster must offer for this to work. */
  readonly needs: readonly string[]
}

const none: GpuSelection = { limits: {}, requirements: [], annotations: {}, needs: [] }

/** What advertises GPUs of other vendors than NVIDIA, and where nodes say which they are. */
const vendorSchemes: Readonly<Partial<Record<Vendor, GpuScheme>>> = { amd: 'amd', intel: 'intel' }
export const vendorResources = { amd: 'amd.com/gpu', intel: 'gpu.intel.com/i915' } as const
export const vendorLabels = {
  amd: 'amd.com/gpu.product-name',
  intel: 'gpu.intel.com/product',
} as const
const wholeResource = (scheme: GpuScheme): string =>
  scheme === 'amd' || scheme === 'intel' ? vendorResources[scheme] : 'nvidia.com/gpu'

/**
 * What a pod with GPUs tolerates: nodes are often kept for such pods by a taint of the resource's
 * name.
 */
export function gpuTolerations({
  limits,
}: GpuSelection): { key: string; operator: 'Exists'; effect: 'NoSchedule' }[] {
  const ofVendor = Object.values(vendorResources).filter((name) => name in limits)
  return (ofVendor.length > 0 ? ofVendor : ['nvidia.com/gpu']).map((key) => ({
    key,
    operator: 'Exists',
    effect: 'NoSchedule',
  }))
}

/** The scheme that fits a share where the user names none. */
export function defaultScheme(resources: Resources): GpuScheme | undefined {
  if (!resources.gpu) return undefined
  const ofVendor = vendorSchemes[vendorOf(resources.gpu) ?? 'nvidia']
  if (ofVendor) return ofVendor
  if (resources.migProfile) return 'mig-mixed'
  return resources.gpuShare < 1 ? 'time-slicing' : 'nvidia'
}

/**
 * The pod's part of a GPU share under a scheme.
 * @param dra for scheme dra
 * @throws GpuSchemeError when the scheme cannot give that share.
 */
export function gpuSelection(
  resources: Resources,
  scheme: GpuScheme | undefined = defaultScheme(resources),
  dra: DraOptions = {},
): GpuSelection {
  const { gpu } = resources
  if (!gpu || !scheme) return none
  refuseOtherVendor(gpu, scheme)
  return { ...none, ...selections[scheme]({ ...resources, gpu, scheme, dra }) }
}

/** @throws GpuSchemeError for a scheme of another vendor's GPUs */
function refuseOtherVendor(gpu: string, scheme: GpuScheme): void {
  const vendor = vendorOf(gpu)
  if (vendor === undefined) return
  const fits = vendorSchemes[vendor]
  if (fits === undefined ? !Object.values(vendorSchemes).includes(scheme) : scheme === fits) return
  throw new GpuSchemeError(
    `scheme ${scheme} does not support ${gpu}, a GPU of another vendor`,
    `leave --gpu-scheme out, or use ${fits ?? 'nvidia'}`,
  )
}

/** What is asked of a scheme. */
interface Share extends Resources {
  readonly gpu: string
  readonly scheme: GpuScheme
  readonly dra: DraOptions
}

const selections: Readonly<Record<GpuScheme, (share: Share) => Partial<GpuSelection>>> = {
  nvidia: (share) => wholeGpus(share, product(productsOf(share.gpu))),
  gke: (share) => wholeGpus(share, named(share, gkeNames, 'cloud.google.com/gke-accelerator')),
  karpenter: (share) => {
    const whole = wholeGpus(
      share,
      named(share, karpenterNames, 'karpenter.k8s.aws/instance-gpu-name'),
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
    return { ...whole, requirements: [...(whole.requirements ?? []), ...sized] }
  },
  aks: (share) => wholeGpus(share, named(share, aksSizes, 'node.kubernetes.io/instance-type')),
  amd: (share) => ({
    ...wholeGpus(share, { key: vendorLabels.amd, operator: 'In', values: productsOf(share.gpu) }),
    needs: ["AMD's device plugin and node labeller"],
  }),
  intel: (share) => ({
    ...wholeGpus(share, { key: vendorLabels.intel, operator: 'In', values: productsOf(share.gpu) }),
    needs: [
      `Intel's GPU device plugin, and nodes labelled ${vendorLabels.intel}=${productsOf(share.gpu)[0]}`,
    ],
  }),
  'time-slicing': sharedByPlugin,
  mps: sharedByPlugin,
  'mig-mixed': migSlice,
  'mig-single': migSlice,
  hami: (share) => ({
    limits: {
      'nvidia.com/gpu': String(share.gpus),
      'nvidia.com/gpumem': String(memoryMiBOf(share)),
      'nvidia.com/gpucores': corePercentOf(share),
    },
    annotations: hamiTypes(share.gpu),
    needs: ['HAMi'],
  }),
  volcano: (share) => ({
    limits: {
      'volcano.sh/vgpu-number': String(share.gpus),
      'volcano.sh/vgpu-memory': String(memoryMiBOf(share)),
      'volcano.sh/vgpu-cores': corePercentOf(share),
    },
    requirements: [product(productsOf(share.gpu))],
    schedulerName: 'volcano',
    needs: ['Volcano with its vGPU device plugin'],
  }),
  aliyun: (share) => ({
    limits: { 'aliyun.com/gpu-mem': String(Math.max(1, Math.floor(memoryMiBOf(share) / 1024))) },
    requirements: [product(productsOf(share.gpu))],
    needs: ['the gpushare scheduler extender, which counts whole GiB'],
  }),
  dra: (share) => {
    const claim = deviceClaim(
      { ...share, gpuMemoryMiB: memoryMiBOf(share) },
      productsOf(share.gpu),
      share.dra,
    )
    return { claim, needs: claimNeeds(claim) }
  },
}

/** Never more than the board has, and so that its parts come to no more either. */
const memoryMiBOf = ({ gpu, gpuMemoryMiB = 0, gpuShare }: Share): number =>
  Math.floor(Math.min(gpuMemoryMiB, mostMemoryMiB(gpu) * gpuShare))
const corePercentOf = ({ gpuShare }: Share): string => String(Math.round(gpuShare * 100))

const product = (values: readonly string[]): NodeRequirement => ({
  key: 'nvidia.com/gpu.product',
  operator: 'In',
  values,
})

/** @throws GpuSchemeError for a GPU that a cloud has no name for */
function named(
  { gpu, scheme }: Share,
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

function wholeGpus(
  { gpu, gpus, gpuShare, scheme }: Share,
  label: NodeRequirement,
): Partial<GpuSelection> {
  if (gpuShare < 1) {
    throw new GpuSchemeError(
      `scheme ${scheme} assigns whole GPUs, but the configuration uses ${Math.round(gpuShare * 100)} % of a ${gpu}`,
      'choose --gpu-scheme time-slicing, mps, mig-mixed, hami, volcano, aliyun or dra',
    )
  }
  return { limits: { [wholeResource(scheme)]: String(gpus) }, requirements: [label] }
}

/** Replicas of a GPU that NVIDIA's device plugin offers, by turns or by MPS. */
function sharedByPlugin({ gpu, gpuShare, migProfile, scheme }: Share): Partial<GpuSelection> {
  const shared = gpuShare < 1 && !migProfile
  const replicas = Math.floor(1 / gpuShare + 1e-9)
  return {
    // More than one replica is not more share: always 1.
    limits: { 'nvidia.com/gpu': '1' },
    requirements: [
      product(productsOf(gpu).flatMap((p) => [`${p}-SHARED`, p])),
      ...(shared
        ? [{ key: 'nvidia.com/gpu.sharing-strategy', operator: 'In', values: [scheme] } as const]
        : []),
    ],
    needs: shared
      ? [
          `the device plugin must share each GPU by ${scheme} with ${replicas} replicas; only the server's own limit bounds its memory`,
        ]
      : [],
  }
}

function migSlice({ gpu, gpus, migProfile, scheme }: Share): Partial<GpuSelection> {
  if (!migProfile)
    throw new GpuSchemeError(
      `scheme ${scheme} needs a MIG profile, but the configuration has none`,
      'tune migProfile, or choose another --gpu-scheme',
    )
  const mixed = scheme === 'mig-mixed'
  // A '+' of a profile's name (1g.5gb+me) is a '.' in the resource's.
  const slice = migProfile.replace('+', '.')
  return {
    limits: { [mixed ? `nvidia.com/mig-${slice}` : 'nvidia.com/gpu']: String(gpus) },
    requirements: [
      product(mixed ? productsOf(gpu) : productsOf(gpu).map((p) => `${p}-MIG-${slice}`)),
    ],
    needs: [`nodes with MIG strategy ${mixed ? 'mixed' : 'single'} and ${migProfile} slices`],
  }
}
