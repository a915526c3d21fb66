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
   * Share of all requests of the period over the limit. Up to 1 - percentile, the SLO is met over
   * the whole period.
   */
  readonly overLimitShare: number
  /** Hours of the day with lost minutes, by the clock of the demand. */
  readonly lostHours: readonly number[]
}

/** Reads the rate of a repeating demand, at ascending times. */
export class DemandCursor {
  readonly periodSeconds: number
  #spanIndex = 0
  #spanStart = 0

  constructor(readonly demand: Demand) {
    this.periodSeconds = sumPeriodSeconds(demand)
  }

  /** Reads the rate at a time, and when it ends; both in seconds since the first period began. */
  readRate(seconds: number): { rps: number; until: number } {
    const { spans } = this.demand
    while (seconds >= this.#spanStart + spans[this.#spanIndex]!.seconds - 1e-9) {
      this.#spanStart += spans[this.#spanIndex]!.seconds
      this.#spanIndex = (this.#spanIndex + 1) % spans.length
    }
    return {
      rps: spans[this.#spanIndex]!.rps,
      until: this.#spanStart + spans[this.#spanIndex]!.seconds,
    }
  }
}

const minuteSeconds = 60

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
    const minutes = Math.max(1, Math.ceil(periodSeconds / minuteSeconds - 1e-9))
    this.#arrived = new Float64Array(minutes)
    this.#overLimit = new Float64Array(minutes)
    this.#allowedShare = 1 - percentile
  }

  /** The end of the minute of a time within the period, seconds. */
  findMinuteEnd = (seconds: number): number =>
    (Math.floor(seconds / minuteSeconds + 1e-9) + 1) * minuteSeconds

  addFlow(seconds: number, { arrived, overLimit }: Flow): void {
    const i = Math.min(this.#arrived.length - 1, Math.floor(seconds / minuteSeconds + 1e-9))
    this.#arrived[i]! += arrived
    this.#overLimit[i]! += overLimit
  }

  summariseOutcome(): SloOutcome {
    const hours = new Set<number>()
    let lostMinutes = 0
    let [arrived, overLimit] = [0, 0]
    for (let i = 0; i < this.#arrived.length; i++) {
      arrived += this.#arrived[i]!
      overLimit += this.#overLimit[i]!
      if (this.#overLimit[i]! <= this.#arrived[i]! * this.#allowedShare * (1 + 1e-6)) continue
      lostMinutes++
      hours.add(Math.floor((this.beginsS + i * minuteSeconds) / 3600) % 24)
    }
    return {
      lostMinutes: lostMinutes,
      minutes: this.#arrived.length,
      overLimitShare: arrived > 0 ? overLimit / arrived : 0,
      lostHours: [...hours].sort((a, b) => a - b),
    }
  }
}
