/** Flags of `tune plan` that say how capacity may be bought. */
import type { SpotTerms } from '../../../reports/plan/mix-plan.ts'
import { hoursPerMonth } from '../../../reports/plan/plan-costs.ts'
import type { PriceBook } from '../../../trials/prices/book.ts'
import type { GivenPrice, GivenPrices } from '../../../trials/prices/offers.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { parseCount, parseDurationMs, parseMoney, parseShare } from '../../experiment/units.ts'

interface BuyingFlags {
  readonly zones: string
  readonly committed?: string
  readonly spot?: string
  readonly interruptions?: string
  readonly spotLost: string
  readonly spotShare: string
  readonly spotNotice: string
}

const refuse = (problem: string, hint: string) => new UserError(problem, hint, exitCodes.usage)

/** Prices of commitments and of spot: those given. */
export function givenPrices({ committed, spot }: BuyingFlags, book: PriceBook): GivenPrices {
  if (book.isCommitted && (committed !== undefined || spot !== undefined))
    throw refuse(
      `the prices of '${book.name}' are those of committed capacity, of which nothing is bought on demand`,
      'plan with on-demand prices: --prices aws-instances has the committed ones beside them',
    )
  return {
    ...(committed !== undefined && { committed: priceGiven(committed) }),
    ...(spot !== undefined && { spot: priceGiven(spot) }),
  }
}

const priceGiven = (text: string): GivenPrice =>
  text.trim().endsWith('%') ? { share: someShare(text, 'a price') } : { perHour: parseMoney(text) }

/** On which terms spot may serve; undefined where none has a price. */
export function spotTerms(flags: BuyingFlags, book: PriceBook): SpotTerms | undefined {
  const priced =
    flags.spot !== undefined ||
    book.shares?.spot !== undefined ||
    book.instances?.some((i) => i.spotPerHour !== undefined)
  if (!priced) {
    if (flags.interruptions === undefined) return undefined
    throw refuse(
      '--interruptions is of spot capacity, which has no price here',
      'give one: --spot 35%, or $ an hour; or spot: beside the price of an instance in a price file',
    )
  }
  if (flags.interruptions === undefined) {
    // The file's own spot prices force nobody to buy spot.
    if (flags.spot === undefined) return undefined
    throw refuse(
      '--spot needs to know how often instances are taken',
      'give --interruptions 10% (of them in a month, as the AWS Spot Instance Advisor counts) or 20h (the mean time until one is)',
    )
  }
  return {
    interruptionsPerHour: interruptionsPerHour(flags.interruptions),
    noticeSeconds: /^\s*0(s|ms)?\s*$/.test(flags.spotNotice)
      ? 0
      : parseDurationMs(flags.spotNotice) / 1000,
    lostShare: parseShare(flags.spotLost),
    mostShare: parseShare(flags.spotShare),
    zones: parseCount(flags.zones, 1),
  }
}

/**
 * Of each instance. A share p of those that run is gone after a month: exp(-rate × 720 h) = 1 - p.
 */
function interruptionsPerHour(text: string): number {
  if (!text.trim().endsWith('%')) return 3_600_000 / parseDurationMs(text)
  const share = someShare(text, 'a share of instances')
  if (share >= 1)
    throw refuse(
      `--interruptions ${text} says not when they are taken`,
      'give less than 100%, or the mean time until one is taken: 20h',
    )
  return -Math.log1p(-share) / hoursPerMonth
}

function someShare(text: string, what: string): number {
  const share = parseShare(text)
  if (share <= 0) throw refuse(`${text} is no ${what.replace(/^a /, '')}`, 'give more than 0%')
  return share
}
