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
  /** Relative slowdown that is no drift, e.g. 0.07. An hour counts as slow by its median. */
  readonly tolerance: number
  /** Mean days between false drift alarms, at least. */
  readonly falseAlarmDays: number
}

/**
 * ln of the factor by which latencies may differ from the load curve's interval without drift: the
 * network differs, and so do the requests of the trials.
 */
const curveTolerance = Math.log(1.1)
/** Ratio between two utilisation steps; windows are calibrated by step. */
const utilisationStep = 1.25
/** Windows that a step needs for an offset of its own. */
const minWindowsPerStep = 24
/** Hours of production that calibrate the curve, within its tolerance, before any is judged. */
export const calibrationHours = 72
/** Hours that are stored, for the size of a drift and for its end. */
const maxHours = 48
const recoveryHours = 12

interface Hour {
  /** Start, seconds since 1970. */
  readonly atS: number
  /** ln of the median slowness. */
  readonly ln: number
}

/** The state after all windows so far. Plain data, JSON-safe. */
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

/** [utilisation step, ln of slowness] */
type Observation = readonly [busy: number, ln: number]

export const initialDrift: DriftState = {
  settling: { hours: 0, windows: [] },
  evidence: initialEvidence,
  hours: [],
}

export interface DriftSummary {
  readonly state: 'settling' | 'quiet' | 'drifted'
  /** Hours judged, or calibrated so far. */
  readonly hours: number
  /** Mean days between such evidence for a server that has not changed, at least. */
  readonly evidenceDays: number
  /** Latency over the measured one, median of the last hours; absent before the first hour. */
  readonly slowness?: number
  readonly establishedS?: number
  readonly sinceS?: number
}

/** @param window without `sloMs` where its requests are too few for the percentile */
export function updateDrift(
  before: DriftState,
  window: ProductionWindow,
  server: MeasuredServer,
  replicas: number,
  question: DriftSettings,
): DriftState {
  const atS = getHourStartS(window.fromS)
  const closed =
    before.open && atS > before.open.atS
      ? closeHour(before, server, question, window.seconds)
      : before
  const perReplica = window.rateRps / replicas
  const ln =
    window.sloMs === undefined
      ? Number.NaN
      : Math.log(computeSlowness(server, perReplica, window.sloMs))
  if (!Number.isFinite(ln)) return closed
  const seen: Observation = [
    Math.round(Math.log(perReplica / server.capacityRps) / Math.log(utilisationStep)),
    Number(ln.toFixed(4)),
  ]
  return { ...closed, open: { atS, windows: [...(closed.open?.windows ?? []), seen] } }
}

export function summariseDrift({
  settling,
  evidence,
  hours,
  established,
  risingS,
}: DriftState): DriftSummary {
  const since = established?.sinceS ?? risingS
  const known = hours.filter(({ atS }) => since === undefined || atS >= since).slice(-maxHours / 2)
  return {
    state: settling ? 'settling' : established ? 'drifted' : 'quiet',
    hours: settling?.hours ?? hours.length,
    evidenceDays: sumCapital(evidence) / 24,
    ...(known.length > 0 && { slowness: Math.exp(median(known.map(({ ln }) => ln))) }),
    ...(established && { establishedS: established.atS, sinceS: established.sinceS }),
  }
}

/** Ends the current hour. It counts if windows with a result cover half of it. */
function closeHour(
  { open, ...before }: DriftState,
  server: MeasuredServer,
  question: DriftSettings,
  windowSeconds: number,
): DriftState {
  if (!open || open.windows.length * windowSeconds < hourS / 2) return before
  if (before.settling)
    return calibrate(
      before,
      server,
      [...before.settling.windows, ...open.windows],
      before.settling.hours + 1,
    )
  const ln = median(
    open.windows.map(([busy, value]) => value - findOffset(before.offsets ?? {}, busy)),
  )
  return judgeHour(before, { atS: open.atS, ln: Number(ln.toFixed(4)) }, question)
}

function calibrate(
  before: DriftState,
  server: MeasuredServer,
  windows: readonly Observation[],
  hours: number,
): DriftState {
  if (hours < calibrationHours) return { ...before, settling: { hours, windows } }
  const { settling: _, ...rest } = before
  const byBusy = new Map<number, number[]>()
  for (const [busy, ln] of windows) byBusy.set(busy, [...(byBusy.get(busy) ?? []), ln])
  const offsets = [...byBusy]
    .filter(([, values]) => values.length >= minWindowsPerStep)
    .map(([busy, values]) => [String(busy), clampToCurve(values, busy, server)] as const)
  const middle = median(windows.map(([busy]) => busy))
  const all = clampToCurve(
    windows.map(([, ln]) => ln),
    middle,
    server,
  )
  return { ...rest, offsets: Object.fromEntries([...offsets, ['all', all]]) }
}

/**
 * The median, limited to what the curve's uncertainty allows. Latency rises with load, so the true
 * curve lies between the intervals of the measured rates on both sides.
 */
function clampToCurve(
  values: readonly number[],
  busy: number,
  { capacityRps, curve }: MeasuredServer,
): number {
  const rateRps = capacityRps * utilisationStep ** busy
  const drawn = interpolateLatency(curve, rateRps)
  const below = curve.findLast((knot) => knot.rateRps <= rateRps)?.lowMs ?? drawn
  const above = curve.find((knot) => knot.rateRps >= rateRps)?.highMs ?? drawn
  return Math.max(
    Math.log(below / drawn) - curveTolerance,
    Math.min(Math.log(above / drawn) + curveTolerance, median([...values])),
  )
}

/** Finds the offset of the nearest calibrated step. */
function findOffset(offsets: Readonly<Record<string, number>>, busy: number): number {
  const known = Object.keys(offsets).filter((key) => key !== 'all')
  const nearest = known.sort((a, b) => Math.abs(Number(a) - busy) - Math.abs(Number(b) - busy))[0]
  return offsets[nearest ?? 'all'] ?? 0
}

function judgeHour(
  before: DriftState,
  hour: Hour,
  { tolerance, falseAlarmDays }: DriftSettings,
): DriftState {
  const slow = (one: Hour) => one.ln > Math.log1p(tolerance)
  const hours = [...before.hours, hour].slice(-maxHours)
  if (before.established) {
    const last = hours.filter(({ atS }) => atS >= before.established!.atS).slice(-recoveryHours)
    const over = last.length === recoveryHours && last.filter(slow).length <= recoveryHours / 4
    const { established: _, ...rest } = before
    return over ? { ...rest, evidence: initialEvidence, hours } : { ...before, hours }
  }
  const evidence = updateEvidence(before.evidence, slow(hour))
  const { risingS: rising, ...rest } = before
  const risingS = sumCapital(evidence) > 2 ? (rising ?? hour.atS) : undefined
  if (sumCapital(evidence) < falseAlarmDays * 24)
    return { ...rest, evidence, hours, ...(risingS !== undefined && { risingS }) }
  const atS = getWindowEndS({ fromS: hour.atS, seconds: hourS })
  return { ...rest, evidence, hours, established: { atS, sinceS: risingS ?? hour.atS } }
}
