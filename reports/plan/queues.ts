/**
 * Replicas and what waits at each, as a fluid: requests come evenly to every ready replica, are
 * answered at its saturation rate at most, and what is more waits, up to what clients wait for. A
 * replica that joins has no share of what waits at the others.
 */
import { type FleetUnit, mostOf, shareOver } from './replica.ts'

/** Replicas that became ready together. */
interface Cohort {
  count: number
  /** Requests that wait at each. */
  waiting: number
}

/** Requests over a time. */
export interface Flow {
  readonly came: number
  /** Answered at all; what autoscalers count. */
  readonly answered: number
  /** Failed, or answered later than the SLO's limit. */
  readonly over: number
}

export class Queues {
  readonly #unit: FleetUnit
  readonly #mostWaiting: number
  #cohorts: Cohort[] = []

  /** @param timeoutSeconds after which a client gives up, and its request waits no more. */
  constructor(unit: FleetUnit, timeoutSeconds: number) {
    this.#unit = unit
    this.#mostWaiting = mostOf(unit) * timeoutSeconds
  }

  get ready(): number {
    return this.#cohorts.reduce((sum, { count }) => sum + count, 0)
  }

  get waiting(): boolean {
    return this.#cohorts.some((c) => c.waiting > 0)
  }

  add(count: number): void {
    const last = this.#cohorts.at(-1)
    if (last && last.waiting === 0) last.count += count
    else this.#cohorts.push({ count, waiting: 0 })
  }

  /** The youngest go first, as a ReplicaSet chooses. What waits at them they still answer. */
  remove(count: number): void {
    for (
      let left = count, last = this.#cohorts.at(-1);
      left > 0 && last;
      last = this.#cohorts.at(-1)
    ) {
      const gone = Math.min(left, last.count)
      last.count -= gone
      left -= gone
      if (last.count === 0) this.#cohorts.pop()
    }
  }

  /** Lets a rate come for a while. */
  advance(rps: number, seconds: number): Flow {
    const { ready } = this
    const came = rps * seconds
    if (ready === 0) return { came, answered: 0, over: came }
    let answered = 0
    let over = 0
    for (const cohort of this.#cohorts) {
      const flow = this.#serve(cohort, rps / ready, seconds)
      answered += flow.answered * cohort.count
      over += flow.over * cohort.count
    }
    // Replicas without a queue are alike.
    const first = this.#cohorts.find((c) => c.waiting === 0)
    if (first && this.#cohorts.length > 1) {
      for (const c of this.#cohorts)
        if (c !== first && c.waiting === 0) {
          first.count += c.count
          c.count = 0
        }
      this.#cohorts = this.#cohorts.filter((c) => c.count > 0)
    }
    return { came, answered, over }
  }

  /** One replica of a cohort; its queue changes at one pace until it is empty or full. */
  #serve(cohort: Cohort, rps: number, seconds: number): { answered: number; over: number } {
    const most = mostOf(this.#unit)
    const pace = rps - most
    let answered = 0
    let over = 0
    for (let left = seconds; left > 1e-9; ) {
      const { waiting } = cohort
      const grows = pace > 1e-9 * most && waiting < this.#mostWaiting
      const falls = pace < 0 && waiting > 0
      const until = grows
        ? (this.#mostWaiting - waiting) / pace
        : falls
          ? waiting / -pace
          : Number.POSITIVE_INFINITY
      // Within a piece the wait is taken at its middle: pieces are no longer than it takes the wait
      // to change by a tenth of the limit.
      const fine = grows || falls ? this.#fine(waiting, pace) : left
      const piece = Math.min(left, until, fine)
      const after =
        grows || falls ? Math.min(this.#mostWaiting, Math.max(0, waiting + pace * piece)) : waiting
      const waitMs = (1000 * (waiting + after)) / 2 / most
      over +=
        rps *
        piece *
        shareOver(this.#unit, waitMs > 0 ? Math.min(rps, this.#unit.capacityRps) : rps, waitMs)
      answered += piece * (waiting > 0 || grows ? most : Math.min(rps, most))
      cohort.waiting = after < 1e-9 * most ? 0 : after
      left -= piece
    }
    return { answered, over }
  }

  #fine(waiting: number, pace: number): number {
    const limit = (this.#unit.limitMs / 1000) * mostOf(this.#unit)
    const tenth = limit / 10 / Math.abs(pace)
    if (waiting <= 1.5 * limit) return tenth
    return pace > 0 ? Number.POSITIVE_INFINITY : (waiting - limit) / -pace
  }
}
