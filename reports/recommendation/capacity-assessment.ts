/**
 * Assesses the capacity of a measured configuration from its trials. Whatever shows, ranks,
 * recommends or deploys a configuration takes its status and figures from here.
 */
import type { CurveKnot, DerivedCapacity } from '../../profiler/capacity/capacity-bounds.ts'
import { deriveCapacity } from '../../profiler/capacity/rederive/capacity-under-slo.ts'
import { isImported } from '../../profiler/capacity/rederive/imported-loads.ts'
import { buildLoadCurve } from '../../profiler/capacity/rederive/load-curve.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { areSameSlo, type Slo } from '../../profiler/model/slo.ts'
import {
  type CompleteTrial,
  type ConfirmationResult,
  readConfirmation,
} from './confirmation-result.ts'
import { confirmationMargin, type Status } from './status.ts'
import { findWindowAt, judgeWindows, type WindowResult } from './windows.ts'

/** The capacity of a measured configuration under an SLO, with its status. */
export interface CapacityAssessment extends DerivedCapacity {
  readonly status: Exclude<Status, 'infeasible' | 'failed'>
  /**
   * `measured`: in a window at that rate. `model`: estimated by the profiler, or read off the load
   * curve. `unloaded`: one request at a time.
   */
  readonly sloMsFrom: 'measured' | 'model' | 'unloaded'
  /** Result of the last conclusive confirmation; absent if there is none. */
  readonly confirmation?: ConfirmationResult
  /** The first measurement with the windows of all confirmations. */
  readonly measurement: Measurement
  readonly curve: readonly CurveKnot[]
  readonly windows: readonly WindowResult[]
}

/**
 * @param first the measurement by the search
 * @param confirmations second measurements, in time order
 * @param buildCurve for callers that memoise load curves
 */
export function assessCapacity(
  first: CompleteTrial,
  confirmations: readonly CompleteTrial[],
  slo: Slo,
  buildCurve: (measurement: Measurement, slo: Slo) => readonly CurveKnot[] = buildLoadCurve,
): CapacityAssessment {
  const measurement = poolMeasurements(first.measurement, confirmations, slo)
  const curve = buildCurve(measurement, slo)
  const windows = [first, ...confirmations].flatMap((trial) => judgeWindows(trial.measurement, slo))
  const estimate = deriveEstimate(first.measurement, measurement, slo, curve)
  const last = confirmations
    .map((trial) => readConfirmation(trial, slo))
    .findLast((result) => result !== undefined)
  const confirmation = last?.met
    ? { ...last, ...findViolationAbove(windows, last.rateRps, slo) }
    : last
  const common = { measurement, curve, windows, ...(confirmation && { confirmation }) }
  if (
    confirmation?.met &&
    (areSameSlo(first.measurement.slo, slo) ||
      estimate.capacityRps <= confirmation.rateRps * (1 + confirmationMargin))
  ) {
    return {
      ...assessConfirmed(confirmation, estimate),
      ...common,
      status: confirmation.proven ? 'confirmed' : 'met',
    }
  }
  if (confirmation && !confirmation.met && confirmation.rateRps <= estimate.capacityRps) {
    return {
      ...assessRefuted(windows, confirmation.rateRps, estimate),
      ...common,
      status: 'refuted',
    }
  }
  return { ...assessOnce(estimate, windows, isImported(first.measurement)), ...common }
}

/**
 * Pools the first measurement with the windows of all. Its estimate is dropped, and the load curve
 * decides, where a confirmation violated the SLO at or below it.
 */
function poolMeasurements(
  first: Measurement,
  confirmations: readonly CompleteTrial[],
  slo: Slo,
): Measurement {
  if (confirmations.length === 0) return first
  const measurements = [first, ...confirmations.map((trial) => trial.measurement)]
  const contradicted = confirmations.some(({ measurement }) =>
    judgeWindows(measurement, first.slo).some(
      (w) => w.met === false && w.rateRps <= first.capacityRps,
    ),
  )
  return {
    ...first,
    ...(contradicted && { capacityRps: 0, capacityCi90Rps: [0, first.capacityCi90Rps[1]] }),
    unloaded: measurements.reduce((a, b) => (b.unloaded.requests > a.unloaded.requests ? b : a))
      .unloaded,
    saturationRps: Math.max(...measurements.map((m) => m.saturationRps)),
    points: measurements.flatMap((m) => m.points),
    requests: measurements.reduce((sum, m) => sum + m.requests, 0),
    // A confirmation's caveats are about the SLO that it was made for.
    caveats: mergeCaveats(
      measurements
        .filter((m) => m === first || areSameSlo(m.slo, slo))
        .map(({ caveats }) => caveats),
    ),
  }
}

/**
 * Caveats of measurements in time order. Of caveats that differ only in their numbers the latest
 * counts.
 */
function mergeCaveats(measured: readonly (readonly string[])[]): string[] {
  const removeNumbers = (caveat: string) => caveat.replace(/[\d.,]+/g, '')
  const merged = measured.flatMap((caveats, i) => {
    const later = new Set(measured.slice(i + 1).flatMap((more) => more.map(removeNumbers)))
    return caveats.filter((caveat) => !later.has(removeNumbers(caveat)))
  })
  return [...new Set(merged)]
}

const deriveEstimate = (
  first: Measurement,
  all: Measurement,
  slo: Slo,
  curve: readonly CurveKnot[],
): DerivedCapacity =>
  areSameSlo(first.slo, slo)
    ? deriveCapacity({ ...all, ...selectCapacity(first) }, slo, curve)
    : deriveCapacity(all, slo, curve)

const selectCapacity = ({ capacityRps, capacityCi90Rps, bounds }: Measurement) => ({
  capacityRps,
  capacityCi90Rps,
  bounds,
})

/** The confirmation gives the lower bound; the first measurement's upper bound stays. */
function assessConfirmed(
  { rateRps, lowerRps, sloMs }: ConfirmationResult,
  { capacityCi90Rps: [, high] }: DerivedCapacity,
): DerivedCapacity & Pick<CapacityAssessment, 'sloMsFrom'> {
  const upper = Math.max(rateRps, high)
  return {
    capacityRps: rateRps,
    capacityCi90Rps: [lowerRps, upper],
    bounds: Number.isFinite(upper) ? 'both' : 'lower',
    sloMs,
    sloMsFrom: 'measured',
    derived: false,
  }
}

/** Finds the lowest rate above a met one at which a window's 95 % interval lies above the limit. */
function findViolationAbove(
  windows: readonly WindowResult[],
  metRps: number,
  { limitMs }: Slo,
): Pick<ConfirmationResult, 'violatedRps'> {
  const violated = windows
    .filter((w) => w.met === false && w.rateRps > metRps && w.sloCi95Ms[0] > limitMs)
    .map((w) => w.rateRps)
  return violated.length > 0 ? { violatedRps: Math.min(...violated) } : {}
}

/** The capacity is the highest rate below the violated one at which a window met the SLO. */
function assessRefuted(
  windows: readonly WindowResult[],
  violatedRps: number,
  estimate: DerivedCapacity,
): DerivedCapacity & Pick<CapacityAssessment, 'sloMsFrom'> {
  const met = windows.filter((w) => w.met === true && w.rateRps < violatedRps)
  const best = met.reduce<WindowResult | undefined>(
    (a, b) => (a && a.rateRps >= b.rateRps ? a : b),
    undefined,
  )
  return {
    capacityRps: best?.rateRps ?? 0,
    capacityCi90Rps: [best?.rateRps ?? 0, violatedRps],
    bounds: best ? 'both' : 'upper',
    sloMs: best?.sloMs ?? estimate.sloMs,
    sloMsFrom: best ? 'measured' : estimate.capacityRps > 0 ? 'model' : 'unloaded',
    derived: false,
  }
}

/** The capacity by the first measurement alone. */
function assessOnce(
  estimate: DerivedCapacity,
  windows: readonly WindowResult[],
  isImportedResult: boolean,
): DerivedCapacity & Pick<CapacityAssessment, 'status' | 'sloMsFrom'> {
  const { capacityRps, capacityCi90Rps, bounds } = estimate
  if (isImportedResult) return { ...estimate, status: 'imported', sloMsFrom: 'measured' }
  const status =
    bounds === 'none'
      ? 'inconclusive'
      : bounds === 'both' && !(capacityRps > 0 && capacityCi90Rps[0] === 0)
        ? 'measured'
        : 'bound'
  if (!(capacityRps > 0)) return { ...estimate, status, sloMsFrom: 'unloaded' }
  const window = findWindowAt(windows, capacityRps)
  const bounded = status === 'bound' && capacityCi90Rps[0] === 0 ? { bounds: 'upper' as const } : {}
  return {
    ...estimate,
    ...bounded,
    status,
    sloMs: window?.sloMs ?? estimate.sloMs,
    sloMsFrom: window ? 'measured' : 'model',
  }
}
