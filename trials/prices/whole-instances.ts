/** Prices of replicas and fleets if GPUs are sold only as instances, with cores and memory. */
import type { Bundle } from '../../search/replica-price.ts'
import type { Resources } from '../resources.ts'
import { type CoresAndMemory, computeAllocatable } from './allocatable.ts'

/** An instance as one price list sells it. */
export interface SoldInstance {
  readonly name: string
  /** Catalogue name. */
  readonly gpu: string
  readonly gpus: number
  readonly vcpus: number
  readonly memoryGiB: number
  readonly perHour: number
  /** Committed for a year or more; absent: not known. */
  readonly committedPerHour?: number
  /**
   * Label `node.kubernetes.io/instance-type` of the provider's nodes; absent: not known.
   */
  readonly instanceType?: string
  /** Reservation of its node; absent: unknown, counted as none. */
  readonly kept?: CoresAndMemory
  readonly source: string
}

type Shape = Pick<SoldInstance, 'gpu' | 'gpus' | 'vcpus' | 'memoryGiB' | 'kept'>

/**
 * How many replicas fit on an instance, by GPU share or slices, and allocatable cores and memory.
 */
export function countReplicasPerInstance(resources: Resources, instance: Shape): number {
  const { cpuCores, memoryMiB, gpu, gpus, gpuShare } = resources
  if (gpu !== instance.gpu) return 0
  const byGpu =
    gpuShare < 1
      ? gpus > 1
        ? 0
        : instance.gpus * Math.floor(1 / gpuShare + 1e-9)
      : Math.floor(instance.gpus / gpus)
  const { vcpus, memoryGiB } = computeAllocatable(instance)
  return Math.max(
    0,
    Math.min(
      byGpu,
      Math.floor(vcpus / cpuCores + 1e-9),
      Math.floor((memoryGiB * 1024) / memoryMiB + 1e-9),
    ),
  )
}

interface RentedInstance {
  readonly instance: SoldInstance
  readonly replicasEach: number
  /** Price of one replica: its part of the instance. */
  readonly perHour: number
}

/**
 * Rounds shares of several GPUs up to whole GPUs: no scheduler places two such replicas on the same
 * GPUs.
 */
const roundUpGpus = (resources: Resources): Resources =>
  resources.gpus > 1 ? { ...resources, gpuShare: 1 } : resources

/** Lists every instance that fits a replica, with the number of replicas. */
export const listFittingInstances = (resources: Resources, list: readonly SoldInstance[]) =>
  list
    .map((instance) => ({
      instance,
      replicasEach: countReplicasPerInstance(roundUpGpus(resources), instance),
    }))
    .filter(({ replicasEach }) => replicasEach > 0)

/**
 * Finds the instance with the lowest price for each replica, $ per hour; the smaller one at equal
 * prices. Undefined if none fits.
 */
export function findCheapestInstance(
  resources: Resources,
  list: readonly SoldInstance[],
): RentedInstance | undefined {
  const parts = listFittingInstances(resources, list).map((o) => ({
    ...o,
    perHour: o.instance.perHour / o.replicasEach,
  }))
  return parts.reduce<RentedInstance | undefined>((best, offer) => {
    if (best === undefined) return offer
    const same = Math.abs(offer.perHour - best.perHour) <= 1e-9 * best.perHour
    return (same ? offer.replicasEach < best.replicasEach : offer.perHour < best.perHour)
      ? offer
      : best
  }, undefined)
}

/**
 * Instances that fit a replica, without dominated ones (another fits as many for no more). Empty if
 * none fits.
 */
export function createBundles(resources: Resources, list: readonly SoldInstance[]): Bundle[] {
  const bundles = listFittingInstances(resources, list)
    .map(
      ({
        instance: { name, perHour, instanceType, vcpus, memoryGiB, kept },
        replicasEach,
      }): Bundle => ({
        name,
        replicas: replicasEach,
        perHour,
        ...(instanceType !== undefined && { instanceType }),
        ...(kept === undefined &&
          (replicasEach * resources.cpuCores >= vcpus ||
            replicasEach * resources.memoryMiB >= 1024 * memoryGiB) && { isFull: true }),
      }),
    )
    .sort((a, b) => a.perHour - b.perHour || b.replicas - a.replicas)
  return bundles.filter(({ replicas }, i) =>
    bundles.slice(0, i).every((cheaper) => cheaper.replicas < replicas),
  )
}
