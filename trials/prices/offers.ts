/** Ways to buy what replicas run on: on demand, committed, spot, each at its price. */
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
  readonly spotPerHour?: number
}

/** A price of one instance, $ per hour, or as a part of the on-demand price. */
export type GivenPrice = { readonly perHour: number } | { readonly share: number }

export interface GivenPrices {
  readonly committed?: GivenPrice
  readonly spot?: GivenPrice
}

/**
 * What can be bought by a book; prices given go before its own. @throws PriceError as
 * `pricePerHour`
 */
export function offersOf(
  resources: Resources,
  book: PriceBook,
  given: GivenPrices,
): readonly Offer[] {
  const priced = (onDemand: number, of: 'committed' | 'spot', listed: number | undefined) => {
    const said = given[of]
    const share = book.shares?.[of]
    const perHour =
      said === undefined
        ? (listed ?? (share === undefined ? undefined : share * onDemand))
        : 'share' in said
          ? said.share * onDemand
          : said.perHour
    return perHour === undefined ? {} : { [`${of}PerHour`]: perHour }
  }
  const offer = (onDemandPerHour: number, rest: Omit<Offer, 'onDemandPerHour'>): Offer => ({
    ...rest,
    onDemandPerHour,
    ...priced(onDemandPerHour, 'committed', rest.committedPerHour),
    ...priced(onDemandPerHour, 'spot', rest.spotPerHour),
  })
  if (book.instances === undefined || resources.gpu === undefined)
    return [offer(pricePerHour(resources, book), { replicasEach: 1 })]
  return fitting(resources, book.instances).map(
    ({ instance: { name, perHour, committedPerHour, spotPerHour }, replicasEach }) =>
      offer(perHour, {
        instance: name,
        replicasEach,
        ...(committedPerHour !== undefined && { committedPerHour }),
        ...(spotPerHour !== undefined && { spotPerHour }),
      }),
  )
}
