/** Searches for the capacity by open load, in one or more passes. */
import type { LoadPoint } from '../../model/load-point.ts'
import type { SearchResult } from '../capacity-bounds.ts'
import { detectSlowdown } from '../changes/speed-change.ts'
import type { Effort } from '../effort.ts'
import { identifyWorkers } from '../queue-model/disciplines/workers.ts'
import { estimatePosterior } from '../queue-model/posterior.ts'
import type { Session } from '../session.ts'
import { type SearchOptions, SearchPass } from './search-pass.ts'

/** Further warm-ups of a server that still speeds up at the end of a pass. */
const maxWarmUps = 2
/** Load of such a warm-up, as a share of the saturation. */
const warmUpLoadShare = 0.8
/** Longest such warm-up, seconds. */
const maxWarmUpS = 15

/**
 * Searches for the capacity. Where the server was still speeding up, it is warmed further and the
 * pass is repeated. A pass whose saturation estimate was too low, because of host interference, is
 * repeated once.
 * @param posteriorEstimator estimates the capacity from windows
 * @param workerIdentifier identifies workers from windows and closed loops
 * @param slowdownDetector detects slowdowns
 */
export async function searchOpenLoop(
  session: Session,
  effort: Effort,
  unloaded: LoadPoint,
  options: SearchOptions,
  posteriorEstimator = estimatePosterior,
  workerIdentifier = identifyWorkers,
  slowdownDetector = detectSlowdown,
): Promise<SearchResult> {
  const points = session.points.length
  let warmUps = 0
  let isLast = false
  for (;;) {
    const search = new SearchPass(
      session,
      effort,
      unloaded,
      { ...options, isLast },
      posteriorEstimator,
      workerIdentifier,
      slowdownDetector,
    )
    const found = await search.run()
    if (search.isCold && warmUps++ < maxWarmUps) {
      // Half as long as the server was under load so far.
      const warmUpS = Math.min(maxWarmUpS, Math.max(2, session.totalS / 2))
      await session.open(warmUpLoadShare * found.saturationRps, warmUpS, options.seed, 'warm-up')
      await options.warmUp?.recheckGain()
    } else if (search.saturationTooLow && !isLast) isLast = true
    else return found
    session.forget(points)
    session.startBudget()
  }
}
