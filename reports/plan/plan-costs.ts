/**
 * What a fleet costs: by the price book, on the instances that clouds rent out, and against other
 * configurations as demand grows.
 */

import { countReplicas } from '../../search/objective.ts'
import { computeFleetPricePerHour, type ReplicaPrice } from '../../search/replica-price.ts'
import { type Instance, instances } from '../../trials/prices/instances.ts'
import { countReplicasPerInstance } from '../../trials/prices/whole-instances.ts'
import type { Resources } from '../../trials/resources.ts'

/** A month of 30 days, as the published examples count. */
export const hoursPerMonth = 720

export interface CloudCost {
  readonly cloud: Instance['cloud']
  readonly instance: string
  readonly purchase: 'on-demand' | 'reserved, 1 year'
  readonly replicasEach: number
  readonly count: number
  readonly perMonth: number
}

/**
 * Lists the cheapest instance type of each cloud and way to buy for a fleet of one size, running
 * all month. Empty if no listed instance has the GPU.
 */
export function listCloudCosts(
  resources: Resources,
  replicas: number,
  list: readonly Instance[] = instances,
): CloudCost[] {
  const offers = list.flatMap((instance): CloudCost[] => {
    const replicasEach = countReplicasPerInstance(resources, instance)
    if (replicasEach === 0) return []
    const count = Math.ceil(replicas / replicasEach)
    const offer = (purchase: CloudCost['purchase'], perHour: number | undefined): CloudCost[] =>
      perHour === undefined
        ? []
        : [
            {
              cloud: instance.cloud,
              instance: instance.name,
              purchase,
              replicasEach,
              count,
              perMonth: count * perHour * hoursPerMonth,
            },
          ]
    return [
      ...offer('on-demand', instance.onDemandPerHour),
      ...offer('reserved, 1 year', instance.reservedPerHour),
    ]
  })
  const best = new Map<string, CloudCost>()
  for (const offer of offers) {
    const key = `${offer.cloud} ${offer.purchase}`
    const cheapestOffer = best.get(key)
    if (!cheapestOffer || offer.perMonth < cheapestOffer.perMonth) best.set(key, offer)
  }
  return [...best.values()].sort((a, b) => a.perMonth - b.perMonth)
}

interface Rival extends ReplicaPrice {
  readonly label: string
  readonly capacityRps: number
}

/** `label` is the cheapest configuration from this demand up to that of the next entry. */
export interface BreakEven {
  readonly fromRps: number
  readonly label: string
  /** $ per hour at `fromRps`. */
  readonly pricePerHour: number
}

/**
 * Finds the cheapest configuration for every demand up to `upToRps`, whole replicas counted: the
 * price of each is a staircase, so it is compared on every stair. Ties go to the one that was
 * cheapest before.
 */
export function findBreakEvens(
  rivals: readonly Rival[],
  upToRps: number,
  headroom: number,
): BreakEven[] {
  const usable = rivals.filter((r) => r.capacityRps > 0)
  const edges = new Set<number>([0])
  for (const r of usable) {
    const carriedRps = r.capacityRps * (1 - headroom)
    // From 5,000 replicas on, one more changes the price by at most 1/5000.
    for (let replicas = 1; replicas * carriedRps < upToRps && replicas <= 5_000; replicas++)
      edges.add(replicas * carriedRps)
  }
  const segments: BreakEven[] = []
  for (const edge of [...edges].sort((a, b) => a - b)) {
    // Just above the edge, where one more replica is needed.
    const demandRps = edge * (1 + 1e-7) + 1e-9
    const price = (rival: Rival) =>
      computeFleetPricePerHour(rival, countReplicas({ demandRps, headroom }, rival.capacityRps))
    const before = segments.at(-1)
    const cheapest = usable.reduce<Rival | undefined>((best, r) => {
      if (!best) return r
      const difference = price(r) - price(best)
      // Prices that differ only by rounding are equal.
      if (Math.abs(difference) < 1e-12) return r.label === before?.label ? r : best
      return difference < 0 ? r : best
    }, undefined)
    if (cheapest && cheapest.label !== before?.label)
      segments.push({ fromRps: edge, label: cheapest.label, pricePerHour: price(cheapest) })
  }
  return segments
}

/**
 * Counts the fewest replicas that still carry the load of `replicas` after one of `zones` zones is
 * lost. They are spread as evenly as possible: the fullest zone has ceil(replicas / (zones − 1)).
 */
export function countReplicasForZones(replicas: number, zones: number): number {
  return zones < 2 ? replicas : replicas + Math.ceil(replicas / (zones - 1))
}
