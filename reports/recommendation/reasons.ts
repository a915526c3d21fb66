/** Why a configuration is infeasible or was not measured. */
import type { Slo } from '../../profiler/model/slo.ts'
import {
  getMetric,
  getObjectiveUnit,
  getPriceBound,
  isAbovePriceBound,
} from '../../search/objective.ts'
import type { Configuration, Objective } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { money, rate, sloFigure, sloLimit, sloName, sloValue } from '../format.ts'
import type { CapacityAssessment } from './capacity-assessment.ts'
import { failsAllRequests } from './status.ts'
import type { Candidate } from './types.ts'
import { findLowestViolation } from './windows.ts'
import { formatLowestViolation } from './words.ts'

/**
 * Whether no trial gave a result for the SLO. Imported results may lack its percentile: their
 * latency is NaN.
 */
export const hasNoResult = ({
  status,
  sloMsAtCapacity,
}: Pick<Candidate, 'status' | 'sloMsAtCapacity'>): boolean =>
  status === 'failed' ||
  status === 'inconclusive' ||
  (status === 'imported' && Number.isNaN(sloMsAtCapacity))

interface FeasibilityCriteria {
  readonly slo: Slo
  readonly objective: Objective
  readonly quality?: (configuration: Configuration) => number | undefined
  readonly minQuality?: number
}

/** Why a measured configuration is infeasible; undefined if it is feasible. */
export function explainInfeasible(
  assessment: CapacityAssessment,
  figures: {
    readonly configuration: Configuration
    readonly pricePerHour: number
    readonly costs: number
  },
  criteria: FeasibilityCriteria,
): string | undefined {
  const { objective } = criteria
  return (
    explainLowQuality(figures.configuration, criteria) ??
    explainViolation(assessment, criteria.slo) ??
    (isAbovePriceBound(objective, figures.pricePerHour)
      ? `costs ${money(figures.pricePerHour)} per hour, more than ${money(getPriceBound(objective)!)}`
      : undefined) ??
    (Number.isFinite(figures.costs) || !Number.isFinite(figures.pricePerHour)
      ? undefined
      : explainUnranked(objective, assessment.capacityRps))
  )
}

/** A metric has a value at one rate only: the capacity of a trial under its own SLO. */
function explainUnranked(objective: Objective, capacityRps: number): string {
  const metric = getMetric(objective)
  return metric === undefined
    ? `what the objective ranks by (${getObjectiveUnit(objective)}) was not measured`
    : `${metric}, which the objective ranks by, was not read at ${rate(capacityRps)}`
}

/** Why no rate is known at which it meets the SLO; undefined if one is. */
function explainViolation(assessment: CapacityAssessment, slo: Slo): string | undefined {
  const { status, capacityRps, capacityCi90Rps, measurement, windows, sloMs } = assessment
  if (failsAllRequests({ ...measurement, capacityRps }))
    return (
      measurement.detail ??
      (measurement.outcome === 'errors' ? 'fails requests at any load' : 'died under load')
    )
  if (status === 'inconclusive') return appendDetail('inconclusive', measurement.detail)
  if (status === 'imported' && !(capacityRps > 0))
    return assessment.bounds === 'none'
      ? `the imported results do not have its ${sloName(slo)}; import them again with that SLO`
      : `no imported load meets the SLO: at least ${sloFigure(slo, sloMs)}`
  if (capacityRps > 0) {
    return assessment.bounds === 'upper'
      ? appendDetail(`serves at most ${rate(capacityCi90Rps[1])}`, measurement.detail)
      : undefined
  }
  const violation = findLowestViolation(windows)
  if (violation !== undefined && status !== 'measured') {
    const which = status === 'refuted' ? 'its second load test ' : ''
    return `${which}${formatLowestViolation(slo, violation)}`
  }
  if (sloMs <= slo.limitMs)
    return `violated the SLO at every rate tried, though one request at a time takes ${sloValue(slo, sloMs)}`
  const idle = Number.isFinite(sloMs)
    ? `one request at a time takes ${sloValue(slo, sloMs)}`
    : 'no request was answered'
  return `violates the SLO at any rate: ${idle} at ${sloName(slo)} against ${sloLimit(slo)}`
}

const appendDetail = (what: string, detail: string | undefined): string =>
  detail === undefined ? what : `${what}: ${detail}`

function explainLowQuality(
  configuration: Configuration,
  { quality, minQuality }: FeasibilityCriteria,
): string | undefined {
  const value = quality?.(configuration)
  return value !== undefined && minQuality !== undefined && value < minQuality
    ? `its quality is ${value}, less than ${minQuality}`
    : undefined
}

const reasonTexts = {
  'out-of-memory': 'out of memory',
  'never-ready': 'never got ready',
  'no-such-gpu': 'no such GPU',
  crashed: 'crashed',
  'requests-fail': 'requests fail',
  'answers-differ': 'answers differ',
  'over-bound': 'over a bound',
  'slo-unattainable': 'violates the SLO at any rate',
} as const

/** Why a trial did not serve; '' where it did. */
export function explainUnserved(trial: FinishedTrial): string {
  if (trial.state === 'failed') return `not measured: ${trial.error}`
  if (trial.state === 'infeasible')
    return trial.detail
      ? `${reasonTexts[trial.reason]}: ${trial.detail}`
      : reasonTexts[trial.reason]
  return ''
}
