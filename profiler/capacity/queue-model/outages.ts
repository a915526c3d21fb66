/**
 * Rare outages of a server: steps far longer than comparable ones, because of garbage collection, a
 * checkpoint, or a neighbour on the same GPU. A slow period of several steps is one outage.
 *
 * A measurement observes few outages, and their number decides the capacity. So they are separated
 * from the other steps, which are resampled, and modelled on their own. Under the observed arrivals
 * the model replays each outage at its time, so that its randomness cancels, as that of the
 * arrivals does. Long simulations sample outages. Their rate comes from its posterior, about
 * Gamma(k + 1/2) / n after k outages in n steps (Jeffreys prior), slightly overdispersed. Two more
 * properties are sampled in proportion to their likelihood: whether outages occur by step or by
 * time, and how regularly.
 */
import { gammaln, probit, sum } from 'simple-statistics'
import { sampleGamma, sampleNormal, type Uniform } from '../../seeded-random.ts'
import { computeMedian } from '../../statistics/percentile.ts'
import type { ServiceLog } from '../service-log/service-log.ts'
import { computeTypicalDurations, countServed } from '../service-log/typical-durations.ts'

export interface Outage {
  /** Start of the first step of the outage, ms from the start of its run. */
  readonly atMs: number
  /** Excess of each step of the outage over its typical duration, ms. */
  readonly excessesMs: readonly number[]
  /** Typical durations of these steps, ms. */
  readonly typicalMs: readonly number[]
}

/** A slow period, because of a neighbour or a reduced clock. */
interface Slowdown {
  /** Added to each step, as a multiple of its duration: 1 doubles it. */
  readonly factor: number
  /** Length of the period, ms. */
  readonly forMs: number
}

/**
 * Delay that an outage adds to a step with this start and duration, ms; mostly 0. Called for every
 * step in time order.
 */
export type OutageProcess = (beganMs: number, tookMs: number) => number

/**
 * A step belongs to an outage where its excess over the typical duration is beyond both: this share
 * of the typical duration, and this many standard deviations of the relative durations.
 */
const minExcessShare = 0.5
const minDeviations = 8
/** Largest share of steps that may begin an outage. More frequent long steps are normal service. */
const maxOutageShare = 0.03
/**
 * Number of consecutive long steps from which an outage is a slow period, which scales durations. A
 * shorter outage adds a fixed delay.
 */
const minSlowdownSteps = 3
/**
 * Mean number of consecutive steps beyond which a slow period is a state of the server, not an
 * outage.
 */
const maxMeanSteps = 5

export interface SeparatedOutages {
  /** Logs in which the steps of outages have their typical duration. */
  readonly typical: readonly ServiceLog[]
  /** One array for each run. */
  readonly outages: readonly (readonly Outage[])[]
}

/**
 * Separates outages from the steps of runs; their steps get the typical duration instead. Outages
 * are clearly longer than other steps. Where at least as many steps lie between half the threshold
 * and the threshold as beyond it, the service times have a long tail, and nothing is separated.
 */
export function separateOutages(runs: readonly ServiceLog[]): SeparatedOutages {
  const typicalMs = computeTypicalDurations(runs)
  const ratios = runs.flatMap((log) =>
    log.tookMs.map((ms, i) => ms / typicalMs[countServed(log, i)]! - 1),
  )
  // For a normal distribution, 1.4826 times the median absolute deviation.
  const standardDeviation = 1.4826 * computeMedian(ratios.map(Math.abs))
  const minExcess = Math.max(minExcessShare, minDeviations * standardDeviation)
  const longCount = ratios.filter((ratio) => ratio > minExcess).length
  const borderlineCount = ratios.filter(
    (ratio) => ratio > minExcess / 2 && ratio <= minExcess,
  ).length
  const unseparated = { typical: runs, outages: runs.map(() => []) }
  if (borderlineCount >= longCount || longCount > maxMeanSteps * maxOutageShare * ratios.length)
    return unseparated
  const outages: Outage[][] = []
  const typical = runs.map((log) => {
    const outagesOfRun: Outage[] = []
    outages.push(outagesOfRun)
    let current: { atMs: number; excessesMs: number[]; typicalMs: number[] } | undefined
    const endCurrent = () => {
      if (current !== undefined)
        outagesOfRun.push(
          ...(current.excessesMs.length < minSlowdownSteps ? splitOutage(current) : [current]),
        )
      current = undefined
    }
    const tookMs = log.tookMs.map((ms, i) => {
      const expectedMs = typicalMs[countServed(log, i)]!
      if (ms / expectedMs - 1 <= minExcess) {
        endCurrent()
        return ms
      }
      current ??= { atMs: log.endedMs[i]! - ms, excessesMs: [], typicalMs: [] }
      current.excessesMs.push(ms - expectedMs)
      current.typicalMs.push(expectedMs)
      return expectedMs
    })
    endCurrent()
    return { ...log, tookMs }
  })
  return outages.flat().length > maxOutageShare * ratios.length ? unseparated : { typical, outages }
}

/** Splits an outage into one for each of its steps. */
function splitOutage({ atMs, excessesMs, typicalMs }: Outage): Outage[] {
  let nowMs = atMs
  return excessesMs.map((ms, i) => {
    const beganMs = nowMs
    nowMs += ms + typicalMs[i]!
    return { atMs: beganMs, excessesMs: [ms], typicalMs: [typicalMs[i]!] }
  })
}

/** Replays outages at their observed times. */
export function replayOutages(outages: readonly Outage[]): OutageProcess {
  let next = 0
  /** Excesses of the outage in progress, and its next step. */
  let excessesMs: readonly number[] = []
  let step = 0
  return (beganMs, tookMs) => {
    if (step < excessesMs.length) return excessesMs[step++]!
    const outage = outages[next]
    // An outage begins with the first step whose middle lies after it.
    if (outage === undefined || beganMs + tookMs / 2 < outage.atMs) return 0
    next++
    excessesMs = outage.excessesMs
    step = 1
    return excessesMs[0]!
  }
}

/**
 * Exposure by which outages occur. 'step': each step is equally likely to have one. 'time': longer
 * steps are more likely to have one.
 */
type Clock = 'step' | 'time'

/**
 * Standard deviation of ln length if a single outage was observed; 1 / √k of it for k. Assumed.
 */
const lengthSdOfOne = 0.1

/** Outage rate, regularity and lengths: one posterior sample. */
export interface OutageRate {
  readonly clock: Clock
  /** Outages per step, or per ms. */
  readonly rate: number
  /**
   * Shape of the gamma-distributed gaps between outages: 1 at random, larger for more regular ones.
   */
  readonly shape: number
  /** Delay or slow period of each outage. */
  readonly delays: readonly (number | Slowdown)[]
}

/**
 * Samples outage rates at evenly spaced quantiles of their posterior, with bootstrapped lengths.
 * Elements are undefined where no outage was observed.
 * @param runs logs without their outages, in time order
 */
export function sampleOutageRates(
  runs: readonly ServiceLog[],
  outages: readonly (readonly Outage[])[],
  sampleCount: number,
  uniform: Uniform,
): (OutageRate | undefined)[] {
  const delays = outages.flat().map(measureDelay)
  const k = delays.length
  if (k === 0) return Array.from({ length: sampleCount }, () => undefined)
  const byStep = computeExposure(runs, outages, 'step')
  const byTime = computeExposure(runs, outages, 'time')
  const oddsOfTime = Math.exp(byTime.logLikelihood - byStep.logLikelihood)
  return Array.from({ length: sampleCount }, (_, r) => {
    const { clock, total, gaps } = chooseWeighted([byStep, byTime], [1, oddsOfTime], uniform())
    const shape = chooseWeighted(shapes, computeShapeWeights(gaps), uniform())
    return {
      clock,
      shape,
      rate:
        (outageCountDispersion *
          computeGammaQuantile(
            (shape * k + 0.5) / outageCountDispersion,
            (r + 0.5) / sampleCount,
          )) /
        (shape * total),
      delays: Array.from({ length: k }, () => {
        const factor = Math.exp((lengthSdOfOne / Math.sqrt(k)) * sampleNormal(uniform))
        const delay = delays[Math.floor(uniform() * k)]!
        return typeof delay === 'number'
          ? delay * factor
          : { ...delay, forMs: delay.forMs * factor }
      }),
    }
  })
}

/** Measures the delay of a short outage, ms, or the slow period of a long one. */
function measureDelay({ excessesMs, typicalMs }: Outage): number | Slowdown {
  if (excessesMs.length < minSlowdownSteps) return sum([...excessesMs])
  const excessMs = sum([...excessesMs])
  const expectedMs = sum([...typicalMs])
  return { factor: excessMs / expectedMs, forMs: excessMs + expectedMs }
}

/**
 * Computes the exposure by one clock, in total and between outages, and the log likelihood under
 * that clock that the outages fell on the steps where they were observed.
 */
function computeExposure(
  runs: readonly ServiceLog[],
  outages: readonly (readonly Outage[])[],
  clock: Clock,
) {
  let total = 0
  let logLikelihood = 0
  /** Exposure until each outage. */
  const exposures: number[] = []
  for (const [r, { tookMs, endedMs }] of runs.entries()) {
    let next = 0
    for (const [i, ms] of tookMs.entries()) {
      const exposure = clock === 'step' ? 1 : ms
      total += exposure
      if (next < outages[r]!.length && endedMs[i]! > outages[r]![next]!.atMs) {
        exposures.push(total)
        logLikelihood += Math.log(exposure)
        if (clock === 'time')
          for (const excessMs of outages[r]![next]!.excessesMs) total += excessMs
        next++
      }
    }
  }
  const gaps = exposures.slice(1).map((exposure, i) => exposure - exposures[i]!)
  return { clock, total, gaps, logLikelihood: logLikelihood - exposures.length * Math.log(total) }
}

/** Candidate shapes of the gamma-distributed gaps. */
const shapes = [1, 2, 4, 8, 16]
/** Prior probability of each shape. Most outages occur at random (shape 1). */
const shapePrior = [0.85, 0.06, 0.04, 0.03, 0.02]

/** Variance of the outage count over that of independent outages: one often triggers another. */
const outageCountDispersion = 1.5

/**
 * Computes the posterior weight of each shape given the gaps. The mean gap is integrated out under
 * the prior 1 / mean.
 */
function computeShapeWeights(gaps: readonly number[]): number[] {
  const n = gaps.length
  if (n === 0) return [...shapePrior]
  const sum = gaps.reduce((total, gap) => total + gap, 0)
  const logSum = gaps.reduce((total, gap) => total + Math.log(gap / sum), 0)
  const logs = shapes.map(
    (a, i) => Math.log(shapePrior[i]!) + (a - 1) * logSum - n * gammaln(a) + gammaln(n * a),
  )
  const max = Math.max(...logs)
  return logs.map((log) => Math.exp(log - max))
}

/** Selects the value at a uniform position among the weights. */
function chooseWeighted<T>(values: readonly T[], weights: readonly number[], uniform: number): T {
  let remaining = uniform * weights.reduce((sum, weight) => sum + weight, 0)
  for (const [i, weight] of weights.entries()) {
    if (remaining < weight) return values[i]!
    remaining -= weight
  }
  return values.at(-1)!
}

/** Simulates outages at a sampled rate. */
export function simulateOutages(
  outageRate: OutageRate | undefined,
  uniform: Uniform,
): OutageProcess {
  if (outageRate === undefined) return () => 0
  const { clock, rate, shape, delays } = outageRate
  const stratified = createStratified(uniform)
  const sampleGap = () =>
    (shape === 1 ? -Math.log(stratified()) : sampleGamma(uniform, shape)) / rate
  /** Exposure until the next outage: steps, or ms. */
  let exposureLeft = sampleGap()
  let slowdown: Slowdown | undefined
  let slowdownLeftMs = 0
  return (_, tookMs) => {
    exposureLeft -= clock === 'step' && slowdown === undefined ? 1 : clock === 'time' ? tookMs : 0
    if (slowdown === undefined) {
      if (exposureLeft > 0) return 0
      exposureLeft = sampleGap()
      const delay = delays[Math.floor(uniform() * delays.length)]!
      if (typeof delay === 'number') {
        // Time passes during an outage.
        if (clock === 'time') exposureLeft -= delay
        return delay
      }
      slowdown = delay
      slowdownLeftMs = delay.forMs
    }
    const ms = slowdown.factor * tookMs
    if (clock === 'time') exposureLeft -= ms
    slowdownLeftMs -= tookMs + ms
    if (slowdownLeftMs <= 0) slowdown = undefined
    return ms
  }
}

/** Intervals of equal probability that stratify a sample. Assumed. */
const strata = 32

/**
 * Creates stratified uniform numbers: each interval is used once before any is used again, which
 * removes most of the noise of the mean.
 */
function createStratified(uniform: Uniform): Uniform {
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

/**
 * Computes a quantile of Gamma(shape, 1) by Wilson and Hilferty (1931); within 1 % for shapes from
 * 1.5.
 */
function computeGammaQuantile(shape: number, probability: number): number {
  return shape * (1 - 1 / (9 * shape) + probit(probability) / (3 * Math.sqrt(shape))) ** 3
}
