/**
 * What a fleet of equal replicas does under a demand: hours in which the SLO breaks, and replica-hours to pay.
 * Replicas are pooled by an even split: n replicas at a demand d each see d / n, and answer with the latency of their own load curve there.
 * That is what a good load balancer comes near to; it takes no credit for the smoothing that pooling brings, and none is lost to a bad one.
 */
import { type CurveKnot, latencyAt } from '../../profiler/capacity/capacity-under.ts'
import { replicasFor } from '../../search/objective.ts'
import { type Demand, peakOf } from './demand.ts'

/** A configuration to plan with. */
export interface FleetUnit {
  readonly label: string
  /** Highest rate of one replica within the SLO, requests per second. */
  readonly capacityRps: number
  /** SLO-percentile load curve of one replica; absent: the SLO breaks beyond the capacity. */
  readonly curve?: readonly CurveKnot[]
  readonly limitMs: number
  /** Seconds from start to ready. */
  readonly launchSeconds: number
}

interface AutoscalerModel {
  /** Share of the capacity kept free. */
  readonly headroom: number
  readonly minReplicas: number
  readonly maxReplicas: number
  /** From a rise in demand to the order of a replica: metric window and control loop, seconds. */
  readonly reactionSeconds: number
  /** A replica is taken away when it was not needed for this long, seconds (Kubernetes' default: 300). */
  readonly scaleDownSeconds: number
}

export interface FleetOutcome {
  /** Mean of replicas that are paid for (ready or starting). */
  readonly meanReplicas: number
  readonly leastReplicas: number
  readonly mostReplicas: number
  /** Share of the time in which the SLO breaks, and of the requests that fall into it. */
  readonly brokenTime: number
  readonly brokenRequests: number
  /** Hours of the day (0-23) in which it breaks at all. */
  readonly brokenHours: readonly number[]
}

/** Whether n replicas keep the SLO at a demand. */
export function keepsSlo(unit: FleetUnit, rps: number, replicas: number): boolean {
  if (rps === 0) return true
  if (replicas === 0) return false
  const each = rps / replicas
  // The curve passes through the capacity at the limit; without the allowance rounding would break a fleet that is sized to the request.
  if (each <= unit.capacityRps * (1 + 1e-9)) return true
  return unit.curve !== undefined && each <= unit.curve.at(-1)!.rateRps && latencyAt(unit.curve, each) <= unit.limitMs
}

/** A number of replicas that never changes. */
export function staticFleet(unit: FleetUnit, demand: Demand, replicas: number): FleetOutcome {
  const broken = new Broken(demand.stepSeconds)
  for (const [i, rps] of demand.rps.entries()) broken.add(i * demand.stepSeconds, rps, keepsSlo(unit, rps, replicas))
  return { meanReplicas: replicas, leastReplicas: replicas, mostReplicas: replicas, ...broken.outcome() }
}

/** Replicas for the peak of a demand. */
export const replicasForPeak = (unit: FleetUnit, demand: Demand, headroom: number): number =>
  replicasFor({ demandRps: peakOf(demand), headroom }, unit.capacityRps)

/**
 * A fleet that follows the demand: it orders replicas `reactionSeconds` after they are needed, they serve `launchSeconds` later, and they go when they were
 * not needed for `scaleDownSeconds`. The period is played twice and the second time counts, so that it begins as it ended.
 */
export function autoscaledFleet(unit: FleetUnit, demand: Demand, model: AutoscalerModel): FleetOutcome {
  const period = demand.rps.length * demand.stepSeconds
  // 15 s is the control loop of Kubernetes' autoscaler; longer traces are played in at most 200,000 steps.
  const dt = Math.max(Math.min(15, demand.stepSeconds), period / 200_000)
  const steps = Math.round(period / dt)
  const at = (step: number) => demand.rps[Math.floor((((step + steps) % steps) * dt) / demand.stepSeconds)] ?? demand.rps.at(-1)!
  const wanted = (step: number) =>
    Math.min(
      model.maxReplicas,
      Math.max(model.minReplicas, replicasFor({ demandRps: at(step), headroom: model.headroom }, unit.capacityRps)),
    )
  const reaction = Math.round(model.reactionSeconds / dt)
  const launch = Math.round(unit.launchSeconds / dt)
  const hold = Math.max(1, Math.round(model.scaleDownSeconds / dt))

  const broken = new Broken(dt)
  const starting: { readyAt: number; count: number }[] = []
  const recent: { step: number; wanted: number }[] = []
  let ready = wanted(0)
  let paid = 0
  let least = Number.POSITIVE_INFINITY
  let most = 0
  for (let step = 0; step < 2 * steps; step++) {
    while (starting[0] && starting[0].readyAt <= step) ready += starting.shift()!.count
    const now = wanted(step - reaction)
    // The highest wish of the last `hold` steps, as a queue of falling values.
    while (recent.length > 0 && recent.at(-1)!.wanted <= now) recent.pop()
    recent.push({ step, wanted: now })
    while (recent[0]!.step <= step - hold) recent.shift()
    const target = recent[0]!.wanted
    let running = ready + starting.reduce((sum, s) => sum + s.count, 0)
    if (target > running) starting.push({ readyAt: step + launch, count: target - running })
    while (running > target) {
      const last = starting.at(-1)
      const gone = Math.min(running - target, last ? last.count : ready)
      if (!last) ready -= gone
      else if (gone === last.count) starting.pop()
      else starting[starting.length - 1] = { ...last, count: last.count - gone }
      running -= gone
    }
    if (launch === 0) while (starting.length > 0) ready += starting.shift()!.count
    if (step < steps) continue
    const total = Math.max(target, running)
    paid += total
    least = Math.min(least, total)
    most = Math.max(most, total)
    broken.add((step - steps) * dt, at(step), keepsSlo(unit, at(step), ready))
  }
  return { meanReplicas: paid / steps, leastReplicas: least, mostReplicas: most, ...broken.outcome() }
}

class Broken {
  #time = 0
  #brokenTime = 0
  #requests = 0
  #brokenRequests = 0
  readonly #hours = new Set<number>()
  constructor(readonly stepSeconds: number) {}

  add(atSeconds: number, rps: number, kept: boolean): void {
    this.#time += 1
    this.#requests += rps
    if (kept) return
    this.#brokenTime += 1
    this.#brokenRequests += rps
    const last = atSeconds + this.stepSeconds - 1e-6
    for (let hour = Math.floor(atSeconds / 3600); hour <= Math.min(Math.floor(last / 3600), Math.floor(atSeconds / 3600) + 23); hour++)
      this.#hours.add(hour % 24)
  }

  outcome(): Pick<FleetOutcome, 'brokenTime' | 'brokenRequests' | 'brokenHours'> {
    return {
      brokenTime: this.#brokenTime / this.#time,
      brokenRequests: this.#requests > 0 ? this.#brokenRequests / this.#requests : 0,
      brokenHours: [...this.#hours].sort((a, b) => a - b),
    }
  }
}
