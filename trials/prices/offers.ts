/** Ways to buy capacity for replicas: on demand or committed, each with its price. */
import type { Resources } from '../resources.ts'
import { type PriceBook, pricePerHour } from './book.ts'
import { listFittingInstances } from './whole-instances.ts'

/** A unit of purchase: an instance, or a replica if those are sold separately. */
export interface Offer {
  /** Type of the instance; absent: the unit is a replica. */
  readonly instance?: string
  readonly replicasEach: number
  /** $ per hour while the unit exists. */
  readonly onDemandPerHour: number
  /** $ per hour of the whole term, used or not; absent: unknown. */
  readonly committedPerHour?: number
}

/** Price of committed capacity: of one unit in $ per hour, or as a share of the on-demand price. */
export type CommittedPrice = { readonly perHour: number } | { readonly share: number }

/**
 * Lists the offers of a price book.
 * @param committed price of committed capacity; absent: the instance's own, else the share of the
 * price book
 * @throws PriceError as `pricePerHour`
 */
export function listOffers(
  resources: Resources,
  book: PriceBook,
  committed?: CommittedPrice,
): readonly Offer[] {
  const fallbackPrice = committed ?? (book.committedShare && { share: book.committedShare })
  const offer = (onDemandPerHour: number, rest: Omit<Offer, 'onDemandPerHour'>): Offer => {
    const instancePrice = committed === undefined ? rest.committedPerHour : undefined
    const committedPerHour =
      instancePrice ??
      (fallbackPrice &&
        ('share' in fallbackPrice ? fallbackPrice.share * onDemandPerHour : fallbackPrice.perHour))
    return {
      ...rest,
      onDemandPerHour,
      ...(committedPerHour !== undefined && { committedPerHour }),
    }
  }
  if (book.instances === undefined || resources.gpu === undefined)
    return [offer(pricePerHour(resources, book), { replicasEach: 1 })]
  return listFittingInstances(resources, book.instances).map(
    ({ instance: { name, perHour, committedPerHour }, replicasEach }) =>
      offer(perHour, {
        instance: name,
        replicasEach,
        ...(committedPerHour !== undefined && { committedPerHour }),
      }),
  )
}
