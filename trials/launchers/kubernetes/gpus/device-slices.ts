/** GPUs that DRA drivers publish in ResourceSlices, and their allocation to claims. */
import { type Api, ApiError } from '../api/api.ts'
import { parseQuantity } from '../api/quantity.ts'
import { type DeviceClaim, type DraVersion, draDriver } from './dra.ts'

/** A device that can be allocated to a claim. */
export interface SliceDevice {
  readonly node: string
  /** Driver, pool and name, as in allocations. */
  readonly id: string
  /** With dashes for spaces, as in the label nvidia.com/gpu.product. */
  readonly product: string
  readonly migProfile?: string
  readonly memoryMiB?: number
  /** Several claims can share it. */
  readonly divisible: boolean
}

interface Attribute {
  readonly string?: string
}
interface PublishedDevice {
  readonly attributes?: Readonly<Record<string, Attribute>>
  readonly capacity?: Readonly<Record<string, { readonly value: string }>>
  readonly allowMultipleAllocations?: boolean
}
export interface ResourceSlice {
  readonly spec: {
    readonly driver: string
    readonly nodeName?: string
    readonly pool: { readonly name: string; readonly generation?: number }
    readonly devices?: readonly ({
      readonly name: string
      readonly basic?: PublishedDevice
    } & PublishedDevice)[]
  }
}
interface ResourceClaim {
  readonly status?: {
    readonly allocation?: { readonly devices?: { readonly results?: readonly AllocatedDevice[] } }
  }
}
interface AllocatedDevice {
  readonly driver: string
  readonly pool: string
  readonly device: string
}

/**
 * GPUs and MIG slices of NVIDIA's driver, from the newest generation of each pool, as the scheduler
 * does.
 */
export function listSliceDevices(slices: readonly ResourceSlice[]): SliceDevice[] {
  const nvidiaSlices = slices.filter(({ spec }) => spec.driver === draDriver)
  const newestByPool = new Map<string, number>()
  for (const { spec } of nvidiaSlices)
    newestByPool.set(
      spec.pool.name,
      Math.max(newestByPool.get(spec.pool.name) ?? 0, spec.pool.generation ?? 0),
    )
  return nvidiaSlices
    .filter(({ spec }) => (spec.pool.generation ?? 0) === newestByPool.get(spec.pool.name))
    .flatMap(({ spec }) =>
      (spec.devices ?? []).flatMap(({ name, basic, ...flat }): SliceDevice[] => {
        // v1beta1 nests these one level deeper.
        const { attributes = {}, capacity = {}, allowMultipleAllocations = false } = basic ?? flat
        const getText = (key: string) =>
          (attributes[key] ?? attributes[`${draDriver}/${key}`])?.string
        const product = getText('productName')
        if (product === undefined || !['gpu', 'mig'].includes(getText('type') ?? '')) return []
        const memory = (capacity.memory ?? capacity[`${draDriver}/memory`])?.value
        const migProfile = getText('profile')
        return [
          {
            node: spec.nodeName ?? spec.pool.name,
            id: formatDeviceId({ driver: spec.driver, pool: spec.pool.name, device: name }),
            product: product.replaceAll(' ', '-'),
            ...(migProfile !== undefined && { migProfile }),
            ...(memory !== undefined && { memoryMiB: Math.floor(parseQuantity(memory) / 2 ** 20) }),
            divisible: allowMultipleAllocations,
          },
        ]
      }),
    )
}

const formatDeviceId = ({ driver, pool, device }: AllocatedDevice): string =>
  `${driver}/${pool}/${device}`

/** Whether some node could satisfy a claim if all its devices were free. */
export function canSatisfyClaim(devices: readonly SliceDevice[], claim: DeviceClaim): boolean {
  const perNode = new Map<string, number>()
  for (const device of devices) {
    const fits =
      claim.products.includes(device.product) &&
      device.migProfile === claim.migProfile &&
      (claim.memoryMiB === undefined ||
        (device.memoryMiB ?? Number.POSITIVE_INFINITY) >= claim.memoryMiB) &&
      (!claim.byCapacity || device.divisible)
    if (fits) perNode.set(device.node, (perNode.get(device.node) ?? 0) + 1)
  }
  return [...perNode.values()].some((count) => count >= claim.count)
}

/** @throws ApiError, 403 where devices may not be read */
export async function listDevices(
  api: Api,
  version: DraVersion,
  signal?: AbortSignal,
): Promise<SliceDevice[]> {
  const { items } = await api.request<{ items: ResourceSlice[] }>(
    'GET',
    `/apis/resource.k8s.io/${version}/resourceslices`,
    { signal },
  )
  return listSliceDevices(items)
}

/** Ids of the devices allocated to claims of any namespace; undefined if they may not be read. */
export async function listAllocatedDevices(
  api: Api,
  version: DraVersion,
  signal?: AbortSignal,
): Promise<Set<string> | undefined> {
  try {
    const { items } = await api.request<{ items: ResourceClaim[] }>(
      'GET',
      `/apis/resource.k8s.io/${version}/resourceclaims`,
      { signal },
    )
    return new Set(
      items.flatMap(({ status }) =>
        (status?.allocation?.devices?.results ?? []).map(formatDeviceId),
      ),
    )
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return undefined
    throw error
  }
}
