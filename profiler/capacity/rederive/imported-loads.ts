/**
 * Capacity under an SLO from loads that another tool applied. They are what is known, and nothing
 * between them: no rate is interpolated, and a percentile that the tool did not report is not
 * guessed.
 */
import { countsTheSame, failsTooOften, type Slo } from '../../model/slo.ts'
import { keptPercentiles } from '../../load/latency-summary.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { Measurement } from '../../model/measurement.ts'
import {
  between,
  type CapacityUnder,
  type CurveKnot,
  noCapacity,
  unknownCapacity,
} from '../capacity-bounds.ts'

export const isImported = ({ outcome }: Pick<Measurement, 'outcome'>): boolean =>
  outcome === 'imported'

/**
 * The SLO's percentile of a load, ms; Infinity where too many requests failed; NaN where the tool
 * does not tell it.
 */
function latencyOf(point: LoadPoint, measured: Slo, slo: Slo): number {
  if (slo.limits || !countsTheSame(measured, slo)) return Number.NaN
  if (point.requests > 0 && failsTooOften(point, slo)) return Number.POSITIVE_INFINITY
  if (slo.percentile === measured.percentile) return point.sloMs
  const [, name] = keptPercentiles.find(([kept]) => kept === slo.percentile) ?? []
  return name === undefined ? Number.NaN : point[name]
}

/**
 * The loads by rising rate, each with the least latency at its rate or beyond: a closed loop with
 * more requests under way may answer fewer a second. Empty where the tool does not tell the SLO's
 * percentile of each.
 */
export function importedCurve({ points, slo: measured }: Measurement, slo: Slo): CurveKnot[] {
  const loads = points
    .map((point) => ({
      rateRps: point.achievedRps,
      latencyMs: latencyOf(point, measured, slo),
      requests: point.requests,
    }))
    .sort((a, b) => a.rateRps - b.rateRps)
  if (loads.some(({ latencyMs }) => Number.isNaN(latencyMs))) return []
  let least = Number.POSITIVE_INFINITY
  const knots = loads.toReversed().map(({ rateRps, latencyMs, requests }) => {
    least = Math.min(least, latencyMs)
    return { rateRps, latencyMs: least, lowMs: least, highMs: least, requests }
  })
  return knots.toReversed()
}

/**
 * The load that served most within the limit, and as its upper bound the next one that did not.
 * @param curve as `importedCurve` makes it
 */
export function importedCapacity(
  measurement: Measurement,
  slo: Slo,
  curve: readonly CurveKnot[],
): CapacityUnder {
  if (curve.length === 0) return { ...unknownCapacity, sloMs: Number.NaN, derived: true }
  const derived =
    slo.limitMs !== measurement.slo.limitMs || slo.percentile !== measurement.slo.percentile
  const held = curve.findLast(({ latencyMs }) => latencyMs <= slo.limitMs)
  if (!held)
    return {
      ...noCapacity,
      capacityCi90Rps: [0, curve[0]!.rateRps],
      sloMs: curve[0]!.latencyMs,
      derived,
    }
  const missed = curve.find(
    ({ rateRps, latencyMs }) => rateRps > held.rateRps && latencyMs > slo.limitMs,
  )
  return {
    ...between(held.rateRps, missed?.rateRps ?? Number.POSITIVE_INFINITY),
    sloMs: held.latencyMs,
    derived,
  }
}
