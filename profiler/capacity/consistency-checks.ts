/** Caveats where windows of a measurement disagree, or where the server changed its speed. */

import { rate } from '../format.ts'
import type { LoadRun } from '../model/load-run.ts'
import { computeLatencyMoments, type OverShare, overShare } from '../statistics/dependence.ts'

/** Windows whose rates differ by at most this share are compared. */
const rateTolerance = 0.05
const minStandardErrors = 3

type Share = Pick<OverShare, 'n' | 'over' | 'nEff'>

/** Whether shares of requests over the limit differ by more than three standard errors. */
export function sharesDiffer(a: Share, b: Share): boolean {
  const [p, q] = [a.over / a.n, b.over / b.n]
  const pooled = (a.over + b.over) / (a.n + b.n)
  const error = Math.sqrt(pooled * (1 - pooled) * (1 / a.nEff + 1 / b.nEff))
  return Math.abs(p - q) > minStandardErrors * error
}

/**
 * Describes the first two windows at about the same rate whose shares of requests over the limit
 * differ. Sweeps and windows that were cut are left out.
 */
export function findDisagreements(runs: readonly LoadRun[], limitMs: number): string[] {
  const windows = runs.flatMap((run) =>
    run.load.kind === 'open' &&
    run.load.arrivals.kind !== 'sweep' &&
    run.cutMs === undefined &&
    run.sentMs.length > 0
      ? [{ rateRps: run.load.rateRps, ...overShare(run.latencyMs, limitMs) }]
      : [],
  )
  const found: string[] = []
  for (const [i, a] of windows.entries()) {
    for (const b of windows.slice(i + 1)) {
      if (Math.abs(a.rateRps / b.rateRps - 1) > rateTolerance) continue
      if (!sharesDiffer(a, b)) continue
      const share = ({ over, n }: Share) => `${((100 * over) / n).toFixed(1)} %`
      found.push(
        `two windows at about ${rate(a.rateRps)} disagree: ${share(a)} and then ${share(b)} of requests over the limit`,
      )
    }
  }
  return found.slice(0, 1)
}

/** Describes an unloaded latency that changed significantly and by more than a quarter. */
export function describeSpeedChange(before: LoadRun, after: LoadRun): string[] {
  const [a, b] = [computeLatencyMoments(before.latencyMs), computeLatencyMoments(after.latencyMs)]
  const difference = Math.abs(a.mean - b.mean)
  if (
    !(
      difference > minStandardErrors * Math.hypot(a.standardError, b.standardError) &&
      difference > 0.25 * a.mean
    )
  )
    return []
  const how = b.mean > a.mean ? 'slower' : 'faster'
  return [
    `the server became ${how} during the measurement: one request at a time took ${a.mean.toFixed(1)} ms before and ${b.mean.toFixed(1)} ms after; the capacity mixes both`,
  ]
}
