/**
 * What a fleet of equal replicas does under a demand: minutes in which the SLO is lost, and
 * replica-hours to pay. The period is played twice and the second time counts, so that it begins as
 * it ended, with what waits.
 */
import { countReplicas } from '../../search/objective.ts'
import { type Demand, peakOf, scaled, secondOfDay } from './demand.ts'
import { Hpa, type HpaSettings, syncSeconds } from './hpa.ts'
import { NodePool } from './node-pool.ts'
import { Course, type SloKept, SloMinutes } from './period.ts'
import { Queues } from './queues.ts'
import { RateSeen } from './rate-seen.ts'
import type { FleetUnit } from './replica.ts'

/** What lies between requests and replicas. */
export interface Surroundings {
  /** After which a client gives up, seconds. */
  readonly timeoutSeconds: number
  /**
   * How old the rates are that an autoscaler sees (scrapes, adapters), seconds, besides the minute
   * that they are means of.
   */
  readonly reactionSeconds: number
}

export interface FleetOutcome extends SloKept {
  /**
   * Mean of replicas that are paid for: those there are, starting or not, and the places of nodes
   * that are held empty.
   */
  readonly meanReplicas: number
  readonly leastReplicas: number
  readonly mostReplicas: number
  /** Ready replicas from each time on, seconds into the period. */
  readonly ready: readonly ReplicaStep[]
  /** Those that are paid for. */
  readonly paid: readonly ReplicaStep[]
}

interface ReplicaStep {
  readonly seconds: number
  readonly replicas: number
}

/** A number of replicas that never changes. */
export function staticFleet(
  unit: FleetUnit,
  demand: Demand,
  replicas: number,
  { timeoutSeconds }: Surroundings,
): FleetOutcome {
  const course = new Course(demand)
  const period = course.periodSeconds
  const queues = new Queues(unit, timeoutSeconds)
  queues.add(replicas)
  const minutes = new SloMinutes(period, unit.percentile, secondOfDay(demand))
  for (const counts of [false, true]) {
    const start = counts ? period : 0
    for (let at = 0; at < period - 1e-9; ) {
      const { rps, until } = course.at(start + at)
      const end = Math.min(minutes.end(at), until - start, period)
      const flow = queues.advance(rps, end - at)
      if (counts) minutes.add(at, flow)
      at = end
    }
  }
  const ready = [{ seconds: 0, replicas }]
  return {
    meanReplicas: replicas,
    leastReplicas: replicas,
    mostReplicas: replicas,
    ready,
    paid: ready,
    ...minutes.outcome(),
  }
}

/**
 * The fewest replicas that keep the SLO, with the headroom besides: in every minute, and over the
 * whole period taken together.
 */
export function replicasThatKeep(
  unit: FleetUnit,
  demand: Demand,
  headroom: number,
  surroundings: Surroundings,
): { readonly everyMinute: number; readonly wholePeriod: number } {
  const asked = scaled(demand, 1 / (1 - headroom))
  const peak = countReplicas({ demandRps: peakOf(asked), headroom: 0 }, unit.capacityRps)
  const fewest = (keeps: (outcome: FleetOutcome) => boolean, most: number) => {
    let [low, high] = [0, most]
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2)
      if (keeps(staticFleet(unit, asked, middle, surroundings))) high = middle
      else low = middle
    }
    return high
  }
  const everyMinute = fewest(({ lostMinutes }) => lostMinutes === 0, peak)
  return {
    everyMinute,
    wholePeriod: fewest(({ over }) => over <= (1 - unit.percentile) * (1 + 1e-6), everyMinute),
  }
}

/**
 * A fleet whose size an autoscaler sets, on nodes that a cluster autoscaler brings and takes away.
 */
export function autoscaledFleet(
  unit: FleetUnit,
  demand: Demand,
  settings: HpaSettings,
  surroundings: Surroundings,
): FleetOutcome {
  return new AutoscaledPlay(unit, demand, settings, surroundings).outcome()
}

class AutoscaledPlay {
  readonly #course: Course
  readonly #hpa: Hpa
  readonly #queues: Queues
  readonly #pool: NodePool
  readonly #seen: RateSeen
  readonly #minutes: SloMinutes
  readonly #ready: ReplicaStep[] = []
  readonly #paidFor: ReplicaStep[] = []
  readonly #memorySeconds: number
  #starting: { readyAt: number; count: number }[] = []
  #pods: number
  #paid = 0
  #least = Number.POSITIVE_INFINITY
  #most = 0
  /** Since when nothing has changed, and at which rate. */
  #quiet = { since: 0, rps: Number.NaN }

  constructor(unit: FleetUnit, demand: Demand, settings: HpaSettings, surroundings: Surroundings) {
    this.#course = new Course(demand)
    this.#hpa = new Hpa(settings)
    this.#queues = new Queues(unit, surroundings.timeoutSeconds)
    this.#pool = new NodePool(unit)
    this.#seen = new RateSeen(surroundings.reactionSeconds, settings.counts)
    this.#minutes = new SloMinutes(this.#course.periodSeconds, unit.percentile, secondOfDay(demand))
    this.#memorySeconds =
      Math.max(this.#hpa.memorySeconds, this.#pool.memorySeconds) +
      this.#seen.memorySeconds +
      syncSeconds
    const wished = Math.ceil(demand.spans[0]!.rps / settings.targetRps - 1e-9)
    this.#pods = Math.min(settings.maxReplicas, Math.max(settings.minReplicas, wished))
    this.#queues.add(this.#pods)
    this.#pool.needs(0, this.#pods)
  }

  outcome(): FleetOutcome {
    const period = this.#course.periodSeconds
    for (let at = 0; at < 2 * period - 1e-9; ) {
      this.#look(at)
      const end = Math.min(2 * period, this.#nextLook(at))
      this.#until(at, end)
      at = end
    }
    return {
      meanReplicas: this.#paid / period,
      leastReplicas: this.#least,
      mostReplicas: this.#most,
      ready: this.#ready,
      paid: this.#paidFor,
      ...this.#minutes.outcome(),
    }
  }

  /** The autoscaler's. */
  #look(at: number): void {
    const wanted = this.#hpa.replicas(at, this.#seen.rps(at), this.#pods)
    const before = this.#pods
    for (const { inSeconds, count } of this.#pool.places(at, before, wanted))
      this.#starting.push({ readyAt: at + inSeconds, count })
    let gone = before - wanted
    this.#starting.sort((a, b) => a.readyAt - b.readyAt)
    for (let last = this.#starting.at(-1); gone > 0 && last; last = this.#starting.at(-1)) {
      const taken = Math.min(gone, last.count)
      last.count -= taken
      gone -= taken
      if (last.count === 0) this.#starting.pop()
    }
    if (gone > 0) this.#queues.remove(gone)
    this.#pods = wanted
    this.#pool.needs(at, wanted)
    const { rps } = this.#course.at(at)
    const busy =
      wanted !== before ||
      this.#starting.length > 0 ||
      this.#queues.waiting ||
      rps !== this.#quiet.rps
    if (busy) this.#quiet = { since: at, rps }
  }

  /**
   * Where nothing has changed for as long as anything remembers, nothing will until shortly before
   * the rate does.
   */
  #nextLook(at: number): number {
    if (at - this.#quiet.since < this.#memorySeconds) return at + syncSeconds
    const { until } = this.#course.at(at)
    const looks = Math.floor((until - this.#memorySeconds - at) / syncSeconds)
    return at + Math.max(1, looks) * syncSeconds
  }

  #until(from: number, to: number): void {
    const period = this.#course.periodSeconds
    for (let at = from; at < to - 1e-9; ) {
      while (this.#starting[0] && this.#starting[0].readyAt <= at + 1e-9)
        this.#queues.add(this.#starting.shift()!.count)
      const { rps, until } = this.#course.at(at)
      const into = at >= period - 1e-9 ? at - period : at
      const minute = at - into + this.#minutes.end(into)
      const halves = into === at ? period : 2 * period
      const end = Math.min(to, until, minute, halves, this.#starting[0]?.readyAt ?? to)
      const flow = this.#queues.advance(rps, end - at)
      this.#seen.add(end, flow)
      if (into !== at) this.#count(into, end - at, flow)
      at = end
    }
  }

  #count(into: number, seconds: number, flow: Parameters<SloMinutes['add']>[1]): void {
    this.#minutes.add(into, flow)
    const paid = this.#pool.paid(this.#pods)
    this.#paid += paid * seconds
    if (this.#paidFor.at(-1)?.replicas !== paid)
      this.#paidFor.push({ seconds: into, replicas: paid })
    this.#least = Math.min(this.#least, this.#pods)
    this.#most = Math.max(this.#most, this.#pods)
    const replicas = this.#queues.ready
    if (this.#ready.at(-1)?.replicas !== replicas) this.#ready.push({ seconds: into, replicas })
  }
}
