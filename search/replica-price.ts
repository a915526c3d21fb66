/** What replicas cost: so much each, or only several at once, those of a whole instance. */

/** Replicas that are sold together. */
export interface Bundle {
  /** Of the instance that holds them. */
  readonly name: string
  readonly replicas: number
  /** All of them, $. */
  readonly perHour: number
  /** Its type as nodes of a cluster are labelled; absent: no provider's list tells. */
  readonly instanceType?: string
  /** They take all of its cores, or all of its memory. */
  readonly isFull?: true
}

export interface ReplicaPrice {
  /** One replica, or its part of the bundle where that is least, $. */
  readonly pricePerHour: number
  /** Replicas are sold as these alone; absent: each by itself. */
  readonly bundles?: readonly Bundle[]
}

/** $ per hour of one replica, by what it is; with the bundles, where it is sold so. */
export interface Pricing<C> {
  (configuration: C): number
  readonly bundles?: (configuration: C) => readonly Bundle[] | undefined
}

export function priceOf<C>(pricing: Pricing<C>, configuration: C): ReplicaPrice {
  const bundles = pricing.bundles?.(configuration)
  return { pricePerHour: pricing(configuration), ...(bundles && { bundles }) }
}

interface BoughtBundles {
  readonly bundle: Bundle
  readonly count: number
  readonly perHour: number
}

/**
 * The cheapest bundles of one kind that hold so many replicas; at the same price the smaller ones:
 * less stands empty.
 */
export function cheapestBundles(
  bundles: readonly Bundle[],
  replicas: number,
): BoughtBundles | undefined {
  return bundles.reduce<BoughtBundles | undefined>((best, bundle) => {
    const count = Math.ceil(replicas / bundle.replicas)
    const perHour = count * bundle.perHour
    if (best === undefined) return { bundle, count, perHour }
    const same = Math.abs(perHour - best.perHour) <= 1e-9 * best.perHour
    return (same ? bundle.replicas < best.bundle.replicas : perHour < best.perHour)
      ? { bundle, count, perHour }
      : best
  }, undefined)
}

/** $ per hour of a fleet: of its replicas, or of the whole bundles that hold them. */
export function fleetPerHour({ pricePerHour, bundles }: ReplicaPrice, replicas: number): number {
  if (bundles === undefined || !Number.isFinite(replicas)) return replicas * pricePerHour
  return cheapestBundles(bundles, replicas)?.perHour ?? Number.POSITIVE_INFINITY
}

/** The most replicas that cost no more than so much an hour; 0: not even one. */
export function replicasWithin({ pricePerHour, bundles }: ReplicaPrice, perHour: number): number {
  const each = bundles ?? [{ replicas: 1, perHour: pricePerHour }]
  return Math.max(
    0,
    ...each.map((bundle) => Math.floor(perHour / bundle.perHour + 1e-9) * bundle.replicas),
  )
}
