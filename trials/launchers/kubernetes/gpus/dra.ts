/**
 * GPUs by dynamic resource allocation (resource.k8s.io): a claim on devices that a driver
 * publishes, in place of counted resources. Attributes and configuration are those of NVIDIA's
 * driver (kubernetes-sigs/dra-driver-nvidia-gpu: deviceinfo.go, api/nvidia.com/resource/v1beta1).
 */
import type { Resources } from '../../../resources.ts'
import { type Api, ApiError } from '../api/api.ts'

type Json = { [key: string]: unknown }

/** Newest first. v1 is Kubernetes 1.34, v1beta2 1.33, v1beta1 1.32. */
export const draVersions = ['v1', 'v1beta2', 'v1beta1'] as const
export type DraVersion = (typeof draVersions)[number]

/**
 * How a share of a GPU is claimed. mps: a dedicated GPU, limited to the share by MPS. time-slicing:
 * a dedicated GPU with short time slices. capacity: memory of a GPU whose rest other pods can
 * claim, if the driver publishes it so (allowMultipleAllocations).
 */
export const draSharingModes = ['mps', 'time-slicing', 'capacity'] as const
type DraSharingMode = (typeof draSharingModes)[number]

export interface DraOptions {
  /** Default gpu.nvidia.com, and mig.nvidia.com for slices. */
  readonly deviceClass?: string
  /** Default mps. */
  readonly sharing?: DraSharingMode
}

/** Claim of a pod: devices of a class that meet every selector. */
export interface DeviceClaim {
  readonly deviceClass: string
  readonly count: number
  /** Expressions in the Common Expression Language (CEL). */
  readonly selectors: readonly string[]
  /** Memory of the claimed share, or the limit enforced by sharing; absent for whole devices. */
  readonly memoryMiB?: number
  /** Memory is claimed as a part of a shared device. */
  readonly byCapacity: boolean
  /** The driver's configuration of sharing. */
  readonly config?: Json
  /** The selectors as values: product names with dashes for spaces, and the MIG profile. */
  readonly products: readonly string[]
  readonly migProfile?: string
}

export const draDriver = 'gpu.nvidia.com'
/** Name by which containers refer to the pod's claim. */
export const claimName = 'tuned-gpu'
const requestName = 'gpu'

/**
 * @param products values of the label nvidia.com/gpu.product: the driver's product names with
 * dashes for spaces
 */
export function createDeviceClaim(
  resources: Resources,
  products: readonly string[],
  options: DraOptions = {},
): DeviceClaim {
  const { gpus, gpuShare, gpuMemoryMiB = 0, migProfile } = resources
  const { sharing = 'mps' } = options
  const isShared = gpuShare < 1 && !migProfile
  const memoryMiB = Math.round(gpuMemoryMiB)
  const formatAttribute = (name: string) => `device.attributes['${draDriver}'].${name}`
  return {
    deviceClass: options.deviceClass ?? (migProfile ? 'mig.nvidia.com' : draDriver),
    count: gpus,
    selectors: [
      `${formatAttribute('productName')}.matches('^(${products.map(createNamePattern).join('|')})$')`,
      ...(migProfile ? [`${formatAttribute('profile')} == '${migProfile}'`] : []),
    ],
    ...(isShared && { memoryMiB }),
    byCapacity: isShared && sharing === 'capacity',
    ...(isShared &&
      sharing !== 'capacity' && { config: createGpuConfig(sharing, gpuShare, memoryMiB) }),
    products,
    ...(migProfile && { migProfile }),
  }
}

/**
 * Creates an RE2 pattern for a label value, in which each dash may stand for a space. It avoids
 * backslashes, which CEL would interpret.
 */
const createNamePattern = (product: string): string =>
  product.replace(/[.+]/g, '[$&]').replaceAll('-', '[ -]')

const createGpuConfig = (sharing: 'mps' | 'time-slicing', share: number, memoryMiB: number): Json =>
  createDriverConfig(
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

const createDriverConfig = (sharing: Json): Json => ({
  apiVersion: 'resource.nvidia.com/v1beta1',
  kind: 'GpuConfig',
  sharing,
})

/**
 * Creates a ResourceClaimTemplate.
 * @param metadata its owner, labels and namespace
 */
export const createClaimTemplate = (
  claim: DeviceClaim,
  metadata: Json,
  version: DraVersion = 'v1',
): Json => ({
  apiVersion: `resource.k8s.io/${version}`,
  kind: 'ResourceClaimTemplate',
  metadata,
  spec: { spec: createClaimSpec(claim, version) },
})

/**
 * Creates a shared claim under MPS: all pods that name it share its GPU, with limits set by each
 * container.
 */
export const createMpsClaim = (claim: DeviceClaim, metadata: Json): Json => ({
  apiVersion: 'resource.k8s.io/v1',
  kind: 'ResourceClaim',
  metadata,
  spec: createClaimSpec({ ...claim, config: createDriverConfig({ strategy: 'MPS' }) }, 'v1'),
})

/** v1beta1 has no `exactly`. */
function createClaimSpec(claim: DeviceClaim, version: DraVersion): Json {
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

/** Trials use the cluster's version; written files use v1. */
const requiredVersions = 'Kubernetes 1.32 or later (the file is for 1.34)'

/** Lists what the cluster must provide for this claim. */
export function listClaimRequirements({ byCapacity, config }: DeviceClaim): string[] {
  const driver = 'a DRA driver for NVIDIA GPUs'
  if (byCapacity)
    return [
      `${driver} that shares GPUs by memory (--consumable-shares=memory), Kubernetes 1.34 or later`,
    ]
  if (!config) return [`${driver}, ${requiredVersions}`]
  const isMps = (config.sharing as Json).strategy === 'MPS'
  const gate = isMps ? 'MPSSupport' : 'TimeSlicingSettings'
  const enforcement = isMps
    ? 'and MPS limits it to its share'
    : 'with time slicing, and the server itself limits its memory'
  return [
    `${driver} with ${gate}, ${requiredVersions}; each pod has its own GPU, ${enforcement}: only pods of the same claim share a GPU`,
  ]
}

const versionByApi = new WeakMap<Api, Promise<DraVersion | undefined>>()

/**
 * Finds the newest supported version of resource.k8s.io on the server, requested once; undefined if
 * none.
 * @throws ApiError
 */
export function findDraVersion(api: Api): Promise<DraVersion | undefined> {
  const version = versionByApi.get(api) ?? requestDraVersion(api)
  versionByApi.set(api, version)
  version.catch(() => versionByApi.delete(api))
  return version
}

async function requestDraVersion(api: Api): Promise<DraVersion | undefined> {
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
