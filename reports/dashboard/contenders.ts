/**
 * Of very many trials those that a verdict can turn on, found in a moment: the answer to a drag, until all have been ranked. Only how far each load curve
 * reaches under the limit is looked at, and no configuration is judged. Pure.
 */
import { loadCurve, rateWithin } from '../../profiler/capacity/capacity-under.ts'
import type { CurveKnot } from '../../profiler/capacity/known-capacity.ts'
import type { Measurement, Slo } from '../../profiler/types.ts'
import { cost } from '../../search/objective.ts'
import { type Pricing, priceOf } from '../../search/replica-price.ts'
import { configurationKey } from '../../search/space.ts'
import type { Configuration, Objective } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'

/** A configuration with all its trials. */
interface Group {
  readonly configuration: Configuration
  readonly trials: FinishedTrial[]
  readonly measured: Measurement[]
  curves: readonly (readonly CurveKnot[])[]
  /** It has a second measurement, or is the default: a verdict names it whatever it costs. */
  named: boolean
}

interface Question {
  readonly slo: Slo
  readonly objective: Objective
  readonly pricePerHour: Pricing<Configuration>
  readonly curve?: (measurement: Measurement, slo: Slo) => readonly CurveKnot[]
}

/** Contenders, of which the cheapest are certain to be among many times more than any list of the verdict names. */
const most = 400

/** Remembers what does not change between two questions of the same trials, to which more are added. */
export class Contenders {
  readonly #groups = new Map<string, Group>()
  #grouped = 0
  #curvesOf = ''

  /** Trials of the configurations that cost least by their load curves alone, of those with a second measurement, and of the default, in their order. */
  among(trials: readonly FinishedTrial[], question: Question): readonly FinishedTrial[] {
    this.#group(trials)
    this.#draw(question)
    const groups = [...this.#groups.values()]
    const costs = Float64Array.from(groups, (group) => quickCost(group, question))
    const bound = costs.toSorted()[Math.min(most, costs.length) - 1] ?? Number.POSITIVE_INFINITY
    return groups
      .filter((group, i) => group.named || costs[i]! <= bound)
      .flatMap((group) => group.trials)
      .sort((a, b) => a.number - b.number)
  }

  #group(trials: readonly FinishedTrial[]): void {
    for (; this.#grouped < trials.length; this.#grouped++) {
      const trial = trials[this.#grouped]!
      const key = configurationKey(trial.configuration)
      const known = this.#groups.get(key)
      const group = known ?? { configuration: trial.configuration, trials: [], measured: [], curves: [], named: false }
      if (!known) this.#groups.set(key, group)
      group.trials.push(trial)
      if (trial.state === 'complete') group.measured.push(trial.measurement)
      if (trial.purpose === 'confirmation' || trial.purpose === 'default') group.named = true
    }
  }

  /** Load curves depend on what is counted, not on the limit. */
  #draw({ slo, curve = loadCurve }: Question): void {
    const { limitMs: _, limits, ...counted } = slo
    const of = JSON.stringify([counted, limits])
    if (of !== this.#curvesOf) for (const group of this.#groups.values()) group.curves = []
    this.#curvesOf = of
    for (const group of this.#groups.values())
      if (group.curves.length < group.measured.length) group.curves = group.measured.map((measurement) => curve(measurement, slo))
  }
}

/** More than anything costs. */
const unserved = 1e15

/** By the highest rate at which any of its load curves keeps the limit. One that keeps it at no rate comes after all that do, by how slow it is alone. */
function quickCost({ configuration, curves, trials }: Group, { slo, objective, pricePerHour }: Question): number {
  const capacityRps = Math.max(0, ...curves.map((curve) => rateWithin(curve, slo.limitMs)))
  const idleMs = Math.min(...curves.map((curve) => curve[0]?.latencyMs ?? Number.POSITIVE_INFINITY))
  if (!(capacityRps > 0)) return unserved + Math.min(unserved, idleMs)
  const usage = trials[0]?.usage
  return cost(objective, { capacityRps, idleMs, ...priceOf(pricePerHour, configuration), ...(usage && { usage }) })
}
