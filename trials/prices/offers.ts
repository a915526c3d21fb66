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
  /** $ per hour of the whole term; absent: not known. */
  readonly committedPerHour?: number
}

/** A price of one instance, $ per hour, or as a part of the on-demand price. */
export type GivenPrice = { readonly perHour: number } | { readonly share: number }

/**
 * Lists the offers of a price book.
 * @param committed takes precedence over the book's prices of committed capacity
 * @throws PriceError as `pricePerHour`
 */
export function listOffers(
  resources: Resources,
  book: PriceBook,
  committed?: GivenPrice,
): readonly Offer[] {
  const given = committed ?? (book.committedShare && { share: book.committedShare })
  const offer = (onDemandPerHour: number, rest: Omit<Offer, 'onDemandPerHour'>): Offer => {
    const listed = committed === undefined ? rest.committedPerHour : undefined
    const committedPerHour =
      listed ?? (given && ('share' in given ? given.share * onDemandPerHour : given.perHour))
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
