/** Searches for the capacity by open load, in one or more passes. */
import type { LoadPoint } from '../../model/load-point.ts'
import type { SearchResult } from '../capacity-bounds.ts'
import { detectSlowdown } from '../changes/slowdown.ts'
import type { Effort } from '../effort.ts'
import { identifyWorkers } from '../queue-model/disciplines/workers.ts'
import { estimatePosterior } from '../queue-model/posterior.ts'
import type { Session } from '../session.ts'
import { type SearchOptions, SearchPass } from './search-pass.ts'

/**
 * Further warm-ups of a server that still speeds up, their load as a share of the saturation, and
 * their longest duration in seconds.
 */
const maxWarmings = 2
const warmingLoadShare = 0.8
const maxWarmingS = 15

/**
 * Searches for the capacity. A server that still speeds up is warmed further and searched again. A
 * pass whose saturation estimate was too low, because of host interference, is repeated once.
 * @param posteriorEstimator estimates the capacity from windows
 * @param workerIdentifier identifies workers from windows and closed loops
 * @param slowdownDetector detects slowdowns
 */
export async function searchOpenLoop(
  session: Session,
  effort: Effort,
  idle: LoadPoint,
  options: SearchOptions,
  posteriorEstimator = estimatePosterior,
  workerIdentifier = identifyWorkers,
  slowdownDetector = detectSlowdown,
): Promise<SearchResult> {
  const points = session.points.length
  let warmings = 0
  let isLast = false
  for (;;) {
    const search = new SearchPass(
      session,
      effort,
      idle,
      { ...options, isLast },
      posteriorEstimator,
      workerIdentifier,
      slowdownDetector,
    )
    const found = await search.run()
    if (search.isCold && warmings++ < maxWarmings) {
      const halfAsLongS = Math.min(maxWarmingS, Math.max(2, session.totalS / 2))
      await session.open(
        warmingLoadShare * found.saturationRps,
        halfAsLongS,
        options.seed,
        'warm-up',
      )
      await options.warmUp?.recheckGain()
    } else if (search.saturationTooLow && !isLast) isLast = true
    else return found
    session.forget(points)
    session.startBudget()
  }
}
