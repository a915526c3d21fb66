/** What a replica and a fleet cost where GPUs are sold only as instances, with their cores and memory. */
import type { Resources } from '../resources.ts'

/** An instance as one price list sells it. */
export interface SoldInstance {
  readonly name: string
  /** Catalogue name. */
  readonly gpu: string
  readonly gpus: number
  readonly vcpus: number
  readonly memoryGiB: number
  readonly perHour: number
  readonly source: string
}

type Shape = Pick<SoldInstance, 'gpu' | 'gpus' | 'vcpus' | 'memoryGiB'>

/** How many replicas fit on an instance, by GPU share or slices, cores and memory, none kept back for the system. */
export function replicasPerInstance(resources: Resources, instance: Shape): number {
  const { cpuCores, memoryMiB, gpu, gpus, gpuShare } = resources
  if (gpu !== instance.gpu) return 0
  const byGpu = gpuShare < 1 ? (gpus > 1 ? 0 : instance.gpus * Math.floor(1 / gpuShare + 1e-9)) : Math.floor(instance.gpus / gpus)
  return Math.min(byGpu, Math.floor(instance.vcpus / cpuCores), Math.floor((instance.memoryGiB * 1024) / memoryMiB))
}

interface Rented {
  readonly instance: SoldInstance
  readonly replicasEach: number
  readonly count: number
  /** All of them. */
  readonly perHour: number
}

/** Shares of several GPUs at once are paid as whole ones: no scheduler puts two such replicas beside each other. */
const paid = (resources: Resources): Resources => (resources.gpus > 1 ? { ...resources, gpuShare: 1 } : resources)

const fitting = (resources: Resources, list: readonly SoldInstance[]) =>
  list
    .map((instance) => ({ instance, replicasEach: replicasPerInstance(paid(resources), instance) }))
    .filter(({ replicasEach }) => replicasEach > 0)

/** At the same price the smaller instance: less stands empty. */
const cheapest = (offers: readonly Rented[]): Rented | undefined =>
  offers.reduce<Rented | undefined>((best, offer) => {
    if (best === undefined) return offer
    const same = Math.abs(offer.perHour - best.perHour) <= 1e-9 * best.perHour
    return (same ? offer.replicasEach < best.replicasEach : offer.perHour < best.perHour) ? offer : best
  }, undefined)

/** The instance on which a replica's part costs least, and that part's price, $ per hour. Undefined: none holds one. */
export function cheapestPlace(resources: Resources, list: readonly SoldInstance[]): Rented | undefined {
  const parts = fitting(resources, list).map((o) => ({ ...o, count: 1 / o.replicasEach, perHour: o.instance.perHour / o.replicasEach }))
  return cheapest(parts)
}

/** The cheapest whole instances of one kind that hold so many replicas. Undefined: none holds one. */
export function cheapestFleet(resources: Resources, replicas: number, list: readonly SoldInstance[]): Rented | undefined {
  const fleets = fitting(resources, list).map((offer) => {
    const count = Math.ceil(replicas / offer.replicasEach)
    return { ...offer, count, perHour: count * offer.instance.perHour }
  })
  return cheapest(fleets)
}
