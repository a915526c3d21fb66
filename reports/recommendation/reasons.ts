/** Why a configuration is no candidate. */
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
import { answersNothing, type Known } from './status.ts'
import type { Candidate } from './types.ts'
import { lowestViolation } from './windows.ts'
import { violatedText } from './words.ts'

/** Whether nothing is known of a configuration; of imported results some percentiles are not. */
export const tellsNothing = ({
  status,
  sloMsAtCapacity,
}: Pick<Candidate, 'status' | 'sloMsAtCapacity'>): boolean =>
  status === 'failed' ||
  status === 'inconclusive' ||
  (status === 'imported' && Number.isNaN(sloMsAtCapacity))

interface Asked {
  readonly slo: Slo
  readonly objective: Objective
  readonly quality?: (configuration: Configuration) => number | undefined
  readonly minQuality?: number
}

/** Of one that was measured; undefined where it is one. */
export function whyNotFeasible(
  known: Known,
  of: {
    readonly configuration: Configuration
    readonly pricePerHour: number
    readonly costs: number
  },
  asked: Asked,
): string | undefined {
  const { objective } = asked
  return (
    tooPoor(of.configuration, asked) ??
    whyNotHeld(known, asked.slo) ??
    (isAbovePriceBound(objective, of.pricePerHour)
      ? `costs ${money(of.pricePerHour)} per hour, more than ${money(getPriceBound(objective)!)}`
      : undefined) ??
    (Number.isFinite(of.costs) || !Number.isFinite(of.pricePerHour)
      ? undefined
      : notRanked(objective, known.capacityRps))
  )
}

/** A metric is read at one rate, that of a trial's capacity under its own SLO. */
function notRanked(objective: Objective, capacityRps: number): string {
  const metric = getMetric(objective)
  return metric === undefined
    ? `what the objective ranks by (${getObjectiveUnit(objective)}) was not measured`
    : `${metric}, which the objective ranks by, was not read at ${rate(capacityRps)}`
}

/** Why no rate is known at which it keeps the SLO. */
function whyNotHeld(known: Known, slo: Slo): string | undefined {
  const { status, capacityRps, capacityCi90Rps, measurement, windows, sloMs } = known
  if (answersNothing({ ...measurement, capacityRps }))
    return (
      measurement.detail ??
      (measurement.outcome === 'errors' ? 'fails requests at any load' : 'died under load')
    )
  if (status === 'inconclusive') return because('inconclusive', measurement.detail)
  if (status === 'imported' && !(capacityRps > 0))
    return known.bounds === 'none'
      ? `the imported results do not have its ${sloName(slo)}; import them again with that SLO`
      : `no imported load meets the SLO: at least ${sloFigure(slo, sloMs)}`
  if (capacityRps > 0) {
    return known.bounds === 'upper'
      ? because(`serves at most ${rate(capacityCi90Rps[1])}`, measurement.detail)
      : undefined
  }
  const violation = lowestViolation(windows)
  if (violation !== undefined && status !== 'measured') {
    const which = status === 'refuted' ? 'its second load test ' : ''
    return `${which}${violatedText(slo, violation)}`
  }
  if (sloMs <= slo.limitMs)
    return `violated the SLO at every rate tried, though one request at a time takes ${sloValue(slo, sloMs)}`
  const idle = Number.isFinite(sloMs)
    ? `one request at a time takes ${sloValue(slo, sloMs)}`
    : 'no request was answered'
  return `violates the SLO at any rate: ${idle} at ${sloName(slo)} against ${sloLimit(slo)}`
}

const because = (what: string, detail: string | undefined): string =>
  detail === undefined ? what : `${what}: ${detail}`

function tooPoor(configuration: Configuration, { quality, minQuality }: Asked): string | undefined {
  const known = quality?.(configuration)
  return known !== undefined && minQuality !== undefined && known < minQuality
    ? `its quality is ${known}, less than ${minQuality}`
    : undefined
}

const words = {
  'out-of-memory': 'out of memory',
  'never-ready': 'never got ready',
  'no-such-gpu': 'no such GPU',
  crashed: 'crashed',
  'requests-fail': 'requests fail',
  'answers-differ': 'answers differ',
  'over-bound': 'over a bound',
  'slo-unattainable': 'violates the SLO at any rate',
} as const

/** Of a trial that did not serve. */
export function whyNotServed(trial: FinishedTrial): string {
  if (trial.state === 'failed') return `not measured: ${trial.error}`
  if (trial.state === 'infeasible')
    return trial.detail ? `${words[trial.reason]}: ${trial.detail}` : words[trial.reason]
  return ''
}
