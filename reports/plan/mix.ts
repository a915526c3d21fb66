/**
 * The cheapest mix of committed, on-demand and spot instances for a need that changes. Committed
 * ones are paid every hour, the others while they are needed. Exact: every number of committed ones
 * is tried, and at each level of the need every number of spot ones. Pure.
 */
import { type SpotRisk, spotToBuy } from './interruptions.ts'

/** So many instances are needed for that share of the time. */
export interface Need {
  readonly instances: number
  readonly share: number
}

/** Of one instance, $ per hour. */
export interface Prices {
  readonly onDemand: number
  /** Absent: cannot be committed to. */
  readonly committed?: number
  readonly spot?: number
}

/** What serves at a level of the need. */
export interface Split {
  /** Of the committed ones, those that are used. */
  readonly committed: number
  readonly onDemand: number
  /** Counted as serving. */
  readonly spotNeeded: number
  /** With those to spare. */
  readonly spot: number
}

export interface Mix {
  /** Paid all the time. */
  readonly committed: number
  /** $ per hour, over the period. */
  readonly perHour: {
    readonly committed: number
    readonly onDemand: number
    readonly spot: number
    readonly all: number
  }
  /** By rising need. */
  readonly levels: readonly (Need & Split)[]
}

/** What is bought beside committed instances. */
export class Beside {
  readonly #bought: readonly number[]
  /** The best number of spot ones of those up to each. */
  readonly #best: readonly number[]
  readonly #mostShare: number

  /** @param most instances that are ever asked about */
  constructor(prices: Prices, risk: SpotRisk | undefined, most: number) {
    const { onDemand, spot } = prices
    this.#bought =
      spot === undefined || risk === undefined
        ? new Array<number>(most + 1).fill(Number.POSITIVE_INFINITY).with(0, 0)
        : spotToBuy(most, risk, onDemand / spot)
    this.#mostShare = risk?.mostShare ?? 0
    let best = 0
    const gain = (n: number) => n * onDemand - (n === 0 ? 0 : this.#bought[n]! * spot!)
    this.#best = this.#bought.map((bought, n) => {
      if (Number.isFinite(bought) && gain(n) > gain(best) + 1e-12) best = n
      return best
    })
  }

  /** The cheapest way to have `instances` where some are committed to. */
  split(instances: number, committed: number): Split {
    const used = Math.min(instances, committed)
    const spotNeeded =
      this.#best[Math.min(instances - used, Math.floor(this.#mostShare * instances + 1e-9))]!
    return {
      committed: used,
      onDemand: instances - used - spotNeeded,
      spotNeeded,
      spot: this.#bought[spotNeeded]!,
    }
  }
}

/** @param risk of spot instances; absent: none are bought */
export function cheapestMix(needs: readonly Need[], prices: Prices, risk?: SpotRisk): Mix {
  const most = Math.max(...needs.map(({ instances }) => instances))
  const beside = new Beside(prices, risk, most)
  let best: Mix | undefined
  for (let committed = 0; committed <= (prices.committed === undefined ? 0 : most); committed++) {
    const mix = mixOf(needs, prices, beside, committed)
    // Of two that cost the same, the one that binds less.
    if (best === undefined || mix.perHour.all < best.perHour.all * (1 - 1e-9)) best = mix
  }
  return best!
}

function mixOf(needs: readonly Need[], prices: Prices, beside: Beside, committed: number): Mix {
  const levels = needs
    .map((need) => ({ ...need, ...beside.split(need.instances, committed) }))
    .sort((a, b) => a.instances - b.instances)
  const mean = (of: (level: Split) => number) =>
    levels.reduce((sum, level) => sum + level.share * of(level), 0)
  const perHour = {
    committed: committed * (prices.committed ?? 0),
    onDemand: mean((level) => level.onDemand) * prices.onDemand,
    spot: mean((level) => level.spot) * (prices.spot ?? 0),
  }
  return {
    committed,
    perHour: { ...perHour, all: perHour.committed + perHour.onDemand + perHour.spot },
    levels,
  }
}
