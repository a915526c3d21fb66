/** Prices of replicas that are sold one by one, or in bundles that fill an instance. */

/** Replicas that are sold together, for example those that fill one instance. */
export interface Bundle {
  /** Name of the instance that holds them. */
  readonly name: string
  readonly replicas: number
  /** $ per hour for the whole bundle. */
  readonly perHour: number
  /** Instance type in the node labels of a cluster. Absent: no provider's list has it. */
  readonly instanceType?: string
  /** The replicas use all of its cores or all of its memory. */
  readonly isFull?: true
}

export interface ReplicaPrice {
  /** $ per hour of one replica; of a bundled replica its share of the cheapest bundle. */
  readonly pricePerHour: number
  /** Replicas are sold only in these bundles. Absent: replicas are sold one by one. */
  readonly bundles?: readonly Bundle[]
}

/**
 * Price of one replica of a configuration, $ per hour, with its bundles where it is sold in
 * bundles.
 */
export interface Pricing<C> {
  (configuration: C): number
  readonly bundles?: (configuration: C) => readonly Bundle[] | undefined
}

export function resolveReplicaPrice<C>(pricing: Pricing<C>, configuration: C): ReplicaPrice {
  const bundles = pricing.bundles?.(configuration)
  return { pricePerHour: pricing(configuration), ...(bundles && { bundles }) }
}

interface BoughtBundles {
  readonly bundle: Bundle
  readonly count: number
  readonly perHour: number
}

/**
 * Finds the cheapest number of equal bundles that hold the replicas. At equal prices the smaller
 * bundle wins, because it leaves less capacity unused. Undefined without bundles.
 */
export function findCheapestBundles(
  bundles: readonly Bundle[],
  replicas: number,
): BoughtBundles | undefined {
  return bundles.reduce<BoughtBundles | undefined>((best, bundle) => {
    const count = Math.ceil(replicas / bundle.replicas)
    const perHour = count * bundle.perHour
    if (best === undefined) return { bundle, count, perHour }
    const isSamePrice = Math.abs(perHour - best.perHour) <= 1e-9 * best.perHour
    return (isSamePrice ? bundle.replicas < best.bundle.replicas : perHour < best.perHour)
      ? { bundle, count, perHour }
      : best
  }, undefined)
}

/** Computes $ per hour of a fleet: the price of its replicas, or of the bundles that hold them. */
export function computeFleetPricePerHour(
  { pricePerHour, bundles }: ReplicaPrice,
  replicas: number,
): number {
  if (bundles === undefined || !Number.isFinite(replicas)) return replicas * pricePerHour
  return findCheapestBundles(bundles, replicas)?.perHour ?? Number.POSITIVE_INFINITY
}

/** Counts the replicas that a price per hour affords; 0 if one is already too expensive. */
export function countAffordableReplicas(
  { pricePerHour, bundles }: ReplicaPrice,
  perHour: number,
): number {
  const units = bundles ?? [{ replicas: 1, perHour: pricePerHour }]
  return Math.max(
    0,
    ...units.map((bundle) => Math.floor(perHour / bundle.perHour + 1e-9) * bundle.replicas),
  )
}
