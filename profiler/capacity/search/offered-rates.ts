import type { Load } from '../../model/load.ts'
import type { LoadRun } from '../../model/load-run.ts'

/**
 * No rate is tried below this factor on the lowest rate so far. For a sweep that is its start rate.
 * Assumed.
 */
const minRateFactor = 0.5
/**
 * Factor on a rate that the generator could not sustain, so that a few steps find one that it does.
 * Assumed.
 */
const generatorBackoff = 0.7
/**
 * The generator sustained a window where it sent this share of the planned requests. This and the
 * next bound are looser than those of load/window-validity.ts, which mark a load point: lower rates
 * cost more than a few late sends. Assumed.
 */
const minSentShare = 0.97
/**
 * The generator has one sending thread, so more than this share of a core is its limit. Assumed.
 */
const maxGeneratorCores = 0.95

/** Rates that the generator may offer next, requests per second. */
export class OfferedRates {
  /**
   * Lowest rate to try next, 0 before the first window. A few requests at a far lower rate would
   * not bound the rates in between.
   */
  minNextRps = 0
  /** Highest rate that the generator sustains; Infinity while it sustained all rates. */
  maxGeneratorRps = Number.POSITIVE_INFINITY

  /** Records a window. Returns whether the generator sustained it. */
  record(run: LoadRun): boolean {
    this.minNextRps = Math.min(
      this.minNextRps || Number.POSITIVE_INFINITY,
      minRateFactor * findLowestRate(run.load),
    )
    const sent = run.latencyMs.length
    if (sent >= minSentShare * run.planned && run.generatorCores <= maxGeneratorCores) return true
    this.maxGeneratorRps = Math.min(this.maxGeneratorRps, (generatorBackoff * sent) / run.seconds)
    return false
  }
}

const findLowestRate = (load: Load): number =>
  load.kind !== 'open'
    ? Number.POSITIVE_INFINITY
    : load.arrivals.kind === 'sweep'
      ? load.arrivals.fromRps
      : load.rateRps
