/** Candidates: the figures of a configuration under an SLO, an objective and prices. */
import type { CurveKnot, DerivedCapacity } from '../../profiler/capacity/capacity-bounds.ts'
import {
  interpolateLatency,
  interpolatePercentile,
} from '../../profiler/capacity/rederive/load-curve.ts'
import { viewUnderSlo } from '../../profiler/capacity/rederive/stream-points.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { haveSameLatency, type Slo } from '../../profiler/model/slo.ts'
import {
  computeCost,
  countReplicas,
  getDemand,
  modelsCapacityOrLatency,
} from '../../search/objective.ts'
import {
  computeFleetPricePerHour,
  type Pricing,
  resolveReplicaPrice,
} from '../../search/replica-price.ts'
import type { Configuration, Objective } from '../../search/types.ts'
import type { FinishedTrial, Usage } from '../../trials/types.ts'
import type { CapacityAssessment } from './capacity-assessment.ts'
import type { ConfirmationResult } from './confirmation-result.ts'
import { findLastMetrics, findMetricsAt } from './read-metrics.ts'
import { explainInfeasible } from './reasons.ts'
import { discountEstimate, isUnconfirmedEstimate } from './safe-capacity.ts'
import { failsAllRequests, type Status } from './status.ts'
import { computeTokenFigures } from './token-figures.ts'
import type { Candidate } from './types.ts'
import { findProvenRps, findWindowAt } from './windows.ts'

/** Criteria by which candidates are ranked: SLO, objective and prices. */
export interface RankingCriteria {
  readonly slo: Slo
  readonly objective: Objective
  /** $ per hour of one replica. */
  readonly pricePerHour: Pricing<Configuration>
  /** '2 cores, 1/4 T4 (4 GiB), batch 8' */
  readonly label: (configuration: Configuration) => string
  /** Quality of the model variant; undefined if there are none. */
  readonly quality?: (configuration: Configuration) => number | undefined
  /** Variants of lower quality are infeasible. */
  readonly minQuality?: number
  /** Builds load curves; for callers that memoise them from one ranking to the next. */
  readonly curve?: (measurement: Measurement, slo: Slo) => readonly CurveKnot[]
}

/** A candidate with the trial and the measurements behind it. */
export interface RankedCandidate {
  readonly candidate: Candidate
  /** The trial that represents the configuration. */
  readonly trial: FinishedTrial
  /** Result of the last conclusive confirmation; absent if there is none. */
  readonly confirmation?: ConfirmationResult
  /** The first measurement with the windows of all confirmations. */
  readonly measurement?: Measurement
  readonly curve?: readonly CurveKnot[]
}

/** @param trials the one that represents the configuration, then its confirmations */
export function buildCandidate(
  trials: readonly [FinishedTrial, ...FinishedTrial[]],
  assessment: CapacityAssessment,
  criteria: RankingCriteria,
): Candidate {
  const { confirmation, status, windows, capacityRps, capacityCi90Rps } = assessment
  const provenRps = findProvenRps(windows)
  const predicted = assessment.derived ? {} : selectPrediction(trials[0], criteria)
  const safeRps = isUnconfirmedEstimate(assessment)
    ? discountEstimate({ capacityRps, capacityCi90Rps, provenRps, ...predicted })
    : capacityRps
  const safe =
    safeRps === capacityRps ? assessment : findLatencyAt(safeRps, assessment, criteria.slo)
  const { unloadedMs, ...rest } = computeFigures(
    trials,
    assessment.measurement,
    assessment,
    safeRps,
    criteria,
  )
  // An unloaded server answers no slower than one under load.
  const minLoadedMs = Math.min(...windows.filter((w) => w.met === true).map((w) => w.sloMs))
  const figures = {
    ...rest,
    ...predicted,
    ...(unloadedMs === undefined ? {} : { unloadedMs: Math.min(unloadedMs, minLoadedMs) }),
  }
  const objectiveCost = computeCost(criteria.objective, figures)
  const reason = explainInfeasible(assessment, { ...figures, costs: objectiveCost }, criteria)
  const window = safe.sloMsFrom === 'measured' ? findWindowAt(windows, safeRps) : undefined
  return {
    ...figures,
    ...(provenRps !== undefined && { provenRps }),
    status: isInfeasible(assessment) ? 'infeasible' : status,
    sloMsAtCapacity: safe.sloMs,
    sloMsFrom: safe.sloMsFrom,
    ...(window && { sloCi95Ms: window.sloCi95Ms }),
    ...(confirmation && status === 'refuted'
      ? { missed: describeViolation(confirmation, trials) }
      : {}),
    ...(reason === undefined
      ? { cost: objectiveCost, feasible: true }
      : { cost: Number.POSITIVE_INFINITY, feasible: false, reason }),
  }
}

/**
 * Finds the SLO's percentile at a rate below the estimate: of a window there, else off the load
 * curve.
 */
function findLatencyAt(
  rateRps: number,
  { sloMs, sloMsFrom, windows, curve }: CapacityAssessment,
  { limitMs }: Slo,
): Pick<CapacityAssessment, 'sloMs' | 'sloMsFrom'> {
  if (!(rateRps > 0)) return { sloMs, sloMsFrom }
  const window = findWindowAt(windows, rateRps)
  return window
    ? { sloMs: window.sloMs, sloMsFrom: 'measured' }
    : { sloMs: Math.min(interpolateLatency(curve, rateRps), limitMs), sloMsFrom: 'model' }
}

function describeViolation(
  { rateRps, sloMs }: ConfirmationResult,
  trials: readonly FinishedTrial[],
): Candidate['missed'] {
  const metrics = findLastMetrics(trials)
  return { rateRps, sloMs, ...(metrics && { metrics }) }
}

/** Whether even one request at a time violates the SLO, or all requests fail. */
const isInfeasible = ({ capacityRps, status, measurement }: CapacityAssessment): boolean =>
  (!(capacityRps > 0) && status === 'measured') || failsAllRequests({ ...measurement, capacityRps })

/**
 * Builds the candidate under a tighter limit, by its load curve.
 * @param safeRps the capacity there, with the candidate's own discount
 */
export function buildOperatingPoint(
  { trial, confirmation, measurement, candidate }: RankedCandidate,
  capacity: DerivedCapacity,
  safeRps: number,
  criteria: RankingCriteria,
): Candidate {
  if (!measurement) return candidate
  const figures = computeFigures(
    [trial, ...(confirmation ? [confirmation.trial] : [])],
    measurement,
    capacity,
    safeRps,
    criteria,
  )
  const objectiveCost = computeCost(criteria.objective, figures)
  return {
    ...figures,
    status: candidate.status === 'imported' ? candidate.status : ('measured' satisfies Status),
    sloMsFrom: 'model',
    cost: objectiveCost,
    feasible: true,
  }
}

type Figures = Omit<Candidate, 'status' | 'sloMsFrom' | 'cost' | 'feasible'>

/** Figures of a measured configuration; its prices are those at the safe capacity. */
function computeFigures(
  trials: readonly [FinishedTrial, ...FinishedTrial[]],
  measurement: Measurement,
  capacity: DerivedCapacity,
  safeRps: number,
  criteria: RankingCriteria,
): Figures {
  const [trial] = trials
  const { configuration } = trial
  const price = resolveReplicaPrice(criteria.pricePerHour, configuration)
  const { pricePerHour } = price
  const { unloaded } = haveSameLatency(measurement.slo, criteria.slo)
    ? measurement
    : viewUnderSlo(measurement, criteria.slo)
  const unloadedMs = interpolatePercentile(unloaded, criteria.slo.percentile)
  const metrics = findMetricsAt(trials, capacity.capacityRps)
  const demand = getDemand(criteria.objective)
  const replicas = demand && countReplicas(demand, safeRps)
  const tokens = computeTokenFigures(
    measurement,
    { capacityRps: safeRps, pricePerHour },
    configuration,
  )
  return {
    trial: trial.number,
    configuration,
    label: criteria.label(configuration),
    capacityRps: safeRps,
    ...(safeRps !== capacity.capacityRps && { estimateRps: capacity.capacityRps }),
    capacityCi90Rps: capacity.capacityCi90Rps,
    sloMsAtCapacity: capacity.sloMs,
    ...(Number.isFinite(unloadedMs) ? { unloadedMs } : {}),
    ...(trial.usage ? { usage: omitStages(trial.usage) } : {}),
    ...(metrics && { metrics }),
    ...(capacity.derived ? { derived: true } : {}),
    ...toBound(capacity),
    ...resolveQuality(configuration, criteria),
    ...price,
    pricePerMillionRequests:
      safeRps > 0 ? (pricePerHour / (safeRps * 3600)) * 1e6 : Number.POSITIVE_INFINITY,
    ...(tokens && { tokens }),
    ...(replicas === undefined
      ? {}
      : { replicas, totalPricePerHour: computeFleetPricePerHour(price, replicas) }),
  }
}

/**
 * Selects the predicted capacity of a trial; none if the objective measures a quantity of its
 * own, because the prediction is then of that quantity.
 */
const selectPrediction = (
  { predicted }: FinishedTrial,
  { objective }: RankingCriteria,
): Pick<Candidate, 'predictedRps'> =>
  predicted && modelsCapacityOrLatency(objective)
    ? { predictedRps: [predicted.low, predicted.high] }
    : {}

/** Whether a capacity is only a bound of the true one. */
export const toBound = ({ bounds }: Pick<DerivedCapacity, 'bounds'>): Pick<Candidate, 'bound'> =>
  bounds === 'lower' ? { bound: 'lower' } : bounds === 'upper' ? { bound: 'upper' } : {}

function resolveQuality(
  configuration: Configuration,
  { quality }: RankingCriteria,
): Pick<Candidate, 'quality'> {
  const value = quality?.(configuration)
  return value === undefined ? {} : { quality: value }
}

/** Builds a candidate that served nothing, for the reason stated. */
export function buildUnservedCandidate(
  trial: FinishedTrial,
  reason: string,
  criteria: RankingCriteria,
): Candidate {
  return {
    trial: trial.number,
    configuration: trial.configuration,
    label: criteria.label(trial.configuration),
    status: trial.state === 'failed' ? 'failed' : 'infeasible',
    capacityRps: 0,
    capacityCi90Rps: [0, 0],
    sloMsAtCapacity: Number.POSITIVE_INFINITY,
    sloMsFrom: 'unloaded',
    ...resolveQuality(trial.configuration, criteria),
    ...resolveReplicaPrice(criteria.pricePerHour, trial.configuration),
    pricePerMillionRequests: Number.POSITIVE_INFINITY,
    cost: Number.POSITIVE_INFINITY,
    feasible: false,
    reason,
  }
}

/** The usage as plain numbers: `Recommendation.stages` has those of the stages. */
const omitStages = ({ stages: _, ...usage }: Usage): Usage => usage
