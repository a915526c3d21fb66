/** The capacity by open load. */
import type { LoadPoint } from '../../model/load-point.ts'
import { slowdownSeen } from '../changes/slowdown.ts'
import type { Effort } from '../effort.ts'
import type { Searched } from '../capacity-bounds.ts'
import { capacityPosterior } from '../queue-model/posterior.ts'
import { OpenSearch, type OpenSearchOptions } from './search-pass.ts'
import type { Session } from '../session.ts'
import { workersSeen } from '../queue-model/disciplines/workers.ts'

/**
 * Times that a server which still gets faster is warmed further, the share of its saturation that
 * does it, and the longest, seconds.
 */
const mostWarmings = 2
const warming = 0.8
const longestWarmingS = 15

/**
 * Searches for the capacity. A server that still gets faster is warmed further, and searched anew;
 * so is, once, one that outgrew the closed loops, as the machine spoilt them.
 * @param posteriorOf what the windows say of the capacity
 * @param workersOf the workers that they, and closed loops, tell of
 * @param slowdownOf where they show that the server got slower
 */
export async function openSearch(
  session: Session,
  effort: Effort,
  idle: LoadPoint,
  options: OpenSearchOptions,
  posteriorOf = capacityPosterior,
  workersOf = workersSeen,
  slowdownOf = slowdownSeen,
): Promise<Searched> {
  const points = session.points.length
  let warmings = 0
  let isLast = false
  for (;;) {
    const search = new OpenSearch(
      session,
      effort,
      idle,
      { ...options, isLast },
      posteriorOf,
      workersOf,
      slowdownOf,
    )
    const found = await search.run()
    if (search.cold && warmings++ < mostWarmings) {
      const halfAsLongS = Math.min(longestWarmingS, Math.max(2, session.totalS / 2))
      await session.open(warming * found.saturationRps, halfAsLongS, options.seed, 'warm-up')
      await options.warmUp?.lookAgain()
    } else if (search.outgrown && !isLast) isLast = true
    else return found
    session.forget(points)
    session.startBudget()
  }
}
