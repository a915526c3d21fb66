/** Caveats where windows of a measurement disagree. */

import { rate } from '../format.ts'
import type { LoadRun } from '../model/load-run.ts'
import { computeCriticalStandardErrors } from '../statistics/change-detector.ts'
import { computeViolationShare, type ViolationShare } from '../statistics/dependence.ts'

/** Windows whose rates differ by at most this share are compared. Assumed. */
const rateTolerance = 0.05

type Share = Pick<ViolationShare, 'n' | 'violations' | 'nEff'>

/** Whether shares of requests over the limit differ significantly. */
export function doSharesDiffer(a: Share, b: Share): boolean {
  const difference = a.violations / a.n - b.violations / b.n
  const pooled = (a.violations + b.violations) / (a.n + b.n)
  const error = Math.sqrt(pooled * (1 - pooled) * (1 / a.nEff + 1 / b.nEff))
  return Math.abs(difference) > computeCriticalStandardErrors() * error
}

/**
 * Describes the first two windows at about the same rate whose shares of requests over the limit
 * differ; empty where none do. Sweeps and windows that were cut are left out.
 */
export function findDisagreements(runs: readonly LoadRun[], limitMs: number): string[] {
  const windows = runs.flatMap((run) =>
    run.load.kind === 'open' &&
    run.load.arrivals.kind !== 'sweep' &&
    run.cutMs === undefined &&
    run.sentMs.length > 0
      ? [{ rateRps: run.load.rateRps, ...computeViolationShare(run.latencyMs, limitMs) }]
      : [],
  )
  for (const [i, a] of windows.entries()) {
    for (const b of windows.slice(i + 1)) {
      if (Math.abs(a.rateRps / b.rateRps - 1) > rateTolerance || !doSharesDiffer(a, b)) continue
      return [
        `two windows at about ${rate(a.rateRps)} disagree: ${formatShare(a)} and then ${formatShare(b)} of requests over the limit`,
      ]
    }
  }
  return []
}

/** Formats the share of requests over the limit: '1.2 %'. */
export const formatShare = ({ violations, n }: Pick<ViolationShare, 'n' | 'violations'>): string =>
  `${((100 * violations) / n).toFixed(1)} %`
