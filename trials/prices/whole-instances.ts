/**
 * What a replica and a fleet cost where GPUs are sold only as instances, with their cores and
 * memory.
 */
import type { Bundle } from '../../search/replica-price.ts'
import type { Resources } from '../resources.ts'
import { type CoresAndMemory, leftOf } from './node-keeps.ts'

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
   * As the provider's nodes are labelled, `node.kubernetes.io/instance-type`; absent: not known.
   */
  readonly instanceType?: string
  /** What its node keeps for itself; absent: not known, and nothing is taken off. */
  readonly kept?: CoresAndMemory
  readonly source: string
}

type Shape = Pick<SoldInstance, 'gpu' | 'gpus' | 'vcpus' | 'memoryGiB' | 'kept'>

/**
 * How many replicas fit on an instance, by GPU share or slices, and the cores and memory that its
 * node leaves them.
 */
export function replicasPerInstance(resources: Resources, instance: Shape): number {
  const { cpuCores, memoryMiB, gpu, gpus, gpuShare } = resources
  if (gpu !== instance.gpu) return 0
  const byGpu =
    gpuShare < 1
      ? gpus > 1
        ? 0
        : instance.gpus * Math.floor(1 / gpuShare + 1e-9)
      : Math.floor(instance.gpus / gpus)
  const { vcpus, memoryGiB } = leftOf(instance)
  return Math.max(
    0,
    Math.min(
      byGpu,
      Math.floor(vcpus / cpuCores + 1e-9),
      Math.floor((memoryGiB * 1024) / memoryMiB + 1e-9),
    ),
  )
}

interface Rented {
  readonly instance: SoldInstance
  readonly replicasEach: number
  /** Of one replica: its part of the instance. */
  readonly perHour: number
}

/**
 * Shares of several GPUs at once are paid as whole ones: no scheduler puts two such replicas beside
 * each other.
 */
const paid = (resources: Resources): Resources =>
  resources.gpus > 1 ? { ...resources, gpuShare: 1 } : resources

/** Every instance that holds a replica, with how many. */
export const fitting = (resources: Resources, list: readonly SoldInstance[]) =>
  list
    .map((instance) => ({ instance, replicasEach: replicasPerInstance(paid(resources), instance) }))
    .filter(({ replicasEach }) => replicasEach > 0)

/**
 * The instance on which a replica's part costs least, and that part's price, $ per hour; at the
 * same price the smaller one. Undefined: none holds one.
 */
export function cheapestPlace(
  resources: Resources,
  list: readonly SoldInstance[],
): Rented | undefined {
  const parts = fitting(resources, list).map((o) => ({
    ...o,
    perHour: o.instance.perHour / o.replicasEach,
  }))
  return parts.reduce<Rented | undefined>((best, offer) => {
    if (best === undefined) return offer
    const same = Math.abs(offer.perHour - best.perHour) <= 1e-9 * best.perHour
    return (same ? offer.replicasEach < best.replicasEach : offer.perHour < best.perHour)
      ? offer
      : best
  }, undefined)
}

/**
 * What replicas are sold in: the instances that hold one, without those that another one beats,
 * holding as many for no more. Empty: none holds one.
 */
export function bundlesOf(resources: Resources, list: readonly SoldInstance[]): Bundle[] {
  const bundles = fitting(resources, list)
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
