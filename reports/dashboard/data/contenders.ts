/**
 * Of very many trials those that a verdict can turn on, found in a moment: the answer to a drag,
 * until all have been ranked. Only how far each load curve reaches under the limit is looked at,
 * and no configuration is judged. Pure.
 */
import { quickselect } from 'simple-statistics'
import type { CurveKnot } from '../../../profiler/capacity/capacity-bounds.ts'
import { buildLoadCurve } from '../../../profiler/capacity/rederive/load-curve.ts'
import type { Measurement } from '../../../profiler/model/measurement.ts'
import type { Slo } from '../../../profiler/model/slo.ts'
import { cost } from '../../../search/objective.ts'
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

/**
 * Contenders, of which the cheapest are certain to be among many times more than any list of the
 * verdict names.
 */
const most = 400

/**
 * Remembers what does not change between two questions of the same trials, to which more are added.
 */
export class Contenders {
  readonly #curves = new CurveTable()
  /** By group: so many of its trials have their load curve in the table. */
  #drawn: number[] = []
  #curvesOf = ''
  #prices: ReplicaPrice[] = []
  #pricing?: Question['pricePerHour']

  /**
   * Trials of the configurations that cost least by their load curves alone, of those with a second
   * measurement, and of the default, in their order.
   */
  among(groups: readonly TrialGroup[], question: Question): readonly FinishedTrial[] {
    this.#draw(groups, question)
    this.#price(groups, question)
    const costs = this.#costs(groups, question)
    const bound = costs.length > most ? nthLeast(costs, most) : Number.POSITIVE_INFINITY
    return groups
      .filter((group, i) => costs[i]! <= bound || isNamed(group))
      .flatMap((group) => group.trials)
      .sort((a, b) => a.number - b.number)
  }

  /** Load curves depend on what is counted, not on the limit. */
  #draw(groups: readonly TrialGroup[], { slo, curve = buildLoadCurve }: Question): void {
    const { limitMs: _, limits, ...counted } = slo
    const of = JSON.stringify([counted, limits])
    if (of !== this.#curvesOf) {
      this.#curves.clear()
      this.#drawn = []
    }
    this.#curvesOf = of
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
   * By the highest rate at which any of its load curves keeps the limit. One that keeps it at no
   * rate comes after all that do, by how slow it is alone.
   */
  #costs(groups: readonly TrialGroup[], { slo, objective }: Question): Float64Array {
    const idle = this.#curves.unloadedMs(groups.length)
    return this.#curves.ratesWithin(slo.limitMs, groups.length).map((capacityRps, i) => {
      const unloadedMs = idle[i]!
      if (!(capacityRps > 0)) return unserved + Math.min(unserved, unloadedMs)
      const { pricePerHour, bundles } = this.#prices[i]!
      return cost(objective, {
        capacityRps,
        unloadedMs,
        pricePerHour,
        bundles,
        usage: groups[i]!.trials[0]!.usage,
      })
    })
  }
}

/** It has a second measurement, or is the default: a verdict names it whatever it costs. */
const isNamed = ({ trials }: TrialGroup): boolean =>
  trials.some(({ purpose }) => purpose === 'confirmation' || purpose === 'default')

/** More than anything costs. */
const unserved = 1e15

/** The n-th least of the values, n from 1. */
function nthLeast(values: Float64Array, n: number): number {
  const arranged = Array.from(values)
  quickselect(arranged, n - 1)
  return arranged[n - 1]!
}
