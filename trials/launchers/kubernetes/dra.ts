/**
 * GPUs by dynamic resource allocation (resource.k8s.io): a claim on devices that a driver
 * publishes, in place of counted resources. Attributes and configuration are those of NVIDIA's
 * driver (kubernetes-sigs/dra-driver-nvidia-gpu: deviceinfo.go, api/nvidia.com/resource/v1beta1).
 */
import type { Resources } from '../../resources.ts'
import { type Api, ApiError } from './api.ts'

type Json = { [key: string]: unknown }

/** Newest first. v1 is Kubernetes 1.34, v1beta2 1.33, v1beta1 1.32. */
export const draVersions = ['v1', 'v1beta2', 'v1beta1'] as const
export type DraVersion = (typeof draVersions)[number]

/**
 * How a part of a GPU is asked for. mps: a GPU of its own, held to the share by MPS. time-slicing:
 * a GPU of its own with short time slices. capacity: memory of a GPU that other pods may claim the
 * rest of, where the driver publishes it so (allowMultipleAllocations).
 */
export const draSharings = ['mps', 'time-slicing', 'capacity'] as const
type DraSharing = (typeof draSharings)[number]

export interface DraOptions {
  /** Default gpu.nvidia.com, and mig.nvidia.com for slices. */
  readonly deviceClass?: string
  /** Default mps. */
  readonly sharing?: DraSharing
}

/** What a pod claims: devices of a class that meet every selector. */
export interface DeviceClaim {
  readonly deviceClass: string
  readonly count: number
  /** In the Common Expression Language. */
  readonly selectors: readonly string[]
  /** Of the part that is claimed or that sharing holds the pod to; absent: whole devices. */
  readonly memoryMiB?: number
  /** Memory is claimed as a part of a device that others may claim from too. */
  readonly byCapacity: boolean
  /** The driver's own configuration of how the device is shared. */
  readonly config?: Json
  /**
   * The same as the selectors in values: product names, dashes for blanks, and the profile of a
   * slice.
   */
  readonly products: readonly string[]
  readonly migProfile?: string
}

export const draDriver = 'gpu.nvidia.com'
/** The name that containers refer to a pod's claim by. */
export const claimName = 'tuned-gpu'
const requestName = 'gpu'

/** @param products values of the label nvidia.com/gpu.product, which are the driver's product names with dashes for blanks */
export function deviceClaim(
  resources: Resources,
  products: readonly string[],
  options: DraOptions = {},
): DeviceClaim {
  const { gpus, gpuShare, gpuMemoryMiB = 0, migProfile } = resources
  const { sharing = 'mps' } = options
  const shared = gpuShare < 1 && !migProfile
  const memoryMiB = Math.round(gpuMemoryMiB)
  const attribute = (name: string) => `device.attributes['${draDriver}'].${name}`
  return {
    deviceClass: options.deviceClass ?? (migProfile ? 'mig.nvidia.com' : draDriver),
    count: gpus,
    selectors: [
      `${attribute('productName')}.matches('^(${products.map(pattern).join('|')})$')`,
      ...(migProfile ? [`${attribute('profile')} == '${migProfile}'`] : []),
    ],
    ...(shared && { memoryMiB }),
    byCapacity: shared && sharing === 'capacity',
    ...(shared && sharing !== 'capacity' && { config: gpuConfig(sharing, gpuShare, memoryMiB) }),
    products,
    ...(migProfile && { migProfile }),
  }
}

/**
 * A label value as a regular expression (RE2) of names: each dash may stand for a blank. Needs no
 * backslash, which CEL would read first.
 */
const pattern = (product: string): string =>
  product.replace(/[.+]/g, '[$&]').replaceAll('-', '[ -]')

const gpuConfig = (sharing: 'mps' | 'time-slicing', share: number, memoryMiB: number): Json =>
  driverConfig(
    sharing === 'mps'
      ? {
          strategy: 'MPS',
          mpsConfig: {
            defaultActiveThreadPercentage: Math.round(share * 100),
            defaultPinnedDeviceMemoryLimit: `${memoryMiB}Mi`,
          },
        }
      : { strategy: 'TimeSlicing', timeSlicingConfig: { interval: 'Short' } },
  )

const driverConfig = (sharing: Json): Json => ({
  apiVersion: 'resource.nvidia.com/v1beta1',
  kind: 'GpuConfig',
  sharing,
})

/** A template of claims; its owner, labels and namespace are the caller's. */
export const claimTemplate = (
  claim: DeviceClaim,
  metadata: Json,
  version: DraVersion = 'v1',
): Json => ({
  apiVersion: `resource.k8s.io/${version}`,
  kind: 'ResourceClaimTemplate',
  metadata,
  spec: { spec: claimSpec(claim, version) },
})

/** One claim under MPS, whose limits are each container's own: all pods that name it share its GPU. */
export const mpsClaim = (claim: DeviceClaim, metadata: Json): Json => ({
  apiVersion: 'resource.k8s.io/v1',
  kind: 'ResourceClaim',
  metadata,
  spec: claimSpec({ ...claim, config: driverConfig({ strategy: 'MPS' }) }, 'v1'),
})

/** v1beta1 has no `exactly`. */
function claimSpec(claim: DeviceClaim, version: DraVersion): Json {
  const exactly = {
    deviceClassName: claim.deviceClass,
    allocationMode: 'ExactCount',
    count: claim.count,
    selectors: claim.selectors.map((expression) => ({ cel: { expression } })),
    ...(claim.byCapacity && { capacity: { requests: { memory: `${claim.memoryMiB}Mi` } } }),
  }
  return {
    devices: {
      requests: [
        version === 'v1beta1' ? { name: requestName, ...exactly } : { name: requestName, exactly },
      ],
      ...(claim.config && {
        config: [
          { requests: [requestName], opaque: { driver: draDriver, parameters: claim.config } },
        ],
      }),
    },
  }
}

/** Trials ask a cluster which version it has; what is written is of v1. */
const versions = 'Kubernetes 1.32 or later (the file is for 1.34)'

/** What a share by this claim rests on; nothing for whole GPUs. */
export function claimNeeds({ byCapacity, config }: DeviceClaim): string[] {
  const driver = 'a DRA driver for NVIDIA GPUs'
  if (byCapacity)
    return [
      `${driver} that shares GPUs by memory (--consumable-shares=memory), Kubernetes 1.34 or later`,
    ]
  if (!config) return [`${driver}, ${versions}`]
  const mps = (config.sharing as Json).strategy === 'MPS'
  const gate = mps ? 'MPSSupport' : 'TimeSlicingSettings'
  const held = mps
    ? 'and MPS limits it to its share'
    : 'with time slicing, and the server itself limits its memory'
  return [
    `${driver} with ${gate}, ${versions}; each pod has its own GPU, ${held}: only pods of the same claim share a GPU`,
  ]
}

const asked = new WeakMap<Api, Promise<DraVersion | undefined>>()

/**
 * The newest version of resource.k8s.io that is known here and that the server has, asked once;
 * undefined: none. @throws ApiError
 */
export function draVersionOf(api: Api): Promise<DraVersion | undefined> {
  const known = asked.get(api) ?? askVersion(api)
  asked.set(api, known)
  known.catch(() => asked.delete(api))
  return known
}

async function askVersion(api: Api): Promise<DraVersion | undefined> {
  try {
    const { versions } = await api.request<{ versions: { version: string }[] }>(
      'GET',
      '/apis/resource.k8s.io',
    )
    return draVersions.find((known) => versions.some(({ version }) => version === known))
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined
    throw error
  }
}
