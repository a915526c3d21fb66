/**
 * Main effect of each parameter on the capacity, and its share of the variance, with the
 * uncertainty of few trials.
 * A Gaussian process is fitted to ln(capacity) of the trials that served; K functions are drawn
 * from its posterior, jointly over a designed set of configurations: B drawn uniformly from the
 * space, each repeated with every value v of every parameter p.
 *   effect of p = v E_b f(x_b | p = v) - E f shown as exp(...): 1.2 = 20 % more capacity
 *   total-order index of p E_b Var_v f(x_b | p = v) / Var f (Saltelli et al., Global Sensitivity
 *   Analysis, 2008, §4.6)
 * Each draw gives both; their 5 %, 50 % and 95 % quantiles are the interval. Total-order indices
 * count interactions once for every parameter in them, so they may sum to more than 1.
 * Configurations that a space's conditions forbid are not left out. Pure.
 */

import { fitSurrogate } from '../../../search/model/surrogate.ts'
import { createRng } from '../../../search/rng.ts'
import { decodeConfiguration, listParameterValues } from '../../../search/space/space.ts'
import type { Configuration, Observation, Parameter, Rng } from '../../../search/types.ts'

export interface Range {
  readonly low: number
  readonly median: number
  readonly high: number
}
export interface Effect {
  readonly parameter: string
  /** Total-order index, 0-1. */
  readonly importance: Range
  /** Capacity at each value, relative to the mean over the space. */
  readonly values: readonly (Range & { readonly value: number | string })[]
}
export interface Effects {
  readonly effects: readonly Effect[]
  /** Trials that the model was fitted to, and all that served. */
  readonly fitted: number
  readonly served: number
}
export interface FeasiblePoint {
  readonly trial: number
  readonly configuration: Configuration
  readonly capacityRps: number
  /** Standard deviation of ln(capacity), if known. */
  readonly logSd?: number
}

/** With fewer trials, effects are dominated by noise. */
export const minTrials = 4
/** Larger sets are sampled, because fitting a Gaussian process takes O(n³). */
const maxFittedTrials = 120
/** Random configurations of the other parameters, over which an effect is averaged. */
const backgroundPoints = 24
/** Functions sampled from the posterior, for the interval of an effect. */
const functionDraws = 64
/** Values of a parameter at which its effect is computed. */
const maxValues = 8

/**
 * Effects of every parameter that varies, the most important first; undefined with too few trials.
 */
export function computeEffects(
  parameters: readonly Parameter[],
  served: readonly FeasiblePoint[],
  seed: number,
): Effects | undefined {
  const varying = listVarying(parameters)
  if (served.length < minTrials || varying.length === 0) return undefined
  const rng = createRng(`importance ${seed}`)
  const points = thinTrials(served, rng.fork('thin').next)
  const place = rng.fork('background').next
  const base = Array.from({ length: backgroundPoints }, () =>
    decodeConfiguration({ parameters, constraints: [] }, parameters.map(place)),
  )
  const design = varying.flatMap(({ parameter, values }) =>
    values.flatMap((v) => base.map((c) => ({ ...c, [parameter.name]: v }))),
  )
  const functions = sampleFunctions(design, parameters, points, rng.fork('draws'))
  if (functions.length === 0) return undefined

  let at = 0
  const effects = varying.map(({ parameter, values }): Effect => {
    const from = at
    at += values.length * backgroundPoints
    const each = functions.map((f) => computeEffect(f, from, values.length))
    return {
      parameter: parameter.name,
      importance: computeRange(each.map((e) => e.total)),
      values: values.map((value, v) => ({
        value,
        ...computeRange(each.map((e) => Math.exp(e.main[v]!))),
      })),
    }
  })
  effects.sort((a, b) => b.importance.median - a.importance.median)
  return { effects, fitted: points.length, served: served.length }
}

/** Parameters with several values, and up to eight of these values. */
export const listVarying = (
  parameters: readonly Parameter[],
): { readonly parameter: Parameter; readonly values: readonly (number | string)[] }[] =>
  parameters
    .map((parameter) => ({ parameter, values: listValues(parameter) }))
    .filter(({ values }) => values.length > 1)

/** Samples functions from the posterior of ln(capacity) at the configurations of a design. */
export function sampleFunctions(
  design: readonly Configuration[],
  parameters: readonly Parameter[],
  points: readonly FeasiblePoint[],
  rng: Rng,
): Float64Array[] {
  const surrogate = fitSurrogate(
    {
      space: { parameters, constraints: [] },
      objective: { kind: 'max-rate', maxPricePerHour: Number.POSITIVE_INFINITY },
      pricePerHour: () => 1,
    },
    points.map(
      ({ configuration, capacityRps, logSd }): Observation => ({
        configuration,
        state: 'complete',
        rate: { value: capacityRps, logSd },
      }),
    ),
    [],
  )
  const sample = surrogate.sampleJoint(design, rng)
  return Array.from({ length: functionDraws }, () => sample.next().rate).filter(
    (rate) => rate !== undefined,
  )
}

/**
 * Main effects and total-order index of one parameter in one drawn function, whose values for it
 * start at `from`, value by value.
 */
function computeEffect(
  f: Float64Array,
  from: number,
  values: number,
): { main: number[]; total: number } {
  const at = (v: number, b: number) => f[from + v * backgroundPoints + b]!
  const overallMean = f.reduce((sum, y) => sum + y, 0) / f.length
  const variance = f.reduce((sum, y) => sum + (y - overallMean) ** 2, 0) / f.length
  const valueMeans = Array.from({ length: values }, (_, v) =>
    mean(backgroundPoints, (b) => at(v, b)),
  )
  const centre = mean(values, (v) => valueMeans[v]!)
  const within = mean(backgroundPoints, (b) => {
    const level = mean(values, (v) => at(v, b))
    return mean(values, (v) => (at(v, b) - level) ** 2)
  })
  return {
    main: valueMeans.map((y) => y - centre),
    total: variance > 0 ? Math.min(1, within / variance) : 0,
  }
}

const mean = (n: number, of: (i: number) => number): number => {
  let sum = 0
  for (let i = 0; i < n; i++) sum += of(i)
  return sum / n
}

export function computeRange(values: readonly number[]): Range {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (q: number) => sorted[Math.round(q * (sorted.length - 1))]!
  return { low: at(0.05), median: at(0.5), high: at(0.95) }
}

/** Values of a parameter, or eight evenly spread ones. */
function listValues(parameter: Parameter): readonly (number | string)[] {
  const all = listParameterValues(parameter)
  if (all && all.length <= maxValues) return all
  if (parameter.kind === 'categorical') return parameter.values.slice(0, maxValues)
  const at = (i: number) =>
    decodeConfiguration({ parameters: [{ ...parameter, when: undefined }], constraints: [] }, [
      (i + 0.5) / maxValues,
    ])
  return [...new Set(Array.from({ length: maxValues }, (_, i) => at(i)[parameter.name]!))]
}

export function thinTrials(
  served: readonly FeasiblePoint[],
  next: () => number,
): readonly FeasiblePoint[] {
  if (served.length <= maxFittedTrials) return served
  const keyed = served.map((point) => ({ point, key: next() })).sort((a, b) => a.key - b.key)
  return keyed.slice(0, maxFittedTrials).map(({ point }) => point)
}
