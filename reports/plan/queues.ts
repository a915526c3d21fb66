/**
 * Fluid model of the queues at the replicas. Requests spread evenly over the ready replicas, and each
 * answers up to its saturation rate. The rest waits there until clients time out. A new replica takes
 * over no waiting requests.
 */
import { computeOverLimitShare, type FleetUnit, getMaxRps } from './replica.ts'

/** Replicas that became ready together. */
interface Cohort {
  count: number
  /** Waiting requests at each replica. */
  waiting: number
}

/** Numbers of requests in a stretch of time. */
export interface Flow {
  readonly arrived: number
  /** Answered, in time or late: replicas count these for their autoscaler. */
  readonly answered: number
  /** Failed, or answered later than the SLO's limit. */
  readonly overLimit: number
}

export class Queues {
  readonly #unit: FleetUnit
  readonly #maxWaiting: number
  #cohorts: Cohort[] = []

  /** @param timeoutSeconds after which a client gives up and its request leaves the queue */
  constructor(unit: FleetUnit, timeoutSeconds: number) {
    this.#unit = unit
    this.#maxWaiting = getMaxRps(unit) * timeoutSeconds
  }

  get readyReplicas(): number {
    return this.#cohorts.reduce((sum, { count }) => sum + count, 0)
  }

  get hasWaiting(): boolean {
    return this.#cohorts.some((c) => c.waiting > 0)
  }

  addReplicas(count: number): void {
    const last = this.#cohorts.at(-1)
    if (last && last.waiting === 0) last.count += count
    else this.#cohorts.push({ count, waiting: 0 })
  }

  /**
   * Removes the youngest replicas first, as a ReplicaSet does. They still answer what waits at them:
   * it does not count as failed.
   */
  removeReplicas(count: number): void {
    for (
      let remaining = count, last = this.#cohorts.at(-1);
      remaining > 0 && last;
      last = this.#cohorts.at(-1)
    ) {
      const removed = Math.min(remaining, last.count)
      last.count -= removed
      remaining -= removed
      if (last.count === 0) this.#cohorts.pop()
    }
  }

  /** Simulates a constant rate of arrivals for a time. */
  advance(rps: number, seconds: number): Flow {
    const { readyReplicas: ready } = this
    const arrived = rps * seconds
    if (ready === 0) return { arrived, answered: 0, overLimit: arrived }
    let answered = 0
    let overLimit = 0
    for (const cohort of this.#cohorts) {
      const flow = this.#serve(cohort, rps / ready, seconds)
      answered += flow.answered * cohort.count
      overLimit += flow.overLimit * cohort.count
    }
    // Cohorts without a queue are equal: they become one.
    const first = this.#cohorts.find((c) => c.waiting === 0)
    if (first && this.#cohorts.length > 1) {
      for (const c of this.#cohorts)
        if (c !== first && c.waiting === 0) {
          first.count += c.count
          c.count = 0
        }
      this.#cohorts = this.#cohorts.filter((c) => c.count > 0)
    }
    return { arrived, answered, overLimit }
  }

  /** One replica of a cohort; its queue grows or shrinks at one rate until it is full or empty. */
  #serve(cohort: Cohort, rps: number, seconds: number): { answered: number; overLimit: number } {
    const maxRps = getMaxRps(this.#unit)
    const growthRps = rps - maxRps
    let answered = 0
    let overLimit = 0
    for (let remainingSeconds = seconds; remainingSeconds > 1e-9; ) {
      const { waiting } = cohort
      const isGrowing = growthRps > 1e-9 * maxRps && waiting < this.#maxWaiting
      const isShrinking = growthRps < 0 && waiting > 0
      const changeSeconds = isGrowing
        ? (this.#maxWaiting - waiting) / growthRps
        : isShrinking
          ? waiting / -growthRps
          : Number.POSITIVE_INFINITY
      // Within a step the wait is taken at its middle: steps are no longer than it takes the wait
      // to change by a tenth of the limit.
      const maxStep =
        isGrowing || isShrinking ? this.#findMaxStepSeconds(waiting, growthRps) : remainingSeconds
      const step = Math.min(remainingSeconds, changeSeconds, maxStep)
      const waitingAfter =
        isGrowing || isShrinking
          ? Math.min(this.#maxWaiting, Math.max(0, waiting + growthRps * step))
          : waiting
      const waitMs = (1000 * (waiting + waitingAfter)) / 2 / maxRps
      overLimit +=
        rps *
        step *
        computeOverLimitShare(
          this.#unit,
          waitMs > 0 ? Math.min(rps, this.#unit.capacityRps) : rps,
          waitMs,
        )
      answered += step * (waiting > 0 || isGrowing ? maxRps : Math.min(rps, maxRps))
      cohort.waiting = waitingAfter < 1e-9 * maxRps ? 0 : waitingAfter
      remainingSeconds -= step
    }
    return { answered, overLimit }
  }

  /** Longest step, s: short while the wait is near the limit, else until it comes near. */
  #findMaxStepSeconds(waiting: number, growthRps: number): number {
    const limit = (this.#unit.limitMs / 1000) * getMaxRps(this.#unit)
    const tenthSeconds = limit / 10 / Math.abs(growthRps)
    if (waiting <= 1.5 * limit) return tenthSeconds
    return growthRps > 0 ? Number.POSITIVE_INFINITY : (waiting - limit) / -growthRps
  }
}
