/**
 * What a second, independent measurement of a configuration says under an SLO: its own, or another
 * that the same windows prove or miss.
 */
import { unprovenShare } from '../../profiler/capacity/interval.ts'
import type { Measurement, Variation } from '../../profiler/model/measurement.ts'
import { areSameSlo, type Slo } from '../../profiler/model/slo.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { type Window, windowsOf } from './windows.ts'

export type Complete = FinishedTrial & { readonly state: 'complete' }

export interface SecondLook {
  readonly trial: Complete
  /** The SLO held at `rateRps`; else it was missed there, and at every rate tried. */
  readonly met: boolean
  readonly proven: boolean
  /** Requests per second: the highest rate that held, else the lowest that missed. */
  readonly rateRps: number
  /** Of what held, the lower end of its 90 % interval; 0 where it missed. */
  readonly surelyRps: number
  /** The SLO's percentile in the window at that rate, ms. */
  readonly sloMs: number
  readonly sloCi95Ms: readonly [number, number]
  /**
   * Confidence that the SLO is met, 0 to 1, and the seconds under load that it took. Absent under
   * another SLO than the measurement's own.
   */
  readonly confidence?: number
  readonly seconds?: number
  /**
   * Of what held: the lowest rate beyond it at which a window missed the SLO for certain, in
   * whichever measurement. Absent: none did.
   */
  readonly violatedRps?: number
  /** Where measurements of the configuration disagree: how. */
  readonly variation?: Variation
}

/**
 * Undefined where the measurement says nothing: its windows were spoilt, or what was recorded of
 * them does not tell.
 */
export function secondLook(trial: Complete, slo: Slo): SecondLook | undefined {
  const { measurement } = trial
  const windows = windowsOf(measurement, slo)
  if (areSameSlo(measurement.slo, slo)) {
    const found = asFound(trial, measurement, windows)
    const { variation } = measurement
    return found && variation ? { ...found, variation } : found
  }
  const held = highest(windows.filter((w) => w.met === true))
  if (held)
    return {
      trial,
      met: true,
      proven: held.proven,
      surelyRps: held.rateRps * (held.proven ? 1 : unprovenShare),
      ...figuresOf(held),
    }
  const missed = lowest(windows.filter((w) => w.met === false))
  return missed && { trial, met: false, proven: false, surelyRps: 0, ...figuresOf(missed) }
}

/**
 * Under the SLO it was made for, the measurement's own word counts: it may have joined two windows.
 */
function asFound(
  trial: Complete,
  measurement: Measurement,
  windows: readonly Window[],
): SecondLook | undefined {
  const { capacityRps, capacityCi90Rps, outcome, confidence } = measurement
  if (capacityRps > 0) {
    const at = nearest(windows, capacityRps)
    const [low] = capacityCi90Rps
    // The profiler lowers the interval of what it could not prove.
    const proven = low >= capacityRps * (1 - 1e-9)
    const surelyRps = low > 0 ? Math.min(low, capacityRps) : unprovenShare * capacityRps
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
      surelyRps,
      sloMs,
      sloCi95Ms,
      ...proof,
    }
  }
  if (outcome === 'generator-limit' || outcome === 'host-interference') return undefined
  const missed = lowest(windows.filter((w) => w.met === false))
  return missed && { trial, met: false, proven: false, surelyRps: 0, ...figuresOf(missed) }
}

const figuresOf = ({ rateRps, sloMs, sloCi95Ms }: Window) => ({ rateRps, sloMs, sloCi95Ms })

const highest = (windows: readonly Window[]): Window | undefined =>
  windows.reduce<Window | undefined>((a, b) => (a && a.rateRps >= b.rateRps ? a : b), undefined)
const lowest = (windows: readonly Window[]): Window | undefined =>
  windows.reduce<Window | undefined>((a, b) => (a && a.rateRps <= b.rateRps ? a : b), undefined)

/** The window at a rate; of two as near, the one that kept the SLO. */
function nearest(windows: readonly Window[], rateRps: number): Window | undefined {
  const distance = (w: Window) => Math.abs(w.rateRps - rateRps) + (w.met ? 0 : 1e-6 * rateRps)
  return windows.reduce<Window | undefined>(
    (a, b) => (a && distance(a) <= distance(b) ? a : b),
    undefined,
  )
}
