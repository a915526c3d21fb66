import { Matrix } from 'ml-matrix'
import type { Knowledge } from './design.ts'
import { createEncoder } from './encoding.ts'
import { fitGp } from './gp-fit.ts'
import { condition } from './gp-regression.ts'
import { remembered } from './remembered.ts'
import { configurationKey } from './space.ts'
import type { Configuration, PastExperiment, SearchSpace } from './types.ts'

/**
 * Another job's past is as likely to mislead as to help: it is believed once the trials are
 * likelier with it.
 */
const BURDEN = 1
const FITTED = 80
const CONDITIONED = 300

/**
 * Past experiments as knowledge of the rates of a new one (where they failed, and what they took,
 * is each job's own: cliffs lie elsewhere): each one's posterior mean is a column of the trend
 * whose slope is about its weight. Weights are the agreement of its ranking with the trials so far,
 * those no better than chance left out (the ranking loss of RGPE: Feurer, Letham, Hutter and
 * Bakshy, 'Practical transfer learning for Bayesian optimization', 2018), here inside one Bayesian
 * regression. Experiments that lack a rate, or tuned a parameter this space does not have, are left
 * out too. Undefined where none is left.
 */
export function pastKnowledge(
  history: readonly PastExperiment[],
  space: SearchSpace,
  trials: readonly { readonly at: Configuration; readonly target: number }[] = [],
): Knowledge | undefined {
  const names = new Set(space.parameters.map((p) => p.name))
  const usable = history.filter((past) => past.space.parameters.every((p) => names.has(p.name)))
  const configurations = trials.map((t) => t.at)
  const agreeing = usable
    .flatMap((past) => pastMean(past) ?? [])
    .map((mean) => ({ mean, weight: agreement(mean(configurations), trials) }))
    .filter(({ weight }) => weight > 0)
  if (agreeing.length === 0) return undefined
  const total = agreeing.reduce((sum, { weight }) => sum + weight, 0)
  return {
    slopes: agreeing.map(({ weight }) => [weight / total, 0.5 / Math.sqrt(agreeing.length)]),
    columns(at) {
      const past = agreeing.map(({ mean }) => mean(at))
      return at.map((_, i) => past.map((values) => values[i]!))
    },
    burden: BURDEN,
    correction: 0.3,
    offsetSd: 1,
    signal: [-3, 1],
  }
}

/** Pairs it takes before a ranking is judged. */
const JUDGED_PAIRS = 3

/** Kendall's τ between predictions and targets, 1 while there are too few pairs to tell. */
function agreement(
  predicted: Float64Array,
  trials: readonly { readonly target: number }[],
): number {
  let pairs = 0
  let score = 0
  for (let i = 0; i < trials.length; i++)
    for (let j = 0; j < i; j++) {
      if (trials[i]!.target === trials[j]!.target) continue
      pairs++
      score += Math.sign((predicted[i]! - predicted[j]!) * (trials[i]!.target - trials[j]!.target))
    }
  return pairs < JUDGED_PAIRS ? 1 : score / pairs
}

type PastMean = (configurations: readonly Configuration[]) => Float64Array

/** The posterior mean of a past experiment's ln rate. */
const pastMean = remembered(fitPast)

function fitPast(past: PastExperiment): PastMean | undefined {
  const data = past.observations.flatMap((o) =>
    o.state === 'complete' && o.rate && o.rate.value > 0
      ? [{ at: o.configuration, target: Math.log(o.rate.value) }]
      : [],
  )
  if (data.length < 3) return undefined
  const encoder = createEncoder(past.space)
  const own = past.space.parameters.map((p) => p.name)
  const project = (c: Configuration): Configuration =>
    Object.fromEntries(own.map((name) => [name, c[name]!]))
  const average = data.reduce((sum, d) => sum + d.target, 0) / data.length
  const gpData = (points: typeof data) => ({
    X: new Matrix(points.map((d) => encoder.encode(d.at))),
    y: Float64Array.from(points, (d) => d.target - average),
  })
  const shape = {
    groups: encoder.columns.map((c) => c.group),
    slopeMean: new Float64Array(encoder.columns.length),
    slopeVariance: new Float64Array(encoder.columns.length).fill(1),
  }
  const { hyperparameters } = fitGp(shape, gpData(thin(data, FITTED)))
  const gp = condition(shape, gpData(thin(data, CONDITIONED)), hyperparameters)
  const measured = new Map(data.map((d) => [configurationKey(project(d.at)), d.target]))
  const predicted = new WeakMap<Configuration, number>()
  return (configurations) => {
    const unknown = configurations.filter((c) => !predicted.has(c))
    const elsewhere = unknown.filter((c) => !measured.has(configurationKey(project(c))))
    for (const c of unknown) predicted.set(c, measured.get(configurationKey(project(c))) ?? average)
    if (elsewhere.length > 0) {
      const { mean } = gp.predict(elsewhere.map(encoder.encode))
      for (const [i, c] of elsewhere.entries()) predicted.set(c, mean[i]! + average)
    }
    return Float64Array.from(configurations, (c) => predicted.get(c)!)
  }
}

/** At most `count` of the items, evenly. */
const thin = <T>(items: readonly T[], count: number): T[] =>
  items.length <= count
    ? [...items]
    : Array.from({ length: count }, (_, i) => items[Math.floor((i * items.length) / count)]!)
