/**
 * What each parameter does to the capacity, and how much of the capacity's variation hangs on it,
 * with the uncertainty of a few trials.
 *
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
import { configurationAt, parameterValues } from '../../../search/space/space.ts'
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
export interface ServedPoint {
  readonly trial: number
  readonly configuration: Configuration
  readonly capacityRps: number
  /** Standard deviation of ln(capacity), where it is known. */
  readonly logSd?: number
}

/** Fewer served trials say nothing of a parameter. */
export const leastTrials = 4
/** More than this are thinned: a Gaussian process takes n³. */
const mostTrials = 120
const background = 24
const draws = 64
const mostValues = 8

/**
 * Effects of every parameter that varies, the most important first; undefined with too few trials.
 */
export function effectsOf(
  parameters: readonly Parameter[],
  served: readonly ServedPoint[],
  seed: number,
): Effects | undefined {
  const varying = varyingOf(parameters)
  if (served.length < leastTrials || varying.length === 0) return undefined
  const rng = createRng(`importance ${seed}`)
  const points = thinned(served, rng.fork('thin').next)
  const place = rng.fork('background').next
  const base = Array.from({ length: background }, () =>
    configurationAt({ parameters, constraints: [] }, parameters.map(place)),
  )
  const design = varying.flatMap(({ parameter, values }) =>
    values.flatMap((v) => base.map((c) => ({ ...c, [parameter.name]: v }))),
  )
  const functions = drawnOver(design, parameters, points, rng.fork('draws'))
  if (functions.length === 0) return undefined

  let at = 0
  const effects = varying.map(({ parameter, values }): Effect => {
    const from = at
    at += values.length * background
    const each = functions.map((f) => effectIn(f, from, values.length))
    return {
      parameter: parameter.name,
      importance: rangeOf(each.map((e) => e.total)),
      values: values.map((value, v) => ({
        value,
        ...rangeOf(each.map((e) => Math.exp(e.main[v]!))),
      })),
    }
  })
  effects.sort((a, b) => b.importance.median - a.importance.median)
  return { effects, fitted: points.length, served: served.length }
}

/** Parameters of more than one value, with their values, or some spread over them. */
export const varyingOf = (
  parameters: readonly Parameter[],
): { readonly parameter: Parameter; readonly values: readonly (number | string)[] }[] =>
  parameters
    .map((parameter) => ({ parameter, values: valuesOf(parameter) }))
    .filter(({ values }) => values.length > 1)

/** Functions drawn from the posterior of ln(capacity), at the configurations of a design. */
export function drawnOver(
  design: readonly Configuration[],
  parameters: readonly Parameter[],
  points: readonly ServedPoint[],
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
  const drawn = surrogate.sampleJoint(design, rng)
  return Array.from({ length: draws }, () => drawn.next().rate).filter((rate) => rate !== undefined)
}

/**
 * Main effects and total-order index of one parameter in one drawn function, whose values for it
 * start at `from`, value by value.
 */
function effectIn(
  f: Float64Array,
  from: number,
  values: number,
): { main: number[]; total: number } {
  const at = (v: number, b: number) => f[from + v * background + b]!
  const all = f.reduce((sum, y) => sum + y, 0) / f.length
  const variance = f.reduce((sum, y) => sum + (y - all) ** 2, 0) / f.length
  const own = Array.from({ length: values }, (_, v) => mean(background, (b) => at(v, b)))
  const centre = mean(values, (v) => own[v]!)
  const within = mean(background, (b) => {
    const level = mean(values, (v) => at(v, b))
    return mean(values, (v) => (at(v, b) - level) ** 2)
  })
  return {
    main: own.map((y) => y - centre),
    total: variance > 0 ? Math.min(1, within / variance) : 0,
  }
}

const mean = (n: number, of: (i: number) => number): number => {
  let sum = 0
  for (let i = 0; i < n; i++) sum += of(i)
  return sum / n
}

export function rangeOf(values: readonly number[]): Range {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (q: number) => sorted[Math.round(q * (sorted.length - 1))]!
  return { low: at(0.05), median: at(0.5), high: at(0.95) }
}

/** A parameter's values, or eight spread over them. */
function valuesOf(parameter: Parameter): readonly (number | string)[] {
  const all = parameterValues(parameter)
  if (all && all.length <= mostValues) return all
  if (parameter.kind === 'categorical') return parameter.values.slice(0, mostValues)
  const at = (i: number) =>
    configurationAt({ parameters: [{ ...parameter, when: undefined }], constraints: [] }, [
      (i + 0.5) / mostValues,
    ])
  return [...new Set(Array.from({ length: mostValues }, (_, i) => at(i)[parameter.name]!))]
}

export function thinned(
  served: readonly ServedPoint[],
  next: () => number,
): readonly ServedPoint[] {
  if (served.length <= mostTrials) return served
  const keyed = served.map((point) => ({ point, key: next() })).sort((a, b) => a.key - b.key)
  return keyed.slice(0, mostTrials).map(({ point }) => point)
}
