/** Trials seen through an SLO, an objective and prices. */

import type { CurveKnot, DerivedCapacity } from '../../profiler/capacity/capacity-bounds.ts'
import {
  interpolateLatency,
  interpolatePercentile,
} from '../../profiler/capacity/rederive/load-curve.ts'
import { viewUnderSlo } from '../../profiler/capacity/rederive/stream-points.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { haveSameLatency, type Slo } from '../../profiler/model/slo.ts'
import { cost, countReplicas, getDemand, modelsCapacityOrLatency } from '../../search/objective.ts'
import {
  computeFleetPricePerHour,
  type Pricing,
  resolveReplicaPrice,
} from '../../search/replica-price.ts'
import type { Configuration, Objective } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { metricsAt, metricsRead } from './read-metrics.ts'
import { whyNotFeasible, whyNotServed } from './reasons.ts'
import { discountEstimate, isEstimate } from './safe-capacity.ts'
import type { SecondLook } from './second-look.ts'
import {
  answersNothing,
  type Known,
  knownOf,
  type Standing,
  type Status,
  standingsOf,
} from './status.ts'
import { tokenFiguresOf } from './token-figures.ts'
import type { Candidate } from './types.ts'
import { findProvenRps, findWindowAt, type Window } from './windows.ts'

/** What candidates are ranked by. */
export interface View {
  readonly slo: Slo
  readonly objective: Objective
  /** $ per hour of one replica. */
  readonly pricePerHour: Pricing<Configuration>
  /** '2 cores, 1/4 T4 (4 GiB), batch 8' */
  readonly label: (configuration: Configuration) => string
  /** Of the model variant; undefined where there are none. */
  readonly quality?: (configuration: Configuration) => number | undefined
  /** Variants of less quality are not good enough. */
  readonly minQuality?: number
  /**
   * Load curves, for callers that remember them from one ranking to the next; absent: made anew.
   */
  readonly curve?: (measurement: Measurement, slo: Slo) => readonly CurveKnot[]
}

/** A candidate with what it was made of. */
export interface Judged {
  readonly candidate: Candidate
  /** The trial that stands for the configuration. */
  readonly trial: FinishedTrial
  /**
   * What a second measurement says of it under the SLO; absent where there was none, or it says
   * nothing.
   */
  readonly second?: SecondLook
  /** Everything measured, first and second. */
  readonly measurement?: Measurement
  readonly curve?: readonly CurveKnot[]
}

/**
 * One candidate per configuration, by its status and what its trials show. Best first, then those
 * of which it is not known that they keep the SLO at any rate.
 */
export const judge = (trials: readonly FinishedTrial[], view: View): Judged[] =>
  standingsOf(trials)
    .map((standing) => judged(standing, view))
    .sort(byRank)

function judged({ trial, confirmations }: Standing, view: View): Judged {
  if (trial.state !== 'complete')
    return { trial, candidate: unserved(trial, whyNotServed(trial), view) }
  const last = confirmations.at(-1)
  if (last?.state === 'infeasible') {
    return {
      trial,
      candidate: unserved(
        trial,
        `served once, but not in its second load test: ${whyNotServed(last)}`,
        view,
      ),
    }
  }
  const complete = confirmations.filter((c) => c.state === 'complete')
  const known = knownOf(trial, complete, view.slo, view.curve)
  const { second, measurement, curve } = known
  return {
    trial,
    second,
    measurement,
    curve,
    candidate: candidateOf([trial, ...complete], known, view),
  }
}

/** @param trials the one that stands for the configuration, then its second measurements */
function candidateOf(
  trials: readonly [FinishedTrial, ...FinishedTrial[]],
  known: Known,
  view: View,
): Candidate {
  const { second, status, windows, curve } = known
  const [trial] = trials
  const provenRps = findProvenRps(windows)
  const predicted = known.derived ? {} : predictedBefore(trial, view)
  const { capacityRps, capacityCi90Rps } = known
  const safeRps = isEstimate(known)
    ? discountEstimate({ capacityRps, capacityCi90Rps, provenRps, ...predicted })
    : capacityRps
  const safe = safeRps === capacityRps ? known : at(safeRps, known, view.slo, windows, curve)
  const { unloadedMs: idle, ...rest } = figuresAt(trials, known.measurement, known, safeRps, view)
  // One request at a time takes no longer than one among others did.
  const least = Math.min(...windows.filter((w) => w.met === true).map((w) => w.sloMs))
  const figures = {
    ...rest,
    ...predicted,
    ...(idle === undefined ? {} : { unloadedMs: Math.min(idle, least) }),
  }
  const costs = cost(view.objective, figures)
  const reason = whyNotFeasible(known, { ...figures, costs }, view)
  return {
    ...figures,
    ...(provenRps !== undefined && { provenRps }),
    status: servesNothing(known) ? 'infeasible' : status,
    sloMsAtCapacity: safe.sloMs,
    sloMsFrom: safe.sloMsFrom,
    ...(safe.sloMsFrom === 'measured' && intervalAt(safeRps, windows)),
    ...(second && status === 'refuted' ? { missed: missedAt(second, trials) } : {}),
    ...(reason === undefined
      ? { cost: costs, feasible: true }
      : { cost: Number.POSITIVE_INFINITY, feasible: false, reason }),
  }
}

/** The SLO's percentile at a rate below the estimate: of a window there, else off the load curve. */
function at(
  rateRps: number,
  { sloMs, sloMsFrom }: Known,
  slo: Slo,
  windows: readonly Window[],
  curve: readonly CurveKnot[],
): Pick<Known, 'sloMs' | 'sloMsFrom'> {
  if (!(rateRps > 0)) return { sloMs, sloMsFrom }
  const there = findWindowAt(windows, rateRps)
  return there
    ? { sloMs: there.sloMs, sloMsFrom: 'measured' }
    : { sloMs: Math.min(interpolateLatency(curve, rateRps), slo.limitMs), sloMsFrom: 'model' }
}

const intervalAt = (rateRps: number, windows: readonly Window[]): Pick<Candidate, 'sloCi95Ms'> => {
  const there = findWindowAt(windows, rateRps)
  return there ? { sloCi95Ms: there.sloCi95Ms } : {}
}

function missedAt(
  { rateRps, sloMs }: SecondLook,
  trials: readonly FinishedTrial[],
): Candidate['missed'] {
  const metrics = metricsRead(trials)
  return { rateRps, sloMs, ...(metrics && { metrics }) }
}

/** Even one request at a time misses the SLO, or all fail. */
const servesNothing = ({ capacityRps, status, measurement }: Known): boolean =>
  (!(capacityRps > 0) && status === 'measured') || answersNothing({ ...measurement, capacityRps })

/**
 * What a configuration serves under a tighter limit, read off its load curve.
 * @param safeRps the capacity there, discounted as the candidate's own is
 */
export function operatingPoint(
  { trial, second, measurement, candidate }: Judged,
  capacity: DerivedCapacity,
  safeRps: number,
  view: View,
): Candidate {
  if (!measurement) return candidate
  const figures = figuresAt(
    [trial, ...(second ? [second.trial] : [])],
    measurement,
    capacity,
    safeRps,
    view,
  )
  const costs = cost(view.objective, figures)
  return {
    ...figures,
    status: candidate.status === 'imported' ? candidate.status : ('measured' satisfies Status),
    sloMsFrom: 'model',
    cost: costs,
    feasible: true,
  }
}

type Figures = Omit<Candidate, 'status' | 'sloMsFrom' | 'cost' | 'feasible'>

/** A measured configuration, its costs at the rate that is relied on. */
function figuresAt(
  trials: readonly [FinishedTrial, ...FinishedTrial[]],
  measurement: Measurement,
  capacity: DerivedCapacity,
  safeRps: number,
  view: View,
): Figures {
  const [trial] = trials
  const { configuration } = trial
  const price = resolveReplicaPrice(view.pricePerHour, configuration)
  const { pricePerHour } = price
  const { unloaded } = haveSameLatency(measurement.slo, view.slo)
    ? measurement
    : viewUnderSlo(measurement, view.slo)
  const unloadedMs = interpolatePercentile(unloaded, view.slo.percentile)
  const metrics = metricsAt(trials, capacity.capacityRps)
  const demand = getDemand(view.objective)
  const replicas = demand && countReplicas(demand, safeRps)
  const tokens = tokenFiguresOf(measurement, { capacityRps: safeRps, pricePerHour }, configuration)
  return {
    trial: trial.number,
    configuration,
    label: view.label(configuration),
    capacityRps: safeRps,
    ...(safeRps !== capacity.capacityRps && { estimateRps: capacity.capacityRps }),
    capacityCi90Rps: capacity.capacityCi90Rps,
    sloMsAtCapacity: capacity.sloMs,
    ...(Number.isFinite(unloadedMs) ? { unloadedMs } : {}),
    ...(trial.usage ? { usage: trial.usage } : {}),
    ...(metrics && { metrics }),
    ...(capacity.derived ? { derived: true } : {}),
    ...boundOf(capacity),
    ...qualityIn(configuration, view),
    ...price,
    pricePerMillionRequests:
      safeRps > 0 ? (pricePerHour / (safeRps * 3600)) * 1e6 : Number.POSITIVE_INFINITY,
    ...(tokens && { tokens }),
    ...(replicas === undefined
      ? {}
      : { replicas, totalPricePerHour: computeFleetPricePerHour(price, replicas) }),
  }
}

/** Objectives that learn another figure than the rate have predictions of that figure only. */
const predictedBefore = (
  { predicted }: FinishedTrial,
  { objective }: View,
): Pick<Candidate, 'predictedRps'> =>
  predicted && modelsCapacityOrLatency(objective)
    ? { predictedRps: [predicted.low, predicted.high] }
    : {}

/** Whether a capacity is only a bound of the true one. */
export const boundOf = ({ bounds }: Pick<DerivedCapacity, 'bounds'>): Pick<Candidate, 'bound'> =>
  bounds === 'lower' ? { bound: 'lower' } : bounds === 'upper' ? { bound: 'upper' } : {}

function qualityIn(configuration: Configuration, { quality }: View): Pick<Candidate, 'quality'> {
  const known = quality?.(configuration)
  return known === undefined ? {} : { quality: known }
}

function unserved(trial: FinishedTrial, reason: string, view: View): Candidate {
  return {
    trial: trial.number,
    configuration: trial.configuration,
    label: view.label(trial.configuration),
    status: trial.state === 'failed' ? 'failed' : 'infeasible',
    capacityRps: 0,
    capacityCi90Rps: [0, 0],
    sloMsAtCapacity: Number.POSITIVE_INFINITY,
    sloMsFrom: 'unloaded',
    ...qualityIn(trial.configuration, view),
    ...resolveReplicaPrice(view.pricePerHour, trial.configuration),
    pricePerMillionRequests: Number.POSITIVE_INFINITY,
    cost: Number.POSITIVE_INFINITY,
    feasible: false,
    reason,
  }
}

/**
 * Feasible before infeasible, lower cost first; equal cost: the higher capacity, then the earlier
 * trial.
 */
export function byRank({ candidate: a }: Judged, { candidate: b }: Judged): number {
  if (a.feasible !== b.feasible) return a.feasible ? -1 : 1
  if (a.cost !== b.cost) return a.cost - b.cost
  return b.capacityRps - a.capacityRps || a.trial - b.trial
}
