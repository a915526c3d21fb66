/** Saturates the server by closed loops, before a pass of the search. */
import { rate } from '../../format.ts'
import type { LoadRun } from '../../model/load-run.ts'
import { exceedsErrorRate } from '../../model/slo.ts'
import { detectQuotaWait } from '../admission-limits/cpu-quota.ts'
import type { SearchResult } from '../capacity-bounds.ts'
import { boundBelow, boundPruned } from '../interval.ts'
import { planOpeningLoop, saturate } from '../saturation.ts'
import type { ObservedServer, SearchContext } from './search-context.ts'

/**
 * A saturation below this share of the capacity to beat prunes the trial. On some servers open load
 * exceeds the throughput of closed loops; by less than a third is assumed.
 */
const prunableSaturationShare = 0.75

/** What the closed loops showed. */
export interface LoopFacts {
  /** Saturation, requests per second. */
  readonly saturationRps: number
  /** Host interference disturbed the loops, so the saturation may be too low. */
  readonly isDisturbed: boolean
  /** A loop that the server refused, which shows its system capacity. */
  readonly refusedLoop: LoadRun | undefined
  /** Share of each CPU-quota period that the server waited. */
  readonly quotaWaitShare: number
}

/**
 * Measures the saturation, and opens the connections for open load. Its time is warm-up, not part
 * of the budget. Returns a result where the saturation already ends the search.
 */
export async function measureSaturation(
  { session, effort, options }: SearchContext,
  { unloaded, refusesBeyondRps, warmUp }: ObservedServer,
): Promise<LoopFacts | SearchResult> {
  const { capacityToBeatRps: toBeatRps = 0, expectedRps } = options
  if (refusesBeyondRps !== undefined)
    return {
      saturationRps: refusesBeyondRps,
      isDisturbed: false,
      refusedLoop: undefined,
      quotaWaitShare: 0,
    }
  const found = await saturate(session, effort, unloaded.point.achievedRps, {
    expectedRps,
    warmed: warmUp?.windows,
  })
  const { rps: saturationRps } = found
  if (found.died)
    return {
      outcome: 'server-died',
      ...boundBelow(undefined, 0),
      saturationRps,
      detail: session.describeDeath(found.point),
    }
  const remainingGain = ((warmUp?.gainPerS ?? 0) * session.totalS) / 2
  if (
    !found.generatorLimited &&
    !found.disturbed &&
    saturationRps * (1 + remainingGain) < prunableSaturationShare * toBeatRps
  )
    return {
      outcome: 'pruned',
      ...boundPruned(undefined, saturationRps / prunableSaturationShare, 0, toBeatRps),
      saturationRps,
      detail: `stopped early: saturated at ${rate(saturationRps)}, far below the ${rate(toBeatRps)} needed to win`,
    }
  const opened = await session.connect(
    planOpeningLoop(found, session.slo.limitMs, effort.saturationS),
  )
  const isRefused = opened !== undefined && exceedsErrorRate(opened.point, session.slo)
  return {
    saturationRps,
    isDisturbed: found.disturbed,
    refusedLoop: isRefused ? opened.run : found.refusedLoop,
    quotaWaitShare: detectQuotaWait(session.loops),
  }
}
