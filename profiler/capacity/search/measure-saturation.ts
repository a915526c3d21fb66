/** Saturates the server by closed loops, before a pass of the search. */
import { rate } from '../../format.ts'
import type { LoadRun } from '../../model/load-run.ts'
import { exceedsErrorRate } from '../../model/slo.ts'
import { detectQuotaWait } from '../admission-limits/cpu-quota.ts'
import type { SearchResult } from '../capacity-bounds.ts'
import { estimateRemainingGain } from '../changes/speed-change.ts'
import { boundBelow, boundPruned } from '../interval.ts'
import { planConnectionLoop, saturate } from '../saturation.ts'
import type { ObservedServer, SearchContext } from './search-context.ts'

/**
 * A saturation below this share of the capacity to beat prunes the trial. Open-loop throughput can
 * exceed that of closed loops. Assumed: by less than a third (1 / 0.75).
 */
const prunableSaturationShare = 0.75

/** Findings from the closed loops. */
export interface LoopFacts {
  /** Saturation, requests per second. */
  readonly saturationRps: number
  /** Host interference disturbed the loops, so the saturation may be too low. */
  readonly isDisturbed: boolean
  /**
   * Closed loop in which requests were refused. It shows how many requests the server holds (system
   * capacity K: workers and queue).
   */
  readonly refusedLoop: LoadRun | undefined
  /** Share of each CPU-quota period for which the server was throttled. */
  readonly quotaWaitShare: number
}

/**
 * Measures the saturation, and opens the connections for open load. Its time is warm-up, not part
 * of the budget. A `SearchResult` instead of `LoopFacts` ends the search: the server died, or the
 * trial is pruned.
 */
export async function measureSaturation(
  { session, effort, options }: SearchContext,
  { unloaded, refusesBeyondRps, warmUp }: ObservedServer,
): Promise<LoopFacts | SearchResult> {
  const { capacityToBeatRps: toBeatRps = 0, expectedRps } = options
  // No closed loop is applied to a server that refuses them. The saturation is then the rate beyond
  // which it refuses requests.
  if (refusesBeyondRps !== undefined)
    return {
      saturationRps: refusesBeyondRps,
      isDisturbed: false,
      refusedLoop: undefined,
      quotaWaitShare: 0,
    }
  const saturation = await saturate(session, effort, unloaded.point.achievedRps, {
    expectedRps,
    warmUpLoops: warmUp?.windows,
  })
  const { rps: saturationRps } = saturation
  if (saturation.hasDied)
    return {
      outcome: 'server-died',
      ...boundBelow(undefined, 0),
      saturationRps,
      detail: session.describeDeath(saturation.point),
    }
  const remainingGain = estimateRemainingGain(warmUp?.gainPerS ?? 0, session.totalS)
  if (
    !saturation.isGeneratorLimited &&
    !saturation.isDisturbed &&
    saturationRps * (1 + remainingGain) < prunableSaturationShare * toBeatRps
  )
    return {
      outcome: 'pruned',
      ...boundPruned(undefined, saturationRps / prunableSaturationShare, 0, toBeatRps),
      saturationRps,
      detail: `stopped early: saturated at ${rate(saturationRps)}, far below the ${rate(toBeatRps)} needed to win`,
    }
  const connected = await session.connect(
    planConnectionLoop(saturation, session.slo.limitMs, effort.saturationS),
  )
  const isRefused = connected !== undefined && exceedsErrorRate(connected.point, session.slo)
  return {
    saturationRps,
    isDisturbed: saturation.isDisturbed,
    refusedLoop: isRefused ? connected.run : saturation.refusedLoop,
    quotaWaitShare: detectQuotaWait(session.loops),
  }
}
