/** The windows of a measurement, each judged by itself under an SLO. */
import { interpolatePercentile } from '../../profiler/capacity/rederive/load-curve.ts'
import { viewUnderSlo } from '../../profiler/capacity/rederive/stream-points.ts'
import { isProvenUnder, judgeWindow } from '../../profiler/capacity/rederive/window-under-slo.ts'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import {
  areSameSlo,
  haveSameLatency,
  isInvalidWindow,
  meetsSlo,
  type Slo,
} from '../../profiler/model/slo.ts'

/** A load window under an SLO. */
export interface WindowResult {
  readonly rateRps: number
  /**
   * Whether it met the SLO. Undefined if it is invalid (load generator or host interference), or
   * its record does not cover the SLO.
   */
  readonly met: boolean | undefined
  /** It proves the SLO at 95 % by itself. */
  readonly proven: boolean
  /** The SLO's percentile in this window, ms. */
  readonly sloMs: number
  readonly sloCi95Ms: readonly [number, number]
  readonly seconds: number
}

/**
 * Judges the windows of open load at a constant rate, in time order. Sweeps have no single rate,
 * and closed loops hide waiting times.
 */
export function judgeWindows(measurement: Measurement, slo: Slo): WindowResult[] {
  const steady = measurement.points.filter(
    (p) => p.load.kind === 'open' && p.load.arrivals.kind !== 'sweep',
  )
  return steady.map((point) => ({
    rateRps: point.offeredRps,
    seconds: point.seconds,
    met: judgePoint(point, measurement.slo, slo),
    proven: isProvenUnder(point, slo),
    ...readLatency(point, measurement, slo),
  }))
}

/** Relative difference up to which a window counts as one at a given rate. */
export const rateTolerance = 0.005

/** Finds the window that met the SLO at a rate; undefined if there is none. */
export const findWindowAt = (
  windows: readonly WindowResult[],
  rateRps: number,
): WindowResult | undefined =>
  windows.find((w) => w.met === true && Math.abs(w.rateRps / rateRps - 1) <= rateTolerance)

/**
 * Finds the highest rate at which a window proved the SLO by itself, below all rates that violated
 * it; undefined if none did.
 */
export function findProvenRps(windows: readonly WindowResult[]): number | undefined {
  const minViolatedRps = Math.min(...windows.filter((w) => w.met === false).map((w) => w.rateRps))
  const proven = windows.filter((w) => w.met === true && w.proven && w.rateRps < minViolatedRps)
  return proven.length > 0 ? Math.max(...proven.map((w) => w.rateRps)) : undefined
}

/**
 * Finds the lowest rate at which a window violated the SLO, and whether invalid windows lie below
 * it. Undefined if none violated it, or one met it at a lower rate.
 */
export function findLowestViolation(
  windows: readonly WindowResult[],
): (Pick<WindowResult, 'rateRps' | 'sloMs'> & { readonly invalidBelow: boolean }) | undefined {
  const violated = windows.filter((w) => w.met === false)
  if (violated.length === 0) return undefined
  const { rateRps, sloMs } = violated.reduce((a, b) => (b.rateRps < a.rateRps ? b : a))
  const below = windows.filter((w) => w.rateRps < rateRps)
  if (below.some(({ met }) => met === true)) return undefined
  return { rateRps, sloMs, invalidBelow: below.length > 0 }
}

function judgePoint(point: LoadPoint, measured: Slo, slo: Slo): boolean | undefined {
  if (!areSameSlo(measured, slo)) return judgeWindow(point, slo)
  if (meetsSlo(point, slo) && !point.cut) return true
  return isInvalidWindow(point, slo) ? undefined : false
}

function readLatency(
  point: LoadPoint,
  measurement: Measurement,
  slo: Slo,
): Pick<WindowResult, 'sloMs' | 'sloCi95Ms'> {
  if (!haveSameLatency(measurement.slo, slo))
    return viewUnderSlo({ ...measurement, points: [point] }, slo).points[0] ?? unknownLatency
  if (measurement.slo.percentile === slo.percentile) return point
  const scale =
    interpolatePercentile(point, slo.percentile) /
    interpolatePercentile(point, measurement.slo.percentile)
  const [low, high] = point.sloCi95Ms
  return { sloMs: point.sloMs * scale, sloCi95Ms: [low * scale, high * scale] }
}

const unknownLatency = { sloMs: Number.NaN, sloCi95Ms: [0, Number.POSITIVE_INFINITY] } as const
