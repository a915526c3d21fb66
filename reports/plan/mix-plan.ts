/**
 * The cheapest mix of ways to buy what a plan needs: as planned, with one to spare, and standing
 * the loss of a zone.
 */
import type { Offer } from '../../trials/prices/offers.ts'
import { type Demand, periodSeconds } from './demand.ts'
import type { FleetOutcome, Surroundings } from './fleet.ts'
import { lostMinutesShare, type SpotRisk } from './interruptions.ts'
import { Beside, cheapestMix, type Mix, type Need, type Prices } from './mix.ts'
import { hoursPerMonth, replicasForZones } from './plan-costs.ts'
import { playSpot, type SpotPlay } from './played-spot.ts'
import type { FleetUnit } from './replica.ts'

/** What a user says of spot instances; how long one is out follows from the replica. */
export type SpotTerms = Omit<SpotRisk, 'outSeconds'> & { readonly noticeSeconds: number }

interface MixRow {
  readonly keeps: 'as planned' | 'N+1' | 'a zone lost'
  readonly offer: Offer
  readonly mix: Mix
  readonly perMonth: Mix['perHour']
  /** Of the instances that are cheapest so. */
  readonly allOnDemandPerMonth: number
  /** Of the most that are ever needed; absent: nothing to commit to. */
  readonly allCommittedPerMonth?: number
  /** Of the minutes, at most, by the model. */
  readonly lostShare: number
}

export interface MixPlan {
  /** The fleet that changes, or the one that does not. */
  readonly fleet: 'autoscaled' | 'static'
  readonly risk?: SpotRisk
  readonly rows: readonly MixRow[]
  /** The first row, where it has spot. */
  readonly played?: SpotPlay
}

interface MixInput {
  readonly unit: FleetUnit
  readonly offers: readonly Offer[]
  readonly demand: Demand
  readonly surroundings: Surroundings
  readonly zones: number
  readonly spot?: SpotTerms
  /** Played without interruptions. */
  readonly outcome: FleetOutcome
}

/** Undefined where on-demand is the only way to buy. */
export function planMix(input: MixInput): MixPlan | undefined {
  const { unit, offers, demand, zones, spot, outcome } = input
  const risk = spot && riskOf(spot, unit)
  if (
    !offers.some((o) => o.committedPerHour !== undefined || (risk && o.spotPerHour !== undefined))
  )
    return undefined
  const more: readonly (readonly [MixRow['keeps'], (instances: number) => number])[] = [
    ['as planned', (n) => n],
    ['N+1', (n) => n + 1],
    ...(zones > 1 ? ([['a zone lost', (n: number) => replicasForZones(n, zones)]] as const) : []),
  ]
  const rows = more.map(([keeps, moreThan]) => {
    // What stands the loss of a zone stands that of its spot, too.
    const terms = risk && keeps === 'a zone lost' ? { ...risk, zones: 1 } : risk
    const all = offers.map((offer) =>
      rowOf(
        keeps,
        offer,
        needsOf(outcome, periodSeconds(demand), offer.replicasEach, moreThan),
        terms,
      ),
    )
    const best = all.reduce((best, row) =>
      row.perMonth.all < best.perMonth.all * (1 - 1e-9) ? row : best,
    )
    const committed = all.flatMap(({ allCommittedPerMonth }) => allCommittedPerMonth ?? [])
    return {
      ...best,
      allOnDemandPerMonth: Math.min(...all.map(({ allOnDemandPerMonth }) => allOnDemandPerMonth)),
      ...(committed.length > 0 && { allCommittedPerMonth: Math.min(...committed) }),
    }
  })
  const [first] = rows
  const hasSpot = risk !== undefined && first!.mix.levels.some((level) => level.spot > 0)
  return {
    fleet: outcome.leastReplicas === outcome.mostReplicas ? 'static' : 'autoscaled',
    ...(risk && { risk }),
    rows,
    ...(hasSpot && { played: played(first!, risk, input) }),
  }
}

const riskOf = (
  { noticeSeconds, ...terms }: SpotTerms,
  { startupSeconds, nodeSeconds }: FleetUnit,
): SpotRisk => ({
  ...terms,
  outSeconds: Math.max(0, nodeSeconds + startupSeconds - noticeSeconds),
})

/** For how much of the period so many instances are paid for. */
export function needsOf(
  { paid }: Pick<FleetOutcome, 'paid'>,
  seconds: number,
  replicasEach: number,
  moreThan: (n: number) => number,
): Need[] {
  const shares = new Map<number, number>()
  for (const [i, step] of paid.entries()) {
    const instances = moreThan(Math.ceil(step.replicas / replicasEach - 1e-9))
    const lasts = (paid[i + 1]?.seconds ?? seconds) - step.seconds
    shares.set(instances, (shares.get(instances) ?? 0) + lasts / seconds)
  }
  return [...shares].map(([instances, share]) => ({ instances, share }))
}

const pricesOf = ({ onDemandPerHour, committedPerHour, spotPerHour }: Offer): Prices => ({
  onDemand: onDemandPerHour,
  ...(committedPerHour !== undefined && { committed: committedPerHour }),
  ...(spotPerHour !== undefined && { spot: spotPerHour }),
})

function rowOf(
  keeps: MixRow['keeps'],
  offer: Offer,
  needs: readonly Need[],
  risk: SpotRisk | undefined,
): MixRow {
  const prices = pricesOf(offer)
  const mix = cheapestMix(needs, prices, risk)
  const { committed, onDemand, spot, all } = mix.perHour
  const month = (perHour: number) => perHour * hoursPerMonth
  const most = Math.max(...needs.map(({ instances }) => instances))
  return {
    keeps,
    offer,
    mix,
    perMonth: {
      committed: month(committed),
      onDemand: month(onDemand),
      spot: month(spot),
      all: month(all),
    },
    allOnDemandPerMonth: month(
      needs.reduce((sum, { instances, share }) => sum + instances * share, 0) * prices.onDemand,
    ),
    ...(prices.committed !== undefined && { allCommittedPerMonth: month(most * prices.committed) }),
    lostShare: risk
      ? mix.levels.reduce(
          (sum, { share, spot: bought, spotNeeded }) =>
            sum + share * lostMinutesShare(bought, bought - spotNeeded, risk),
          0,
        )
      : 0,
  }
}

/**
 * Long enough that what happens once a week is seen a dozen times; traces that are longer are
 * played once.
 */
const playedDays = 100

function played(
  { offer, mix }: MixRow,
  risk: SpotRisk,
  { unit, demand, surroundings, outcome }: MixInput,
): SpotPlay {
  const most = Math.ceil(outcome.mostReplicas / offer.replicasEach)
  const beside = new Beside(pricesOf(offer), risk, most)
  const split = (instances: number) => beside.split(instances, mix.committed)
  return playSpot(
    { unit, demand, surroundings, fleet: outcome, replicasEach: offer.replicasEach, split, risk },
    playedDays,
    1,
  )
}
