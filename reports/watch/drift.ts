/**
 * Detects whether a server has become slower than it was measured. Windows are summarised by hour,
 * and each hour adds to the evidence of a change.
 */
import { median } from 'simple-statistics'
import { interpolateLatency } from '../../profiler/capacity/rederive/load-curve.ts'
import { type Evidence, initialEvidence, sumCapital, updateEvidence } from './e-detector.ts'
import { getHourStartS, getWindowEndS, hourS, type ProductionWindow } from './production-window.ts'
import { computeSlowness, type MeasuredServer } from './slowness.ts'

export interface DriftSettings {
  /** Relative slowdown that is no drift, e.g. 0.07. An hour is slow if its median exceeds it. */
  readonly tolerance: number
  /** Minimum mean days between false drift alarms. */
  readonly falseAlarmDays: number
}

/**
 * ln of the factor by which latencies may differ from the interval of the load curve without drift:
 * the network and the requests differ from those of the trials.
 */
const curveTolerance = Math.log(1.1)
/** Ratio between two utilisation steps; windows are calibrated by step. */
const utilisationStep = 1.25
/** Windows that a step needs for an offset of its own. */
const minWindowsPerStep = 24
/** Hours of production that calibrate the curve, within its tolerance, before the first test. */
export const calibrationHours = 72
/** Hours that are stored, to compute the size of a drift and to detect its end. */
const maxHours = 48
/** Hours over which a drift must have disappeared; a quarter of them may still be slow. */
const recoveryHours = 12
/** Evidence above which a rise is dated. Without a change, it takes 2 hours or more on average. */
const minRisingEvidence = 2

interface Hour {
  /** Start, seconds since 1970. */
  readonly atS: number
  /** ln of the median slowness. */
  readonly ln: number
}

/** State after all windows so far. JSON-serialisable. */
export interface DriftState {
  /** The current hour. */
  readonly open?: { readonly atS: number; readonly windows: readonly Observation[] }
  /** Set during calibration. */
  readonly settling?: { readonly hours: number; readonly windows: readonly Observation[] }
  /** ln of production latency over the curve's, by utilisation step; `all`: for other steps. */
  readonly offsets?: Readonly<Record<string, number>>
  readonly evidence: Evidence
  /** Since when the evidence has been above that of quiet hours, seconds since 1970. */
  readonly risingS?: number
  readonly hours: readonly Hour[]
  /** A drift that was detected and has not ended. */
  readonly established?: { readonly atS: number; readonly sinceS: number }
}

/** [utilisation step, ln of slowness] of one window. */
type Observation = readonly [step: number, ln: number]

export const initialDrift: DriftState = {
  settling: { hours: 0, windows: [] },
  evidence: initialEvidence,
  hours: [],
}

export interface DriftSummary {
  readonly state: 'settling' | 'quiet' | 'drifted'
  /** Hours tested, or calibrated so far. */
  readonly hours: number
  /** Lower bound of the mean days until such evidence for a server that has not changed. */
  readonly evidenceDays: number
  /** Latency over the measured one, median of the last hours; absent before the first hour. */
  readonly slowness?: number
  readonly establishedS?: number
  readonly sinceS?: number
}

/** @param window without `sloMs` if its requests are too few for the percentile */
export function updateDrift(
  previous: DriftState,
  window: ProductionWindow,
  server: MeasuredServer,
  replicas: number,
  settings: DriftSettings,
): DriftState {
  const atS = getHourStartS(window.fromS)
  const state =
    previous.open && atS > previous.open.atS
      ? closeHour(previous, server, settings, window.seconds)
      : previous
  const replicaRps = window.rateRps / replicas
  const ln =
    window.sloMs === undefined
      ? Number.NaN
      : Math.log(computeSlowness(server, replicaRps, window.sloMs))
  if (!Number.isFinite(ln)) return state
  const observation: Observation = [
    Math.round(Math.log(replicaRps / server.capacityRps) / Math.log(utilisationStep)),
    Number(ln.toFixed(4)),
  ]
  return { ...state, open: { atS, windows: [...(state.open?.windows ?? []), observation] } }
}

export function summariseDrift({
  settling,
  evidence,
  hours,
  established,
  risingS,
}: DriftState): DriftSummary {
  const sinceS = established?.sinceS ?? risingS
  const driftHours = hours
    .filter(({ atS }) => sinceS === undefined || atS >= sinceS)
    .slice(-maxHours / 2)
  return {
    state: settling ? 'settling' : established ? 'drifted' : 'quiet',
    hours: settling?.hours ?? hours.length,
    evidenceDays: sumCapital(evidence) / 24,
    ...(driftHours.length > 0 && { slowness: Math.exp(median(driftHours.map(({ ln }) => ln))) }),
    ...(established && { establishedS: established.atS, sinceS: established.sinceS }),
  }
}

/** Ends the current hour. It counts if windows with a result cover half of it. */
function closeHour(
  { open, ...previous }: DriftState,
  server: MeasuredServer,
  settings: DriftSettings,
  windowSeconds: number,
): DriftState {
  if (!open || open.windows.length * windowSeconds < hourS / 2) return previous
  if (previous.settling)
    return calibrate(
      previous,
      server,
      [...previous.settling.windows, ...open.windows],
      previous.settling.hours + 1,
    )
  const ln = median(
    open.windows.map(([step, value]) => value - findOffset(previous.offsets ?? {}, step)),
  )
  return testHour(previous, { atS: open.atS, ln: Number(ln.toFixed(4)) }, settings)
}

function calibrate(
  previous: DriftState,
  server: MeasuredServer,
  windows: readonly Observation[],
  hours: number,
): DriftState {
  if (hours < calibrationHours) return { ...previous, settling: { hours, windows } }
  const { settling: _, ...rest } = previous
  const lnByStep = new Map<number, number[]>()
  for (const [step, ln] of windows) lnByStep.set(step, [...(lnByStep.get(step) ?? []), ln])
  const offsets = [...lnByStep]
    .filter(([, values]) => values.length >= minWindowsPerStep)
    .map(([step, values]) => [String(step), clampToCurve(values, step, server)] as const)
  const medianStep = median(windows.map(([step]) => step))
  const overallOffset = clampToCurve(
    windows.map(([, ln]) => ln),
    medianStep,
    server,
  )
  return { ...rest, offsets: Object.fromEntries([...offsets, ['all', overallOffset]]) }
}

/**
 * Computes the median, limited to what the uncertainty of the curve allows. Latency rises with load,
 * so the true curve lies between the intervals of the measured rates on both sides.
 */
function clampToCurve(
  values: readonly number[],
  step: number,
  { capacityRps, curve }: MeasuredServer,
): number {
  const rateRps = capacityRps * utilisationStep ** step
  const curveMs = interpolateLatency(curve, rateRps)
  const lowMs = curve.findLast((knot) => knot.rateRps <= rateRps)?.lowMs ?? curveMs
  const highMs = curve.find((knot) => knot.rateRps >= rateRps)?.highMs ?? curveMs
  return Math.max(
    Math.log(lowMs / curveMs) - curveTolerance,
    Math.min(Math.log(highMs / curveMs) + curveTolerance, median([...values])),
  )
}

/** Finds the offset of the nearest calibrated step. */
function findOffset(offsets: Readonly<Record<string, number>>, step: number): number {
  const steps = Object.keys(offsets).filter((key) => key !== 'all')
  const nearest = steps.sort((a, b) => Math.abs(Number(a) - step) - Math.abs(Number(b) - step))[0]
  return offsets[nearest ?? 'all'] ?? 0
}

function testHour(
  previous: DriftState,
  hour: Hour,
  { tolerance, falseAlarmDays }: DriftSettings,
): DriftState {
  const isSlow = (one: Hour) => one.ln > Math.log1p(tolerance)
  const hours = [...previous.hours, hour].slice(-maxHours)
  if (previous.established) {
    const lastHours = hours
      .filter(({ atS }) => atS >= previous.established!.atS)
      .slice(-recoveryHours)
    const hasRecovered =
      lastHours.length === recoveryHours && lastHours.filter(isSlow).length <= recoveryHours / 4
    const { established: _, ...rest } = previous
    return hasRecovered ? { ...rest, evidence: initialEvidence, hours } : { ...previous, hours }
  }
  const evidence = updateEvidence(previous.evidence, isSlow(hour))
  const { risingS: previousRisingS, ...rest } = previous
  const risingS =
    sumCapital(evidence) > minRisingEvidence ? (previousRisingS ?? hour.atS) : undefined
  if (sumCapital(evidence) < falseAlarmDays * 24)
    return { ...rest, evidence, hours, ...(risingS !== undefined && { risingS }) }
  const atS = getWindowEndS({ fromS: hour.atS, seconds: hourS })
  return { ...rest, evidence, hours, established: { atS, sinceS: risingS ?? hour.atS } }
}
