import { Matrix } from 'ml-matrix'
import type { Knowledge, Quantity } from './design.ts'
import { createEncoder } from './encoding.ts'
import { condition, fitGp } from './gp.ts'
import { configurationKey } from './space.ts'
import type { Configuration, Observation, PastExperiment, SearchSpace } from './types.ts'

const FITTED = 80
const CONDITIONED = 300
const remembered = new WeakMap<PastExperiment, Map<Quantity, PastMean | undefined>>()

/**
 * Past experiments as knowledge of a new one: each one's posterior mean is a column of the trend whose slope is about 1/J, J of them
 * (past surrogates stacked by Bayesian regression; compare Feurer et al., 'Practical transfer learning for Bayesian optimization', 2018).
 * Experiments that lack the quantity, or tuned a parameter this space does not have, are left out. Undefined where none is left.
 */
export function pastKnowledge(history: readonly PastExperiment[], space: SearchSpace, quantity: Quantity): Knowledge | undefined {
  const names = new Set(space.parameters.map((p) => p.name))
  const usable = history.filter((past) => past.space.parameters.every((p) => names.has(p.name)))
  const means = usable.flatMap((past) => pastMean(past, quantity) ?? [])
  if (means.length === 0) return undefined
  return {
    slopes: means.map(() => [1 / means.length, 0.5 / Math.sqrt(means.length)]),
    columns(configurations) {
      const past = means.map((mean) => mean(configurations))
      return configurations.map((_, i) => past.map((values) => values[i]!))
    },
    correction: 0.3,
    offsetSd: 1,
    signal: [-3, 1],
  }
}

type PastMean = (configurations: readonly Configuration[]) => Float64Array

/** The posterior mean of a past experiment's quantity, in ln units (labels ±1 for serving). Remembered for each experiment object. */
function pastMean(past: PastExperiment, quantity: Quantity): PastMean | undefined {
  const known = remembered.get(past) ?? new Map<Quantity, PastMean | undefined>()
  remembered.set(past, known)
  if (!known.has(quantity)) known.set(quantity, fitPast(past, quantity))
  return known.get(quantity)
}

function fitPast(past: PastExperiment, quantity: Quantity): PastMean | undefined {
  const data = past.observations.flatMap((o) => {
    const target = targetOf(o, quantity)
    return target === undefined ? [] : [{ at: o.configuration, target }]
  })
  if (data.length < 3 || (quantity === 'serves' && data.every((d) => d.target > 0))) return undefined
  const encoder = createEncoder(past.space)
  const own = past.space.parameters.map((p) => p.name)
  const project = (c: Configuration): Configuration => Object.fromEntries(own.map((name) => [name, c[name]!]))
  const average = data.reduce((sum, d) => sum + d.target, 0) / data.length
  const gpData = (points: typeof data) => ({
    X: new Matrix(points.map((d) => [...encoder.encode(d.at)])),
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
  return (configurations) => {
    const { mean } = gp.predict(new Matrix(configurations.map((c) => [...encoder.encode(c)])))
    return mean.map((value, i) => measured.get(configurationKey(project(configurations[i]!))) ?? value + average)
  }
}

function targetOf(o: Observation, quantity: Quantity): number | undefined {
  if (quantity === 'serves') return o.state === 'complete' && o.rate?.value !== 0 ? 1 : -1
  if (o.state !== 'complete') return undefined
  const value = quantity === 'rate' ? o.rate?.value : o.constraint?.value
  return value !== undefined && value > 0 ? Math.log(value) : undefined
}

/** At most `count` of the items, evenly. */
const thin = <T>(items: readonly T[], count: number): T[] =>
  items.length <= count ? [...items] : Array.from({ length: count }, (_, i) => items[Math.floor((i * items.length) / count)]!)
