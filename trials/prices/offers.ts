/** Ways to buy what replicas run on: on demand or committed, each at its price. */
import type { Resources } from '../resources.ts'
import { type PriceBook, pricePerHour } from './book.ts'
import { fitting } from './whole-instances.ts'

/** What is bought one by one: an instance, or a replica where those are sold by themselves. */
export interface Offer {
  /** Of the instance; absent: a replica. */
  readonly instance?: string
  readonly replicasEach: number
  /** $ per hour, used or not only while there is one. */
  readonly onDemandPerHour: number
  /** $ per hour of the whole term; absent: not known. */
  readonly committedPerHour?: number
}

/** A price of one instance, $ per hour, or as a part of the on-demand price. */
export type GivenPrice = { readonly perHour: number } | { readonly share: number }

/**
 * What can be bought by a book. @param committed goes before the book's own prices of committed
 * capacity @throws PriceError as `pricePerHour`
 */
export function offersOf(
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
  return fitting(resources, book.instances).map(
    ({ instance: { name, perHour, committedPerHour }, replicasEach }) =>
      offer(perHour, {
        instance: name,
        replicasEach,
        ...(committedPerHour !== undefined && { committedPerHour }),
      }),
  )
}
