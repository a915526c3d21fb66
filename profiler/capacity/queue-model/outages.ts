/**
 * Rare stalls of a server: steps far longer than their like, as by garbage collection, a
 * checkpoint, a neighbour on the same GPU.
 *
 * A slow time of several steps is one stall. A measurement sees a handful of them, and their number
 * decides the capacity. So the twin does not draw them as it draws other steps. Under the arrivals
 * that the server got it stalls where the server stalled: their luck cancels, as that of the
 * arrivals does. In its long runs it stalls at a rate of its own, which has a posterior: about
 * Gamma(k + 1/2) / n after k stalls in n steps (Jeffreys), a little wider. Whether stalls go by the
 * step or by the clock, and whether they come at random or regularly, is drawn too, as likely as
 * what was seen makes it.
 */
import { gammaln, probit, sum } from 'simple-statistics'
import { gamma, normal, type Uniform } from '../../seeded-random.ts'
import { quantileOfSorted } from '../../statistics/percentile.ts'
import type { Steps } from '../service-log/service-log.ts'
import { servedBy, usualTimes } from '../service-log/typical-durations.ts'

export interface Stall {
  /** When the step that stalled began, ms from the start of its run. */
  readonly atMs: number
  /** How much longer it, and those right after it, took than such steps usually do. */
  readonly excessesMs: readonly number[]
  /** How long they usually take. */
  readonly usualMs: readonly number[]
}

/**
 * A time in which steps take so many times as long more: of a neighbour, or a clock turned down.
 */
interface SlowTime {
  readonly factor: number
  readonly forMs: number
}

/**
 * What a stall adds to a step that begins then and would take so long, ms; mostly 0. Asked for
 * every step, in order of time.
 */
export type Stalling = (beganMs: number, tookMs: number) => number

/**
 * A stall at least adds this share of the usual step, and so many standard deviations of the steps'
 * spread about their usual.
 */
const leastShare = 0.5
const leastDeviations = 8
const mostFrequent = 0.03
/**
 * Steps in a row from which on a slow time is one, which slows down whatever it meets; fewer are
 * stalls, which add what they take.
 */
const slowFrom = 3
/** Steps in a row, on average, beyond which a slow time is no stall but a state of the server. */
const longest = 5

export interface SeparatedStalls {
  readonly usual: readonly Steps[]
  /** Of each run. */
  readonly stalls: readonly (readonly Stall[])[]
  /** Long steps do not stand apart, or are too frequent to be rare. */
  readonly mixed: boolean
}

/**
 * Takes the stalls out of runs' steps: the steps come back as long as they usually are, the stalls
 * beside them, run by run. Stalls stand apart: where as many steps lie within the upper half of the
 * way to a stall as beyond it, the service has a long tail, and nothing is taken out.
 * @param most share of steps that may begin one: more frequent ones are part of the service
 */
export function separateStalls(runs: readonly Steps[], most = mostFrequent): SeparatedStalls {
  const usualMs = usualTimes(runs)
  const ratios = runs.flatMap((steps) =>
    steps.tookMs.map((ms, i) => ms / usualMs[servedBy(steps, i)]! - 1),
  )
  const deviation = 1.4826 * quantileOfSorted(Float64Array.from(ratios, Math.abs).sort(), 0.5)
  const least = Math.max(leastShare, leastDeviations * deviation)
  const beyond = ratios.filter((ratio) => ratio > least).length
  const below = ratios.filter((ratio) => ratio > least / 2 && ratio <= least).length
  const none = { usual: runs, stalls: runs.map(() => []), mixed: beyond > 0 }
  if (below >= beyond || beyond > longest * most * ratios.length) return none
  const stalls: Stall[][] = []
  const usual = runs.map((steps) => {
    const found: Stall[] = []
    stalls.push(found)
    let inARow: { atMs: number; excessesMs: number[]; usualMs: number[] } | undefined
    const end = () => {
      if (inARow !== undefined)
        found.push(...(inARow.excessesMs.length < slowFrom ? oneByOne(inARow) : [inARow]))
      inARow = undefined
    }
    const tookMs = steps.tookMs.map((ms, i) => {
      const such = usualMs[servedBy(steps, i)]!
      if (ms / such - 1 <= least) {
        end()
        return ms
      }
      inARow ??= { atMs: steps.endedMs[i]! - ms, excessesMs: [], usualMs: [] }
      inARow.excessesMs.push(ms - such)
      inARow.usualMs.push(such)
      return such
    })
    end()
    return { ...steps, tookMs }
  })
  return stalls.flat().length > most * ratios.length ? none : { usual, stalls, mixed: false }
}

function oneByOne({ atMs, excessesMs, usualMs }: Stall): Stall[] {
  let now = atMs
  return excessesMs.map((ms, i) => {
    const began = now
    now += ms + usualMs[i]!
    return { atMs: began, excessesMs: [ms], usualMs: [usualMs[i]!] }
  })
}

/** Stalls where they were seen. */
export function replayed(stalls: readonly Stall[]): Stalling {
  let next = 0
  let within: readonly number[] = []
  let step = 0
  return (beganMs, tookMs) => {
    if (step < within.length) return within[step++]!
    const stall = stalls[next]
    if (stall === undefined || beganMs + tookMs / 2 < stall.atMs) return 0
    next++
    within = stall.excessesMs
    step = 1
    return within[0]!
  }
}

/** What brings stalls about: each step alike, or time, so that long steps meet more of them. */
type Clock = 'step' | 'time'

/** How often a server may stall, how regularly, and for how long: one draw from what was seen. */
export interface StallRate {
  readonly clock: Clock
  /** Per step, or per ms. */
  readonly rate: number
  /** Of the gamma-distributed gaps between stalls: 1 at random, more the more regular. */
  readonly shape: number
  /** What each stall adds. */
  readonly delays: readonly (number | SlowTime)[]
}

/**
 * Draws of the stall rate, evenly over its posterior, with lengths drawn anew from those seen
 * (bootstrap). None without a stall.
 * @param runs steps without their stalls, in the order of time
 */
export function stallRates(
  runs: readonly Steps[],
  stalls: readonly (readonly Stall[])[],
  draws: number,
  uniform: Uniform,
): (StallRate | undefined)[] {
  const delays = stalls.flat().map(delayOf)
  const k = delays.length
  if (k === 0) return Array.from({ length: draws }, () => undefined)
  const byStep = exposureOf(runs, stalls, 'step')
  const byTime = exposureOf(runs, stalls, 'time')
  const oddsOfTime = Math.exp(byTime.logLikelihood - byStep.logLikelihood)
  return Array.from({ length: draws }, (_, r) => {
    const { clock, total, gaps } = weighted([byStep, byTime], [1, oddsOfTime], uniform())
    const shape = weighted(shapes, shapeWeights(gaps), uniform())
    return {
      clock,
      shape,
      rate:
        (dispersion * gammaQuantile((shape * k + 0.5) / dispersion, (r + 0.5) / draws)) /
        (shape * total),
      delays: Array.from({ length: k }, () => {
        const factor = Math.exp((0.1 / Math.sqrt(k)) * normal(uniform))
        const delay = delays[Math.floor(uniform() * k)]!
        return typeof delay === 'number'
          ? delay * factor
          : { ...delay, forMs: delay.forMs * factor }
      }),
    }
  })
}

function delayOf({ excessesMs, usualMs }: Stall): number | SlowTime {
  if (excessesMs.length < slowFrom) return sum([...excessesMs])
  const [excess, usual] = [sum([...excessesMs]), sum([...usualMs])]
  return { factor: excess / usual, forMs: excess + usual }
}

/**
 * How much of a clock passed, in all and between stalls, and how likely stalls are to fall on the
 * very steps they fell on, were they ruled by it.
 */
function exposureOf(runs: readonly Steps[], stalls: readonly (readonly Stall[])[], clock: Clock) {
  let total = 0
  let logLikelihood = 0
  const places: number[] = []
  for (const [r, { tookMs, endedMs }] of runs.entries()) {
    let next = 0
    for (const [i, ms] of tookMs.entries()) {
      const passes = clock === 'step' ? 1 : ms
      total += passes
      if (next < stalls[r]!.length && endedMs[i]! > stalls[r]![next]!.atMs) {
        places.push(total)
        logLikelihood += Math.log(passes)
        if (clock === 'time') for (const excessMs of stalls[r]![next]!.excessesMs) total += excessMs
        next++
      }
    }
  }
  const gaps = places.slice(1).map((place, i) => place - places[i]!)
  return { clock, total, gaps, logLikelihood: logLikelihood - places.length * Math.log(total) }
}

const shapes = [1, 2, 4, 8, 16]
/** Stalls mostly come at random. */
const shapePrior = [0.85, 0.06, 0.04, 0.03, 0.02]

/**
 * How much more their number varies than that of independent stalls would: one often brings
 * another.
 */
const dispersion = 1.5

/**
 * Posterior weight of each shape given the gaps, whatever their mean (its prior 1 / mean,
 * integrated out).
 */
function shapeWeights(gaps: readonly number[]): number[] {
  const n = gaps.length
  if (n === 0) return [...shapePrior]
  const sum = gaps.reduce((total, gap) => total + gap, 0)
  const logSum = gaps.reduce((total, gap) => total + Math.log(gap / sum), 0)
  const logs = shapes.map(
    (a, i) => Math.log(shapePrior[i]!) + (a - 1) * logSum - n * gammaln(a) + gammaln(n * a),
  )
  const most = Math.max(...logs)
  return logs.map((log) => Math.exp(log - most))
}

/** The value in whose share of the weights a uniform number falls. */
function weighted<T>(values: readonly T[], weights: readonly number[], uniform: number): T {
  let left = uniform * weights.reduce((sum, weight) => sum + weight, 0)
  for (const [i, weight] of weights.entries()) {
    if (left < weight) return values[i]!
    left -= weight
  }
  return values.at(-1)!
}

/** Stalls at a rate, at random. */
export function drawn(given: StallRate | undefined, uniform: Uniform): Stalling {
  if (given === undefined) return () => 0
  const { clock, rate, shape, delays } = given
  const exponential = stratified(uniform)
  const gap = () => (shape === 1 ? -Math.log(exponential()) : gamma(uniform, shape)) / rate
  let left = gap()
  let slow: SlowTime | undefined
  let slowForMs = 0
  return (_, tookMs) => {
    left -= clock === 'step' && slow === undefined ? 1 : clock === 'time' ? tookMs : 0
    if (slow === undefined) {
      if (left > 0) return 0
      left = gap()
      const delay = delays[Math.floor(uniform() * delays.length)]!
      if (typeof delay === 'number') {
        // Time goes on while the server stalls.
        if (clock === 'time') left -= delay
        return delay
      }
      slow = delay
      slowForMs = delay.forMs
    }
    const ms = slow.factor * tookMs
    if (clock === 'time') left -= ms
    slowForMs -= tookMs + ms
    if (slowForMs <= 0) slow = undefined
    return ms
  }
}

const strata = 32

/**
 * Uniform numbers of which each of as many intervals gets one, before any gets a second: their mean
 * has next to no chance.
 */
function stratified(uniform: Uniform): Uniform {
  const order = Array.from({ length: strata }, (_, i) => i)
  let next = strata
  return () => {
    if (next === strata) {
      for (let i = strata - 1; i > 0; i--) {
        const j = Math.floor(uniform() * (i + 1))
        ;[order[i], order[j]] = [order[j]!, order[i]!]
      }
      next = 0
    }
    return (order[next++]! + uniform()) / strata
  }
}

/** Quantile of Gamma(shape, 1) by Wilson and Hilferty (1931); within 1 % for shapes from 1.5. */
function gammaQuantile(shape: number, probability: number): number {
  return shape * (1 - 1 / (9 * shape) + probit(probability) / (3 * Math.sqrt(shape))) ** 3
}
