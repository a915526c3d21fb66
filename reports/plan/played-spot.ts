/**
 * A fleet some of which is spot, played in virtual time: instances are taken at random, their
 * replacements serve later, and requests feel what is missing.
 */
import { createRng } from '../../search/rng.ts'
import type { Demand } from './demand.ts'
import type { FleetOutcome, Surroundings } from './fleet.ts'
import type { SpotRisk } from './interruptions.ts'
import type { Split } from './mix.ts'
import { Course, SloMinutes } from './period.ts'
import { Queues } from './queues.ts'
import type { FleetUnit } from './replica.ts'

export interface SpotPlay {
  /** Periods one after the other, as many as make these days or more. */
  readonly days: number
  readonly lostMinutes: number
  readonly minutes: number
  readonly interruptions: number
}

interface SpotFleet {
  readonly unit: FleetUnit
  readonly demand: Demand
  readonly surroundings: Surroundings
  /** What serves without interruptions. */
  readonly fleet: Pick<FleetOutcome, 'ready'>
  readonly replicasEach: number
  /** What so many needed instances are. */
  readonly split: (instances: number) => Split
  readonly risk: SpotRisk
}

const daySeconds = 86_400

/** Plays whole periods of at least `leastDays`, after one that does not count. */
export function playSpot(fleet: SpotFleet, leastDays: number, seed: number): SpotPlay {
  const play = new Play(fleet, seed)
  const { periodSeconds } = play.course
  const periods = Math.max(1, Math.ceil((leastDays * daySeconds) / periodSeconds - 1e-9))
  play.period(undefined)
  play.interruptions = 0
  let lostMinutes = 0
  let minutes = 0
  for (let i = 0; i < periods; i++) {
    const kept = new SloMinutes(periodSeconds, fleet.unit.percentile)
    play.period(kept)
    lostMinutes += kept.outcome().lostMinutes
    minutes += kept.outcome().minutes
  }
  return {
    days: (periods * periodSeconds) / daySeconds,
    lostMinutes,
    minutes,
    interruptions: play.interruptions,
  }
}

class Play {
  readonly course: Course
  interruptions = 0
  readonly #fleet: SpotFleet
  readonly #queues: Queues
  readonly #uniform: () => number
  /** When the replacements serve, soonest first. */
  #back: number[] = []
  #ready = 0
  #start = 0

  constructor(fleet: SpotFleet, seed: number) {
    this.#fleet = fleet
    this.course = new Course(fleet.demand)
    this.#queues = new Queues(fleet.unit, fleet.surroundings.timeoutSeconds)
    this.#uniform = createRng(seed).fork('spot').next
  }

  period(minutes: SloMinutes | undefined): void {
    const { fleet } = this.#fleet
    const { periodSeconds } = this.course
    const steps = fleet.ready
    const minuteEnd = (at: number) => minutes?.end(at) ?? periodSeconds
    for (let at = 0, step = 0; at < periodSeconds - 1e-9; ) {
      while (steps[step + 1] && steps[step + 1]!.seconds <= at + 1e-9) step++
      const spot = this.#serve(at, steps[step]!.replicas)
      const rate =
        (Math.max(0, spot - this.#back.length) * this.#fleet.risk.interruptionsPerHour) / 3600
      // Without memory: the time until the next one may be drawn anew after each piece.
      const taken = rate > 0 ? at - Math.log(this.#uniform()) / rate : Number.POSITIVE_INFINITY
      const { rps, until } = this.course.at(this.#start + at)
      const returns = (this.#back[0] ?? Number.POSITIVE_INFINITY) - this.#start
      const end = Math.min(
        minuteEnd(at),
        until - this.#start,
        steps[step + 1]?.seconds ?? periodSeconds,
        periodSeconds,
        taken,
        returns,
      )
      const flow = this.#queues.advance(rps, end - at)
      minutes?.add(at, flow)
      if (end === taken) {
        this.interruptions++
        this.#back.push(this.#start + taken + this.#fleet.risk.outSeconds)
      }
      at = end
    }
    this.#start += periodSeconds
  }

  /**
   * Lets as many replicas serve as there are; returns the spot instances there are, in service or
   * not.
   */
  #serve(at: number, ready: number): number {
    while (this.#back[0] !== undefined && this.#back[0] <= this.#start + at + 1e-6)
      this.#back.shift()
    const { replicasEach, split } = this.#fleet
    const { spot, spotNeeded } = split(Math.ceil(ready / replicasEach - 1e-9))
    // Those that are out go first when fewer are wanted: their replacements are not ordered any
    // more.
    if (this.#back.length > spot) this.#back.length = spot
    const serving = Math.max(0, ready + (spot - spotNeeded - this.#back.length) * replicasEach)
    if (serving > this.#ready) this.#queues.add(serving - this.#ready)
    else this.#queues.remove(this.#ready - serving)
    this.#ready = serving
    return spot
  }
}
