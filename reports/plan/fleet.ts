/**
 * Simulates a fleet of equal replicas under a demand: minutes of SLO violation, and replica-hours to
 * pay. The period is simulated twice and the second pass counts, so that it starts with the queues
 * of a running fleet.
 */
import { countReplicas } from '../../search/objective.ts'
import { type Demand, findPeakRps, getSecondOfDay, scaleDemand } from './demand.ts'
import { Hpa, type HpaSettings, syncSeconds } from './hpa.ts'
import { NodePool } from './node-pool.ts'
import { ObservedRate } from './observed-rate.ts'
import { DemandCursor, SloMinuteCounter, type SloOutcome } from './period.ts'
import { Queues } from './queues.ts'
import type { FleetUnit } from './replica.ts'

/** Clients and metrics around the replicas. */
export interface Surroundings {
  /** Seconds after which a client gives up. */
  readonly timeoutSeconds: number
  /**
   * Age of the rates that an autoscaler reads (scrapes, adapters), seconds, in addition to the minute
   * that they are averaged over.
   */
  readonly reactionSeconds: number
}

export interface FleetOutcome extends SloOutcome {
  /** Mean number of replicas paid for: running and starting ones, and free room on nodes. */
  readonly meanReplicas: number
  readonly minReplicas: number
  readonly maxReplicas: number
  /** Ready replicas over time. */
  readonly ready: readonly ReplicaStep[]
  /** Replicas paid for over time. */
  readonly paid: readonly ReplicaStep[]
}

interface ReplicaStep {
  /** Into the period, from when on there are as many. */
  readonly seconds: number
  readonly replicas: number
}

/** Simulates a fixed number of replicas. */
export function simulateStaticFleet(
  unit: FleetUnit,
  demand: Demand,
  replicas: number,
  { timeoutSeconds }: Surroundings,
): FleetOutcome {
  const demandCursor = new DemandCursor(demand)
  const period = demandCursor.periodSeconds
  const queues = new Queues(unit, timeoutSeconds)
  queues.addReplicas(replicas)
  const minutes = new SloMinuteCounter(period, unit.percentile, getSecondOfDay(demand))
  for (const isCounted of [false, true]) {
    const start = isCounted ? period : 0
    for (let at = 0; at < period - 1e-9; ) {
      const { rps, until } = demandCursor.readRate(start + at)
      const end = Math.min(minutes.findMinuteEnd(at), until - start, period)
      const flow = queues.advance(rps, end - at)
      if (isCounted) minutes.addFlow(at, flow)
      at = end
    }
  }
  const ready = [{ seconds: 0, replicas }]
  return {
    meanReplicas: replicas,
    minReplicas: replicas,
    maxReplicas: replicas,
    ready,
    paid: ready,
    ...minutes.summariseOutcome(),
  }
}

/**
 * The minimum numbers of fixed replicas that meet the SLO with the headroom: in every minute, and
 * over all requests of the period together.
 */
export function findMinReplicas(
  unit: FleetUnit,
  demand: Demand,
  headroom: number,
  surroundings: Surroundings,
): { readonly everyMinute: number; readonly wholePeriod: number } {
  const demandWithHeadroom = scaleDemand(demand, 1 / (1 - headroom))
  const peak = countReplicas(
    { demandRps: findPeakRps(demandWithHeadroom), headroom: 0 },
    unit.capacityRps,
  )
  const bisect = (meets: (outcome: FleetOutcome) => boolean, max: number) => {
    let [low, high] = [0, max]
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2)
      if (meets(simulateStaticFleet(unit, demandWithHeadroom, middle, surroundings))) high = middle
      else low = middle
    }
    return high
  }
  const everyMinute = bisect(({ lostMinutes }) => lostMinutes === 0, peak)
  return {
    everyMinute,
    wholePeriod: bisect(
      ({ overLimitShare }) => overLimitShare <= (1 - unit.percentile) * (1 + 1e-6),
      everyMinute,
    ),
  }
}

/** Simulates a fleet under an autoscaler, on nodes that a cluster autoscaler adds and removes. */
export function simulateAutoscaledFleet(
  unit: FleetUnit,
  demand: Demand,
  settings: HpaSettings,
  surroundings: Surroundings,
): FleetOutcome {
  return new AutoscaledSimulation(unit, demand, settings, surroundings).simulate()
}

class AutoscaledSimulation {
  readonly #demandCursor: DemandCursor
  readonly #hpa: Hpa
  readonly #queues: Queues
  readonly #pool: NodePool
  readonly #observedRate: ObservedRate
  readonly #minutes: SloMinuteCounter
  readonly #ready: ReplicaStep[] = []
  readonly #paidFor: ReplicaStep[] = []
  readonly #memorySeconds: number
  #starting: { readyAt: number; count: number }[] = []
  #pods: number
  #paid = 0
  #minReplicas = Number.POSITIVE_INFINITY
  #maxReplicas = 0
  /** Since when, and at which rate, nothing has changed; seconds. */
  #unchanged = { since: 0, rps: Number.NaN }

  constructor(unit: FleetUnit, demand: Demand, settings: HpaSettings, surroundings: Surroundings) {
    this.#demandCursor = new DemandCursor(demand)
    this.#hpa = new Hpa(settings)
    this.#queues = new Queues(unit, surroundings.timeoutSeconds)
    this.#pool = new NodePool(unit)
    this.#observedRate = new ObservedRate(surroundings.reactionSeconds, settings.countedRequests)
    this.#minutes = new SloMinuteCounter(
      this.#demandCursor.periodSeconds,
      unit.percentile,
      getSecondOfDay(demand),
    )
    this.#memorySeconds =
      Math.max(this.#hpa.memorySeconds, this.#pool.memorySeconds) +
      this.#observedRate.memorySeconds +
      syncSeconds
    const desired = Math.ceil(demand.spans[0]!.rps / settings.targetRps - 1e-9)
    this.#pods = Math.min(settings.maxReplicas, Math.max(settings.minReplicas, desired))
    this.#queues.addReplicas(this.#pods)
    this.#pool.requirePods(0, this.#pods)
  }

  simulate(): FleetOutcome {
    const period = this.#demandCursor.periodSeconds
    for (let at = 0; at < 2 * period - 1e-9; ) {
      this.#runAutoscaler(at)
      const end = Math.min(2 * period, this.#findNextSync(at))
      this.#simulateUntil(at, end)
      at = end
    }
    return {
      meanReplicas: this.#paid / period,
      minReplicas: this.#minReplicas,
      maxReplicas: this.#maxReplicas,
      ready: this.#ready,
      paid: this.#paidFor,
      ...this.#minutes.summariseOutcome(),
    }
  }

  /** One sync of the autoscaler: new replicas start, the youngest ones stop. */
  #runAutoscaler(at: number): void {
    const wanted = this.#hpa.decideReplicas(at, this.#observedRate.computeRps(at), this.#pods)
    const podsBefore = this.#pods
    for (const { inSeconds, count } of this.#pool.orderPods(at, podsBefore, wanted))
      this.#starting.push({ readyAt: at + inSeconds, count })
    let excess = podsBefore - wanted
    this.#starting.sort((a, b) => a.readyAt - b.readyAt)
    for (let last = this.#starting.at(-1); excess > 0 && last; last = this.#starting.at(-1)) {
      const cancelled = Math.min(excess, last.count)
      last.count -= cancelled
      excess -= cancelled
      if (last.count === 0) this.#starting.pop()
    }
    if (excess > 0) this.#queues.removeReplicas(excess)
    this.#pods = wanted
    this.#pool.requirePods(at, wanted)
    const { rps } = this.#demandCursor.readRate(at)
    const isChanging =
      wanted !== podsBefore ||
      this.#starting.length > 0 ||
      this.#queues.hasWaiting ||
      rps !== this.#unchanged.rps
    if (isChanging) this.#unchanged = { since: at, rps }
  }

  /**
   * The next sync to simulate. Once nothing has changed for longer than anything is remembered, syncs
   * are skipped until shortly before the rate changes.
   */
  #findNextSync(at: number): number {
    if (at - this.#unchanged.since < this.#memorySeconds) return at + syncSeconds
    const { until } = this.#demandCursor.readRate(at)
    const syncs = Math.floor((until - this.#memorySeconds - at) / syncSeconds)
    return at + Math.max(1, syncs) * syncSeconds
  }

  #simulateUntil(from: number, to: number): void {
    const period = this.#demandCursor.periodSeconds
    for (let at = from; at < to - 1e-9; ) {
      while (this.#starting[0] && this.#starting[0].readyAt <= at + 1e-9)
        this.#queues.addReplicas(this.#starting.shift()!.count)
      const { rps, until } = this.#demandCursor.readRate(at)
      const periodSecond = at >= period - 1e-9 ? at - period : at
      const minuteEnd = at - periodSecond + this.#minutes.findMinuteEnd(periodSecond)
      const passEnd = periodSecond === at ? period : 2 * period
      const end = Math.min(to, until, minuteEnd, passEnd, this.#starting[0]?.readyAt ?? to)
      const flow = this.#queues.advance(rps, end - at)
      this.#observedRate.addFlow(end, flow)
      if (periodSecond !== at) this.#record(periodSecond, end - at, flow)
      at = end
    }
  }

  #record(
    periodSecond: number,
    seconds: number,
    flow: Parameters<SloMinuteCounter['addFlow']>[1],
  ): void {
    this.#minutes.addFlow(periodSecond, flow)
    const paid = this.#pool.countPaidReplicas(this.#pods)
    this.#paid += paid * seconds
    if (this.#paidFor.at(-1)?.replicas !== paid)
      this.#paidFor.push({ seconds: periodSecond, replicas: paid })
    this.#minReplicas = Math.min(this.#minReplicas, this.#pods)
    this.#maxReplicas = Math.max(this.#maxReplicas, this.#pods)
    const replicas = this.#queues.readyReplicas
    if (this.#ready.at(-1)?.replicas !== replicas)
      this.#ready.push({ seconds: periodSecond, replicas })
  }
}
