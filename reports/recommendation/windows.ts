/** What the windows of a measurement say of an SLO, each for itself. */
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

/** A window under an SLO. */
export interface Window {
  readonly rateRps: number
  /**
   * Undefined where it says nothing: the generator or the machine spoilt it, or what was recorded
   * does not tell.
   */
  readonly met: boolean | undefined
  /** It proves the SLO at 95 % by itself. */
  readonly proven: boolean
  /** The SLO's percentile in it, ms. */
  readonly sloMs: number
  readonly sloCi95Ms: readonly [number, number]
  readonly seconds: number
}

/**
 * Windows of open load at one rate, in time order. A sweep has no one rate, and a closed loop hides
 * its waiting.
 */
export function windowsOf(measurement: Measurement, slo: Slo): Window[] {
  const steady = measurement.points.filter(
    (p) => p.load.kind === 'open' && p.load.arrivals.kind !== 'sweep',
  )
  return steady.map((point) => ({
    rateRps: point.offeredRps,
    seconds: point.seconds,
    met: keptBy(point, measurement.slo, slo),
    proven: isProvenUnder(point, slo),
    ...latencyOf(point, measurement, slo),
  }))
}

/** A window this near stands for the rate itself. */
export const sameRate = 0.005

/** The window that met the SLO at a rate; undefined where none was played there. */
export const findWindowAt = (windows: readonly Window[], rateRps: number): Window | undefined =>
  windows.find((w) => w.met === true && Math.abs(w.rateRps / rateRps - 1) <= sameRate)

/**
 * The highest rate at which one proved the SLO by itself, below all that missed it; undefined where
 * none did.
 */
export function findProvenRps(windows: readonly Window[]): number | undefined {
  const missedRps = Math.min(...windows.filter((w) => w.met === false).map((w) => w.rateRps))
  const held = windows.filter((w) => w.met === true && w.proven && w.rateRps < missedRps)
  return held.length > 0 ? Math.max(...held.map((w) => w.rateRps)) : undefined
}

/**
 * The lowest rate at which a window violated the SLO, and whether windows at lower rates say
 * nothing; undefined where none violated it, or one met it at a lower rate.
 */
export function lowestViolation(
  windows: readonly Window[],
): (Pick<Window, 'rateRps' | 'sloMs'> & { readonly invalidBelow: boolean }) | undefined {
  const violated = windows.filter((w) => w.met === false)
  if (violated.length === 0) return undefined
  const { rateRps, sloMs } = violated.reduce((a, b) => (b.rateRps < a.rateRps ? b : a))
  const below = windows.filter((w) => w.rateRps < rateRps)
  if (below.some(({ met }) => met === true)) return undefined
  return { rateRps, sloMs, invalidBelow: below.length > 0 }
}

function keptBy(point: LoadPoint, measured: Slo, slo: Slo): boolean | undefined {
  if (!areSameSlo(measured, slo)) return judgeWindow(point, slo)
  if (meetsSlo(point, slo) && !point.cut) return true
  return isInvalidWindow(point, slo) ? undefined : false
}

function latencyOf(
  point: LoadPoint,
  measurement: Measurement,
  slo: Slo,
): Pick<Window, 'sloMs' | 'sloCi95Ms'> {
  if (!haveSameLatency(measurement.slo, slo))
    return viewUnderSlo({ ...measurement, points: [point] }, slo).points[0] ?? unknown
  if (measurement.slo.percentile === slo.percentile) return point
  const scale =
    interpolatePercentile(point, slo.percentile) /
    interpolatePercentile(point, measurement.slo.percentile)
  const [low, high] = point.sloCi95Ms
  return { sloMs: point.sloMs * scale, sloCi95Ms: [low * scale, high * scale] }
}

const unknown = { sloMs: Number.NaN, sloCi95Ms: [0, Number.POSITIVE_INFINITY] } as const
