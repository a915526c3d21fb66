/** One period of a demand over time, and the SLO in each of its minutes. */
import { type Demand, sumPeriodSeconds } from './demand.ts'
import type { Flow } from './queues.ts'

export interface SloOutcome {
  /**
   * Minutes of the period in which more requests than the SLO's percentile allows were over its
   * limit.
   */
  readonly lostMinutes: number
  /** Minutes of the period. */
  readonly minutes: number
  /**
   * Share of all requests of the period over the limit. Up to 1 - percentile, the SLO is met over the
   * whole period.
   */
  readonly overLimitShare: number
  /** Hours of the day with lost minutes, by the clock of the demand. */
  readonly lostHours: readonly number[]
}

/** Reads the rate of a repeating demand, at ascending times. */
export class DemandCursor {
  readonly periodSeconds: number
  #span = 0
  #from = 0

  constructor(readonly demand: Demand) {
    this.periodSeconds = sumPeriodSeconds(demand)
  }

  /** The rate at a time, and until when it lasts; seconds since the first period began. */
  at(seconds: number): { rps: number; until: number } {
    const { spans } = this.demand
    while (seconds >= this.#from + spans[this.#span]!.seconds - 1e-9) {
      this.#from += spans[this.#span]!.seconds
      this.#span = (this.#span + 1) % spans.length
    }
    return { rps: spans[this.#span]!.rps, until: this.#from + spans[this.#span]!.seconds }
  }
}

const minute = 60

/** Counts requests over the limit minute by minute. */
export class SloMinuteCounter {
  readonly #arrived: Float64Array
  readonly #overLimit: Float64Array
  readonly #allowedShare: number

  /** @param beginsS the second of the day at which the period begins */
  constructor(
    readonly periodSeconds: number,
    percentile: number,
    readonly beginsS = 0,
  ) {
    const minutes = Math.max(1, Math.ceil(periodSeconds / minute - 1e-9))
    this.#arrived = new Float64Array(minutes)
    this.#overLimit = new Float64Array(minutes)
    this.#allowedShare = 1 - percentile
  }

  /** The end of the minute of a time within the period, seconds. */
  endOfMinute = (seconds: number): number => (Math.floor(seconds / minute + 1e-9) + 1) * minute

  add(seconds: number, { arrived, overLimit }: Flow): void {
    const i = Math.min(this.#arrived.length - 1, Math.floor(seconds / minute + 1e-9))
    this.#arrived[i]! += arrived
    this.#overLimit[i]! += overLimit
  }

  outcome(): SloOutcome {
    const hours = new Set<number>()
    let lost = 0
    let [arrived, overLimit] = [0, 0]
    for (let i = 0; i < this.#arrived.length; i++) {
      arrived += this.#arrived[i]!
      overLimit += this.#overLimit[i]!
      if (this.#overLimit[i]! <= this.#arrived[i]! * this.#allowedShare * (1 + 1e-6)) continue
      lost++
      hours.add(Math.floor((this.beginsS + i * minute) / 3600) % 24)
    }
    return {
      lostMinutes: lost,
      minutes: this.#arrived.length,
      overLimitShare: arrived > 0 ? overLimit / arrived : 0,
      lostHours: [...hours].sort((a, b) => a - b),
    }
  }
}
