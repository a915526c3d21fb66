/**
 * Simulates a fleet of equal replicas under a demand: minutes of SLO violation, and replica-hours
 * to pay. The period is simulated twice and the second pass counts, so that it starts with the
 * queues of a running fleet.
 */
import { countReplicas } from '../../search/objective.ts'
import { type Demand, findPeakRps, getSecondOfDay, scaleDemand } from './demand.ts'
import { Hpa, type HpaSettings, syncSeconds } from './hpa.ts'
import { NodePool } from './node-pool.ts'
import { ObservedRate } from './observed-rate.ts'
import { DemandCursor, SloMinuteCounter, type SloOutcome } from './period.ts'
import { Queues } from './queues.ts'
import type { FleetUnit } from './replica.ts'

/** Behaviour of the clients and of the metrics around the replicas. */
export interface SimulationEnvironment {
  /** Seconds after which a client gives up. */
  readonly timeoutSeconds: number
  /**
   * Delay of the rates that an autoscaler reads (scrapes, adapters), seconds, in addition to the
   * minute over which they are averaged.
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

/** A change of the number of replicas. */
interface ReplicaStep {
  /** Time of the change, from the start of the period. */
  readonly seconds: number
  readonly replicas: number
}

/** Simulates a fixed number of replicas. */
export function simulateStaticFleet(
  unit: FleetUnit,
  demand: Demand,
  replicas: number,
  { timeoutSeconds }: SimulationEnvironment,
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
 * Finds the minimum numbers of fixed replicas that meet the SLO with the headroom: in every minute,
 * and over all requests of the period together.
 */
export function findMinReplicas(
  unit: FleetUnit,
  demand: Demand,
  headroom: number,
  surroundings: SimulationEnvironment,
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
  surroundings: SimulationEnvironment,
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
  readonly #readySteps: ReplicaStep[] = []
  readonly #paidSteps: ReplicaStep[] = []
  readonly #lookBackSeconds: number
  #starting: { readyAt: number; count: number }[] = []
  #pods: number
  #paidReplicaSeconds = 0
  #minReplicas = Number.POSITIVE_INFINITY
  #maxReplicas = 0
  /** Start of the current steady state in seconds, and its rate. */
  #steadyState = { since: 0, rps: Number.NaN }

  constructor(
    unit: FleetUnit,
    demand: Demand,
    settings: HpaSettings,
    surroundings: SimulationEnvironment,
  ) {
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
    this.#lookBackSeconds =
      Math.max(this.#hpa.lookBackSeconds, this.#pool.lookBackSeconds) +
      this.#observedRate.lookBackSeconds +
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
      meanReplicas: this.#paidReplicaSeconds / period,
      minReplicas: this.#minReplicas,
      maxReplicas: this.#maxReplicas,
      ready: this.#readySteps,
      paid: this.#paidSteps,
      ...this.#minutes.summariseOutcome(),
    }
  }

  /** Runs one sync of the autoscaler: it starts new replicas, or stops the youngest ones. */
  #runAutoscaler(at: number): void {
    const requestedReplicas = this.#hpa.decideReplicas(
      at,
      this.#observedRate.computeRps(at),
      this.#pods,
    )
    const podsBefore = this.#pods
    for (const { inSeconds, count } of this.#pool.orderPods(at, podsBefore, requestedReplicas))
      this.#starting.push({ readyAt: at + inSeconds, count })
    let excess = podsBefore - requestedReplicas
    this.#starting.sort((a, b) => a.readyAt - b.readyAt)
    for (let last = this.#starting.at(-1); excess > 0 && last; last = this.#starting.at(-1)) {
      const cancelled = Math.min(excess, last.count)
      last.count -= cancelled
      excess -= cancelled
      if (last.count === 0) this.#starting.pop()
    }
    if (excess > 0) this.#queues.removeReplicas(excess)
    this.#pods = requestedReplicas
    this.#pool.requirePods(at, requestedReplicas)
    const { rps } = this.#demandCursor.readRate(at)
    const isChanging =
      requestedReplicas !== podsBefore ||
      this.#starting.length > 0 ||
      this.#queues.hasWaiting ||
      rps !== this.#steadyState.rps
    if (isChanging) this.#steadyState = { since: at, rps }
  }

  /**
   * Finds the next sync to simulate. Once the steady state lasts longer than the memory of
   * autoscaler, nodes and metrics, syncs are skipped until shortly before the rate changes.
   */
  #findNextSync(at: number): number {
    if (at - this.#steadyState.since < this.#lookBackSeconds) return at + syncSeconds
    const { until } = this.#demandCursor.readRate(at)
    const syncs = Math.floor((until - this.#lookBackSeconds - at) / syncSeconds)
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
    this.#paidReplicaSeconds += paid * seconds
    if (this.#paidSteps.at(-1)?.replicas !== paid)
      this.#paidSteps.push({ seconds: periodSecond, replicas: paid })
    this.#minReplicas = Math.min(this.#minReplicas, this.#pods)
    this.#maxReplicas = Math.max(this.#maxReplicas, this.#pods)
    const replicas = this.#queues.readyReplicas
    if (this.#readySteps.at(-1)?.replicas !== replicas)
      this.#readySteps.push({ seconds: periodSecond, replicas })
  }
}
