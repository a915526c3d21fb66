/**
 * Derives the capacity under another SLO from a stored load curve, without a new trial. Pure: also
 * runs in a browser.
 */
import type { Measurement } from '../../model/measurement.ts'
import { areSameSlo, haveSameLatency, type Slo } from '../../model/slo.ts'
import type { CurveKnot, DerivedCapacity } from '../capacity-bounds.ts'
import { boundByCurveStart, raiseToSaturation, widenForInterpolation } from '../interval.ts'
import { isImported, resolveImportedCapacity } from './imported-loads.ts'
import {
  buildLoadCurve,
  computeUnloadedPercentile,
  findCrossing,
  interpolateLatency,
} from './load-curve.ts'
import { viewUnderSlo } from './stream-points.ts'

/**
 * Derives the capacity of a measured predictor under `slo`.
 * @param curve load curve, for callers with many limits of one percentile; built here by default
 * @throws RangeError for a percentile outside (0, 1) or a limit that is not positive
 */
export function deriveCapacity(
  measurement: Measurement,
  slo: Slo,
  curve: readonly CurveKnot[] = buildLoadCurve(measurement, slo),
): DerivedCapacity {
  // Both comparisons also reject NaN.
  if (!(slo.percentile > 0 && slo.percentile < 1))
    throw new RangeError(`percentile must be between 0 and 1, not ${slo.percentile}`)
  if (!(slo.limitMs > 0)) throw new RangeError(`limitMs must be positive, not ${slo.limitMs}`)
  if (isImported(measurement)) return resolveImportedCapacity(measurement, slo, curve)
  if (areSameSlo(measurement.slo, slo)) {
    const { capacityRps, capacityCi90Rps, bounds } = measurement
    const sloMs =
      capacityRps > 0
        ? Math.min(interpolateLatency(curve, capacityRps), slo.limitMs)
        : computeUnloadedPercentile(measurement, slo)
    return { capacityRps, capacityCi90Rps, bounds, sloMs, derived: false }
  }
  return deriveFromCurve(
    haveSameLatency(measurement.slo, slo) ? measurement : viewUnderSlo(measurement, slo),
    slo,
    curve,
  )
}

function deriveFromCurve(
  measurement: Measurement,
  slo: Slo,
  curve: readonly CurveKnot[],
): DerivedCapacity {
  const { limitMs } = slo
  const unloadedMs = computeUnloadedPercentile(measurement, slo)
  const last = curve.at(-1)
  if (!last || (curve[0]?.latencyMs ?? Number.POSITIVE_INFINITY) > limitMs)
    return {
      ...boundByCurveStart(findCrossing(curve, limitMs, 'lowMs')),
      sloMs: unloadedMs,
      derived: true,
    }
  const capacityRps = findCrossing(curve, limitMs, 'latencyMs')
  // The curve never reaches the limit.
  const isUnbounded = capacityRps >= last.rateRps
  const estimate = widenForInterpolation(
    capacityRps,
    [findCrossing(curve, limitMs, 'highMs'), findCrossing(curve, limitMs, 'lowMs')],
    measurement,
  )
  return {
    ...(isUnbounded ? raiseToSaturation(estimate, measurement.saturationRps) : estimate),
    sloMs: Math.min(limitMs, interpolateLatency(curve, capacityRps)),
    derived: true,
    bounds: isUnbounded
      ? 'lower'
      : limitMs <= measurement.slo.limitMs
        ? measurement.bounds
        : 'both',
  }
}
