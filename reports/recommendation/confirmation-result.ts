/**
 * The result of a confirmation (a second, independent measurement of a configuration) under an SLO.
 * That is the SLO that it was made for, or another one, judged by the same windows.
 */
import { unprovenShare } from '../../profiler/capacity/interval.ts'
import type { Measurement, Variation } from '../../profiler/model/measurement.ts'
import { areSameSlo, type Slo } from '../../profiler/model/slo.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { judgeWindows, type WindowResult } from './windows.ts'

export type CompleteTrial = FinishedTrial & { readonly state: 'complete' }

export interface ConfirmationResult {
  readonly trial: CompleteTrial
  /** The SLO was met at `rateRps`; else it was violated there and at every rate tried. */
  readonly met: boolean
  /** Met with enough requests to prove it at 95 %. */
  readonly proven: boolean
  /** Requests per second: the highest rate that met the SLO, else the lowest that violated it. */
  readonly rateRps: number
  /** Lower end of the 90 % interval of `rateRps` where it met the SLO, else 0. */
  readonly lowerRps: number
  /** The SLO's percentile in the window at that rate, ms. */
  readonly sloMs: number
  readonly sloCi95Ms: readonly [number, number]
  /**
   * Confidence that the SLO is met, 0 to 1, and the seconds of load behind it. Absent if the SLO
   * differs from that of the measurement.
   */
  readonly confidence?: number
  readonly seconds?: number
  /**
   * Lowest rate above `rateRps` at which a window's 95 % interval lies above the limit, in any
   * measurement. Absent: there is none.
   */
  readonly violatedRps?: number
  /** How measurements of the configuration disagree; absent if they agree. */
  readonly variation?: Variation
}

/**
 * @returns undefined if the measurement is inconclusive: its windows are invalid, or their
 * records do not cover this SLO
 */
export function readConfirmation(trial: CompleteTrial, slo: Slo): ConfirmationResult | undefined {
  const { measurement } = trial
  const windows = judgeWindows(measurement, slo)
  if (areSameSlo(measurement.slo, slo)) {
    const result = readUnderOwnSlo(trial, measurement, windows)
    const { variation } = measurement
    return result && variation ? { ...result, variation } : result
  }
  const met = findHighestRate(windows.filter((w) => w.met === true))
  if (met)
    return {
      trial,
      met: true,
      proven: met.proven,
      lowerRps: met.rateRps * (met.proven ? 1 : unprovenShare),
      ...selectFigures(met),
    }
  const violated = findLowestRate(windows.filter((w) => w.met === false))
  return violated && { trial, met: false, proven: false, lowerRps: 0, ...selectFigures(violated) }
}

/**
 * Under its own SLO the measurement's capacity counts, not single windows: it may have pooled two
 * of them.
 */
function readUnderOwnSlo(
  trial: CompleteTrial,
  measurement: Measurement,
  windows: readonly WindowResult[],
): ConfirmationResult | undefined {
  const { capacityRps, capacityCi90Rps, outcome, confidence } = measurement
  if (capacityRps > 0) {
    const at = findNearest(windows, capacityRps)
    const [low] = capacityCi90Rps
    // The profiler lowers the interval of what it could not prove.
    const proven = low >= capacityRps * (1 - 1e-9)
    const lowerRps = low > 0 ? Math.min(low, capacityRps) : unprovenShare * capacityRps
    const { sloMs, sloCi95Ms } = at ?? {
      sloMs: Number.NaN,
      sloCi95Ms: [0, Number.POSITIVE_INFINITY] as const,
    }
    const proof =
      confidence !== undefined && at !== undefined ? { confidence, seconds: at.seconds } : {}
    return {
      trial,
      met: true,
      proven,
      rateRps: capacityRps,
      lowerRps,
      sloMs,
      sloCi95Ms,
      ...proof,
    }
  }
  if (outcome === 'generator-limit' || outcome === 'host-interference') return undefined
  const violated = findLowestRate(windows.filter((w) => w.met === false))
  return violated && { trial, met: false, proven: false, lowerRps: 0, ...selectFigures(violated) }
}

const selectFigures = ({ rateRps, sloMs, sloCi95Ms }: WindowResult) => ({
  rateRps,
  sloMs,
  sloCi95Ms,
})

const findHighestRate = (windows: readonly WindowResult[]): WindowResult | undefined =>
  windows.reduce<WindowResult | undefined>(
    (a, b) => (a && a.rateRps >= b.rateRps ? a : b),
    undefined,
  )
const findLowestRate = (windows: readonly WindowResult[]): WindowResult | undefined =>
  windows.reduce<WindowResult | undefined>(
    (a, b) => (a && a.rateRps <= b.rateRps ? a : b),
    undefined,
  )

/** Finds the window nearest to a rate; of two at the same distance the one that met the SLO. */
function findNearest(windows: readonly WindowResult[], rateRps: number): WindowResult | undefined {
  const distance = (w: WindowResult) => Math.abs(w.rateRps - rateRps) + (w.met ? 0 : 1e-6 * rateRps)
  return windows.reduce<WindowResult | undefined>(
    (a, b) => (a && distance(a) <= distance(b) ? a : b),
    undefined,
  )
}
