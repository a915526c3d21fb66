/**
 * Capacity under an SLO from loads that another tool applied. Rates between the loads are not
 * interpolated, nor are percentiles that the tool did not report.
 */

import { storedPercentiles } from '../../load/latency-summary.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { Measurement } from '../../model/measurement.ts'
import { exceedsErrorRate, haveSameLatency, type Slo } from '../../model/slo.ts'
import { type CurveKnot, type DerivedCapacity, unknownCapacity } from '../capacity-bounds.ts'
import { boundByImportedLoads } from '../interval.ts'

export const isImported = ({ outcome }: Pick<Measurement, 'outcome'>): boolean =>
  outcome === 'imported'

/**
 * Selects the SLO percentile of a load, ms. Infinity where its error rate exceeds the SLO; NaN
 * where the tool does not report the percentile.
 */
function selectLatency(point: LoadPoint, measured: Slo, slo: Slo): number {
  if (slo.limits || !haveSameLatency(measured, slo)) return Number.NaN
  if (point.requests > 0 && exceedsErrorRate(point, slo)) return Number.POSITIVE_INFINITY
  if (slo.percentile === measured.percentile) return point.sloMs
  const [, name] = storedPercentiles.find(([stored]) => stored === slo.percentile) ?? []
  return name === undefined ? Number.NaN : point[name]
}

/**
 * Builds the curve of the loads by rising rate. A closed loop with more requests in progress may
 * answer fewer per second and more slowly. So each knot has the smallest latency of all loads at
 * its rate or beyond. Empty where a load lacks the percentile.
 */
export function buildImportedCurve({ points, slo: measured }: Measurement, slo: Slo): CurveKnot[] {
  const loads = points
    .map((point) => ({
      rateRps: point.achievedRps,
      latencyMs: selectLatency(point, measured, slo),
      requests: point.requests,
    }))
    .sort((a, b) => a.rateRps - b.rateRps)
  if (loads.some(({ latencyMs }) => Number.isNaN(latencyMs))) return []
  let minMs = Number.POSITIVE_INFINITY
  const knots = loads.toReversed().map(({ rateRps, latencyMs, requests }) => {
    minMs = Math.min(minMs, latencyMs)
    return { rateRps, latencyMs: minMs, lowMs: minMs, highMs: minMs, requests }
  })
  return knots.toReversed()
}

/**
 * Resolves the capacity: the highest rate of a load within the limit, bounded above by the next
 * load over the limit.
 * @param curve built by `buildImportedCurve`
 */
export function resolveImportedCapacity(
  measurement: Measurement,
  slo: Slo,
  curve: readonly CurveKnot[],
): DerivedCapacity {
  if (curve.length === 0) return { ...unknownCapacity, sloMs: Number.NaN, derived: true }
  const derived =
    slo.limitMs !== measurement.slo.limitMs || slo.percentile !== measurement.slo.percentile
  const met = curve.findLast(({ latencyMs }) => latencyMs <= slo.limitMs)
  const metRps = met?.rateRps ?? 0
  const violated = curve.find(
    ({ rateRps, latencyMs }) => rateRps > metRps && latencyMs > slo.limitMs,
  )
  return {
    ...boundByImportedLoads(metRps, violated?.rateRps ?? Number.POSITIVE_INFINITY),
    sloMs: met?.latencyMs ?? curve[0]!.latencyMs,
    derived,
  }
}
