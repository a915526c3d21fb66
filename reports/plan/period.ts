/** A demand played from one end to the other, and what each minute of it did to the SLO. */
import { type Demand, periodSeconds } from './demand.ts'
import type { Flow } from './queues.ts'

export interface SloKept {
  /**
   * Minutes of the period in which more requests than the SLO's percentile allows were over its
   * limit.
   */
  readonly lostMinutes: number
  /** Of the whole period. */
  readonly minutes: number
  /**
   * Share of all requests of the period over the limit: the SLO's percentile over the whole period
   * holds where it is at most 1 - percentile.
   */
  readonly over: number
  /** Hours of the day that have such minutes, by the clock of the demand. */
  readonly lostHours: readonly number[]
}

/** The rate over time, asked for by ascending times; the period repeats. */
export class Course {
  readonly periodSeconds: number
  #span = 0
  #from = 0

  constructor(readonly demand: Demand) {
    this.periodSeconds = periodSeconds(demand)
  }

  /** The rate at a time, seconds from the first start, and until when it stays. */
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

export class SloMinutes {
  readonly #came: Float64Array
  readonly #over: Float64Array
  readonly #miss: number

  /** @param beginsS the second of the day at which the period begins */
  constructor(
    readonly periodSeconds: number,
    percentile: number,
    readonly beginsS = 0,
  ) {
    const minutes = Math.max(1, Math.ceil(periodSeconds / minute - 1e-9))
    this.#came = new Float64Array(minutes)
    this.#over = new Float64Array(minutes)
    this.#miss = 1 - percentile
  }

  /** Until when a flow may last that begins at a time within the period. */
  end = (seconds: number): number => (Math.floor(seconds / minute + 1e-9) + 1) * minute

  add(seconds: number, { came, over }: Flow): void {
    const i = Math.min(this.#came.length - 1, Math.floor(seconds / minute + 1e-9))
    this.#came[i]! += came
    this.#over[i]! += over
  }

  outcome(): SloKept {
    const hours = new Set<number>()
    let lost = 0
    let [came, over] = [0, 0]
    for (let i = 0; i < this.#came.length; i++) {
      came += this.#came[i]!
      over += this.#over[i]!
      if (this.#over[i]! <= this.#came[i]! * this.#miss * (1 + 1e-6)) continue
      lost++
      hours.add(Math.floor((this.beginsS + i * minute) / 3600) % 24)
    }
    return {
      lostMinutes: lost,
      minutes: this.#came.length,
      over: came > 0 ? over / came : 0,
      lostHours: [...hours].sort((a, b) => a - b),
    }
  }
}
