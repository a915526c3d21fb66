/** Brackets the capacity between rates that open windows met and violated. */
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import { judgeSloByInterval, meetsSlo, type Slo } from '../../model/slo.ts'
import { estimateJointCapacity, type JointCapacity } from './joint-capacity.ts'
import {
  estimateOverloadThroughput,
  type ObservedWindow,
  summariseWindow,
} from './short-windows.ts'

/** A valid window, and whether it met the SLO. */
export interface JudgedWindow extends ObservedWindow {
  readonly point: LoadPoint
  readonly met: boolean
  /** The 95 % interval of its percentile met the SLO. */
  readonly ciMet: boolean
}

/** Bracket of the capacity from all valid windows, requests per second. */
export interface RateBracket {
  /** Highest rate that met the SLO, and the highest one whose 95 % interval met it; 0 for none. */
  readonly metRps: number
  readonly ciMetRps: number
  /** Lowest rate that violated the SLO; Infinity for none. */
  readonly violatedRps: number
  /** Estimate from all windows together, once a rate met and another violated the SLO. */
  readonly joint?: JointCapacity
}

/**
 * @param answerS duration of an unloaded answer, which `summariseWindow` takes as the ramp
 */
export function judgeOpenWindow(
  run: LoadRun,
  point: LoadPoint,
  slo: Slo,
  answerS: number,
): JudgedWindow {
  return {
    ...summariseWindow(run, slo, answerS),
    point,
    met: meetsSlo(point, slo),
    ciMet: judgeSloByInterval(point, slo) === true,
  }
}

/**
 * @param loopWindow throughput of closed loops that kept the server busy. It counts as a violated
 * rate, because open load at that rate would queue without end.
 * @param unloadedMs latency of a request that does not wait, as the SLO measures it
 */
export function bracketRate(
  judged: readonly JudgedWindow[],
  loopWindow: ObservedWindow | undefined,
  slo: Slo,
  unloadedMs: number,
): RateBracket {
  const windows = loopWindow === undefined ? judged : [...judged, loopWindow]
  // Beyond the throughput of the overloaded server, the SLO was met only because the window ended
  // before the queue had grown.
  const servedRps = estimateOverloadThroughput(windows)?.rps ?? Number.POSITIVE_INFINITY
  const met = judged.filter((window) => window.met && window.rateRps <= servedRps)
  const violated = windows.filter((window) => !met.some((other) => other === window))
  const findHighestRate = (among: readonly ObservedWindow[]) =>
    Math.max(0, ...among.map(({ rateRps }) => rateRps))
  const metRps = findHighestRate(met)
  const violatedRps = Math.min(...violated.map(({ rateRps }) => rateRps))
  const isBracketed = metRps > 0 && Number.isFinite(violatedRps)
  return {
    metRps,
    ciMetRps: findHighestRate(met.filter(({ ciMet }) => ciMet)),
    violatedRps,
    ...(isBracketed && { joint: estimateJointCapacity(windows, slo, unloadedMs) }),
  }
}
