/**
 * Preselects the trials that can decide a verdict, fast enough to follow a drag of the SLO until
 * all are ranked. It compares only the rate that each load curve reaches within the limit. Pure.
 */
import { quickselect } from 'simple-statistics'
import type { CurveKnot } from '../../../profiler/capacity/capacity-bounds.ts'
import { buildLoadCurve } from '../../../profiler/capacity/rederive/load-curve.ts'
import type { Measurement } from '../../../profiler/model/measurement.ts'
import type { Slo } from '../../../profiler/model/slo.ts'
import { computeCost } from '../../../search/objective.ts'
import {
  type Pricing,
  type ReplicaPrice,
  resolveReplicaPrice,
} from '../../../search/replica-price.ts'
import type { Configuration, Objective } from '../../../search/types.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import { CurveTable } from './curve-table.ts'
import type { TrialGroup } from './trial-groups.ts'

interface Question {
  readonly slo: Slo
  readonly objective: Objective
  readonly pricePerHour: Pricing<Configuration>
  readonly curve?: (measurement: Measurement, slo: Slo) => readonly CurveKnot[]
}

/** Number of preselected configurations: many times more than a verdict can list. */
const maxContenders = 400

/** Caches what stays the same between two questions about a growing list of trials. */
export class Contenders {
  readonly #curves = new CurveTable()
  /** Number of the trials of each group whose load curve is in the table. */
  #drawn: number[] = []
  #curvesOf = ''
  #prices: ReplicaPrice[] = []
  #pricing?: Question['pricePerHour']

  /**
   * Trials of the cheapest configurations by load curve, of confirmed ones and of the baseline, in
   * their order.
   */
  selectContenders(groups: readonly TrialGroup[], question: Question): readonly FinishedTrial[] {
    this.#draw(groups, question)
    this.#price(groups, question)
    const costs = this.#estimateCosts(groups, question)
    const bound =
      costs.length > maxContenders
        ? findNthSmallest(costs, maxContenders)
        : Number.POSITIVE_INFINITY
    return groups
      .filter((group, i) => costs[i]! <= bound || isAlwaysNamed(group))
      .flatMap((group) => group.trials)
      .sort((a, b) => a.number - b.number)
  }

  /** Load curves depend on metric, percentile and error bound, not on the limit. */
  #draw(groups: readonly TrialGroup[], { slo, curve = buildLoadCurve }: Question): void {
    const { limitMs: _, limits, ...counted } = slo
    const curvesKey = JSON.stringify([counted, limits])
    if (curvesKey !== this.#curvesOf) {
      this.#curves.clear()
      this.#drawn = []
    }
    this.#curvesOf = curvesKey
    for (const [owner, { trials }] of groups.entries()) {
      for (let i = this.#drawn[owner] ?? 0; i < trials.length; i++) {
        const trial = trials[i]!
        if (trial.state === 'complete') this.#curves.add(owner, curve(trial.measurement, slo))
      }
      this.#drawn[owner] = trials.length
    }
  }

  #price(groups: readonly TrialGroup[], { pricePerHour }: Question): void {
    if (pricePerHour !== this.#pricing) this.#prices = []
    this.#pricing = pricePerHour
    for (let i = this.#prices.length; i < groups.length; i++)
      this.#prices.push(resolveReplicaPrice(pricePerHour, groups[i]!.configuration))
  }

  /**
   * Cost at the highest rate at which a load curve of the configuration meets the limit. Those that
   * meet it at no rate follow, by unloaded latency.
   */
  #estimateCosts(groups: readonly TrialGroup[], { slo, objective }: Question): Float64Array {
    const idle = this.#curves.getUnloadedMs(groups.length)
    return this.#curves.listRatesWithin(slo.limitMs, groups.length).map((capacityRps, i) => {
      const unloadedMs = idle[i]!
      if (!(capacityRps > 0)) return unservedCost + Math.min(unservedCost, unloadedMs)
      const { pricePerHour, bundles } = this.#prices[i]!
      return computeCost(objective, {
        capacityRps,
        unloadedMs,
        pricePerHour,
        bundles,
        usage: groups[i]!.trials[0]!.usage,
      })
    })
  }
}

/** Confirmed configurations and the baseline: a verdict names them at any cost. */
const isAlwaysNamed = ({ trials }: TrialGroup): boolean =>
  trials.some(({ purpose }) => purpose === 'confirmation' || purpose === 'default')

/** Larger than any cost. */
const unservedCost = 1e15

/** Finds the n-th smallest value, n from 1. */
function findNthSmallest(values: Float64Array, n: number): number {
  const arranged = Array.from(values)
  quickselect(arranged, n - 1)
  return arranged[n - 1]!
}
